"""One step of a run: batch, sequence, optimizer, recompute, attention and loss.

Sources: transformers' training_args.py, trainer.py and trainer_optimizer.py, TRL's configs.
"""

from __future__ import annotations

from math import ceil

from trainfit.launch.models import config_of
from trainfit.launch.settings import Setting
from trainfit.launch.transformers import grpo
from trainfit.launch.transformers.changes import (
    CHECKPOINTS,
    CHUNKS_LOSS,
    CUTS_NO_PROMPTS,
    EMBEDDING_MOMENTS_IN_FP32,
    FUSED_STEP,
    FUSED_STEP_OF_TORCH,
    LOSS_SHIFTS_LABELS,
    LOSS_WIDENS_LOGITS,
    NOT_REENTRANT,
    SDPA_SINCE,
    TRL_IS_NOT_REENTRANT,
)
from trainfit.launch.transformers.engine import TrainerEngine, put_communication
from trainfit.launch.transformers.evaluating import TRAINERS_BATCH, check_evaluation
from trainfit.launch.transformers.experts import put_experts
from trainfit.launch.transformers.run import IN_PAIRS, TrainerRun, is_trl, need
from trainfit.launch.transformers.source import as_bool, as_int
from trainfit.specs.optimizers import OPTIMIZERS, OptimizerChoice, choices

MICRO_BATCH = "/training/micro_batch_size"
MICRO_BATCHES = "/training/num_microbatches"
LENGTH = "/training/seq_length"
RECOMPUTE = "/training/recompute/granularity"

TRL_LENGTH = 1024
CLM_LENGTH = 1024
"""Of transformers' examples/pytorch/language-modeling/run_clm.py."""
PROMPT = 512
"""Tokens of GRPOConfig's prompts, where they are cut."""
TRL_CHUNK = 256
"""Tokens whose loss TRL computes at once (sft_trainer.py)."""


def put_batch(run: TrainerRun, num_gpus: int | None) -> int | None:
    """Set the batch: TrainingArguments count, and DeepSpeed's own numbers where it has them."""
    draft, arguments = run.draft, run.arguments
    size, steps = (arguments.get(key) for key in BATCH_KEYS)
    launched = run.accelerate.get("gradient_accumulation_steps")
    if run.deepspeed is not None:
        size, steps = _agreed(run, size, BATCH_KEYS[0]), _agreed(run, steps, BATCH_KEYS[1])
    steps = steps or (launched if launched and launched.value != "auto" else None)
    pair = 2 if run.trainer.kind in IN_PAIRS else 1
    number = None if size is None else as_int(size.value)
    if size is not None and number is None:
        draft.complain(size, f"{size.value!r} is no number of samples")
    elif size is not None and number is not None:
        draft.put(MICRO_BATCH, number * pair, size)
    elif run.deepspeed is None or _total(run) is None:
        if run.trainer.kind != "script":
            number = TRAINERS_BATCH
            draft.default(MICRO_BATCH, TRAINERS_BATCH * pair, "transformers")
        need(draft, MICRO_BATCH, "nothing says how many samples a GPU takes at once")
    if steps is not None:
        draft.put(MICRO_BATCHES, steps.value, steps)
    _put_total(run, number, steps, num_gpus)
    return number


BATCH_KEYS = ("per_device_train_batch_size", "gradient_accumulation_steps")
DEEPSPEEDS = {
    "per_device_train_batch_size": "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
}


def _agreed(run: TrainerRun, argument: Setting | None, key: str) -> Setting | None:
    """DeepSpeed's number, which has to be that of the arguments unless it is auto."""
    assert run.deepspeed is not None
    own = run.deepspeed.get(DEEPSPEEDS[key])
    if own is None or own.value == "auto":
        if own is not None and argument is None and run.trainer.kind == "script":
            pointer = MICRO_BATCH if key == BATCH_KEYS[0] else MICRO_BATCHES
            need(run.draft, pointer, f"auto is what --{key} says, which is not given", own)
        return argument
    if argument is not None and as_int(argument.value) != as_int(own.value):
        run.draft.complain(own, f"{own.value} differs from {argument.where} {argument.value}")
    return own


def _total(run: TrainerRun) -> Setting | None:
    """DeepSpeed's batch of all ranks together."""
    total = run.deepspeed.get("train_batch_size") if run.deepspeed is not None else None
    return None if total is None or total.value == "auto" else total


def _put_total(
    run: TrainerRun, size: int | None, steps: Setting | None, num_gpus: int | None
) -> None:
    """Any two of train_batch_size, micro-batch and accumulation give the third; a micro-batch of no
    sample, which no job may have, gives none.
    """
    setting = _total(run)
    total = None if setting is None else as_int(setting.value)
    if setting is None or num_gpus is None or size == 0:
        return
    if total is None:
        run.draft.complain(setting, f"{setting.value!r} is no number of samples")
        return
    count = as_int(steps.value) if steps is not None else None
    if size is None:
        if total % (num_gpus * (count or 1)):
            words = f"{total} samples do not divide over {num_gpus} GPUs and {count or 1} steps"
            run.draft.complain(setting, words)
            return
        run.draft.put(MICRO_BATCH, total // (num_gpus * (count or 1)), setting)
    elif count is not None and size * count * num_gpus != total:
        words = f"{total} is not {size} samples x {count} steps x {num_gpus} GPUs"
        run.draft.complain(setting, words)
    elif count is None and total % (size * num_gpus) == 0:
        run.draft.put(MICRO_BATCHES, total // (size * num_gpus), setting)
    elif count is None:
        run.draft.complain(setting, f"{total} is no multiple of {size} x {num_gpus} GPUs")


LENGTHS = (
    "max_length",
    "cutoff_len",
    "block_size",
    "model_max_length",
    "seq_length",
    "seq_len",
    "max_seq_len",
)
"""Keys by which scripts give the length of a sample, the one that counts first."""


def put_length(run: TrainerRun) -> int | None:
    """Set the length of a sample: the longest, which packed ones all have."""
    given = [each for key in LENGTHS if (each := run.arguments.get(key)) is not None]
    length = None
    if given:
        length = as_int(given[0].value)
        multiple = run.arguments.get("pad_to_multiple_of")
        wanted = as_int(multiple.value) if multiple is not None else None
        if length is not None and multiple is not None and wanted:
            length = ceil(length / wanted) * wanted
            run.draft.put(LENGTH, length, given[0], multiple)
        elif length is not None and length > 0:
            run.draft.put(LENGTH, length, given[0])
        else:
            run.draft.complain(given[0], f"{given[0].value!r} is no number of tokens")
    elif run.trainer.kind in ("grpo", "other") and (generated := _generated(run)):
        length = generated
    elif _is_run_clm(run):
        length = CLM_LENGTH
        run.draft.default(LENGTH, CLM_LENGTH, "run_clm.py")
    elif is_trl(run) and run.trainer.kind != "grpo":
        unlimited = run.arguments.settings.get("max_length")
        if unlimited is not None:
            need(run.draft, LENGTH, "without max_length the longest sample decides", unlimited)
        else:
            length = TRL_LENGTH
            run.draft.default(LENGTH, TRL_LENGTH, "TRL")
    need(run.draft, LENGTH, "nothing says how long a sample is")
    run.arguments.get("packing")
    return length


def _generated(run: TrainerRun) -> int | None:
    """A prompt and what is generated behind it."""
    prompt, completion = (
        run.arguments.get(key) for key in ("max_prompt_length", "max_completion_length")
    )
    given = [each for each in (prompt, completion) if each is not None]
    lengths = [as_int(each.value) for each in given]
    total = sum(each or 0 for each in lengths)
    if run.trainer.kind == "grpo":
        if prompt is None and run.releases.has(CUTS_NO_PROMPTS):
            return None
        total += PROMPT if prompt is None else 0
        total += grpo.COMPLETION if completion is None else 0
    elif len(given) < 2:
        return None
    if given and total:
        run.draft.put(LENGTH, total, *given)
    elif total:
        run.draft.default(LENGTH, total, "TRL")
    return total or None


def _is_run_clm(run: TrainerRun) -> bool:
    return (run.program.name or "").rpartition("/")[2] == "run_clm.py"


OPTIMS = choices("transformers")
"""Of transformers' OptimizerNames those that are modelled. torch's own run foreach where nothing
says fused; bitsandbytes has one kernel, and states in fp32 unless they have 8 bits."""
DEEPSPEEDS_OPTIMIZERS = choices("deepspeed")


def put_optimizer(run: TrainerRun) -> None:
    """Set the optimizer: DeepSpeed's own where its config has one, else Trainer's."""
    own = run.deepspeed.get("optimizer.type") if run.deepspeed is not None else None
    given = run.arguments.get("optim")
    if run.arguments.is_on("adafactor"):
        given, name = run.arguments.get("adafactor"), "adafactor"
    else:
        name = run.arguments.word("optim")
    if own is not None:
        _put_step(run, own, DEEPSPEEDS_OPTIMIZERS.get(str(own.value).lower()))
    elif given is not None:
        _put_step(run, given, OPTIMS.get(name))
    elif run.trainer.kind != "script":
        fused = run.releases.has(FUSED_STEP) and run.releases.has(FUSED_STEP_OF_TORCH)
        implementation = "fused" if fused else "foreach"
        whose = "transformers with PyTorch 2.8 or later" if fused else "transformers"
        run.draft.default("/training/optimizer/implementation", implementation, whose)
    else:
        run.draft.default("/training/optimizer/name", "adam", "Trainfit: nothing names another")


def _put_step(run: TrainerRun, setting: Setting, choice: OptimizerChoice | None) -> None:
    if choice is None:
        run.draft.leave_out(setting, "the states of this optimizer are not modelled")
        return
    at = "/training/optimizer"
    run.draft.put(f"{at}/name", choice.name, setting)
    run.draft.put(f"{at}/implementation", choice.implementation, setting)
    if choice.paged:
        run.draft.put(f"{at}/paged", True, setting)
    narrow = OPTIMIZERS[choice.name].of_bitsandbytes
    if narrow and not run.releases.has(EMBEDDING_MOMENTS_IN_FP32):
        run.draft.default(f"{at}/embedding_moments_in_fp32", False, "transformers before 4.52")
    if choice.moments is not None:
        run.draft.put(f"{at}/exp_avg_dtype", choice.moments, setting)
    if choice.moments is not None and OPTIMIZERS[choice.name].moments == 2:
        run.draft.put(f"{at}/exp_avg_sq_dtype", choice.moments, setting)


def put_recompute(run: TrainerRun, engine: TrainerEngine) -> None:
    """Set whether each layer's activations are made again; TRL does so unless told otherwise."""
    setting = run.arguments.get("gradient_checkpointing")
    if setting is not None and run.arguments.is_on("gradient_checkpointing"):
        run.draft.put(RECOMPUTE, "full", setting)
        _put_reentrant_by_release(run, engine)
    elif setting is None and is_trl(run) and run.releases.has(CHECKPOINTS):
        run.draft.default(RECOMPUTE, "full", "TRL")
        _put_reentrant_by_release(run, engine)
    if run.arguments.is_on("activation_offloading"):
        offloading = run.arguments.get("activation_offloading")
        assert offloading is not None
        run.draft.put("/training/offload_activations", True, offloading)


REENTRANT = "/training/recompute/use_reentrant"


def reentrant_matters(engine: TrainerEngine) -> bool:
    """Whether it says that layers run again in a backward of their own, which holds what was
    made again: FSDP1 does not prefetch them then, and keeps the inputs of frozen ones.
    """
    return engine.name in ("ddp", "fsdp1")


def reentrant_is_said(
    run: TrainerRun, key: str = "gradient_checkpointing_kwargs.use_reentrant"
) -> bool:
    """Set how layers run again as a key says it, and tell whether it does."""
    setting = run.arguments.get(key)
    if setting is not None:
        run.draft.put(REENTRANT, run.arguments.is_on(key), setting)
    return setting is not None


def _put_reentrant_by_release(run: TrainerRun, engine: TrainerEngine) -> None:
    if not reentrant_matters(engine) or reentrant_is_said(run):
        return
    of_trl = is_trl(run) and run.releases.has(TRL_IS_NOT_REENTRANT)
    if not (of_trl or run.releases.has(NOT_REENTRANT)):
        run.draft.default(REENTRANT, True, "transformers before 5.0")


BACKENDS = {"eager": "eager", "sdpa": "sdpa"}
FLASH = ("flash_attention_2", "flash_attention_3", "flash_attention_4", "flash-attn", "fa2")


def put_attention(run: TrainerRun) -> None:
    """Set the kernel of attention, where it is not torch's own."""
    setting = run.arguments.get("attn_implementation")
    if run.arguments.is_on("use_flash_attention_2"):
        setting = setting or run.arguments.get("use_flash_attention_2")
        name = "flash_attention_2"
    else:
        name = run.arguments.word("attn_implementation")
    if setting is None:
        model_type = (config_of(run.draft) or {}).get("model_type")
        sdpa = SDPA_SINCE.get(str(model_type))
        if sdpa is not None and not run.releases.has(sdpa):
            run.draft.default("/training/attention/backend", "eager", "transformers")
        return
    hub = name.rpartition("/")[2].partition("@")[0].partition(":")[0]
    if name in BACKENDS:
        run.draft.put("/training/attention/backend", BACKENDS[name], setting)
    elif name in FLASH or hub in HUB_KERNELS:
        run.draft.put("/training/attention/backend", "flash", setting)
    else:
        run.draft.leave_out(setting, "what this kernel of attention keeps is not modelled")


HUB_KERNELS = ("flash-attn", "flash-attn2", "flash-attn3", "vllm-flash-attn3", "flash-attn4")


def put_loss(run: TrainerRun, size: int | None, length: int | None) -> None:
    """Set how the loss is computed, how experts run, and which kernels are fused or compiled."""
    draft, arguments = run.draft, run.arguments
    liger = arguments.is_on("use_liger_kernel")
    if liger:
        setting = arguments.get("use_liger_kernel")
        assert setting is not None
        draft.put("/framework/liger_kernel", True, setting)
    _put_compiled(run)
    put_experts(run)
    if run.trainer.kind in ("reward", "rewards"):
        assert run.trainer.named is not None
        draft.put("/training/loss/objective", "reward", run.trainer.named)
        return
    if run.trainer.kind in ("dpo", "orpo", "grpo"):
        return
    if run.trainer.kind == "values":
        if not liger:
            draft.default("/training/loss/cross_entropy", "cut", "a loss of values, not of logits")
        return
    sft = run.trainer.kind == "sft" and size is not None and length is not None
    if (
        not (sft and _put_chunked(run, ceil((size or 0) * (length or 0) / TRL_CHUNK), liger))
        and not liger
    ):
        _put_models_loss(run)


def _put_chunked(run: TrainerRun, chunks: int, liger: bool) -> bool:
    """Set TRL's loss where it is in chunks, and tell whether it is."""
    draft, kind = run.draft, run.arguments.get("loss_type")
    if kind is None and not liger and run.releases.has(CHUNKS_LOSS):
        draft.default("/training/loss/cross_entropy", "chunked_nll", "TRL")
        draft.default("/training/loss/num_chunks", chunks, "TRL")
        return True
    if kind is not None and kind.value == "chunked_nll":
        draft.put("/training/loss/cross_entropy", "chunked_nll", kind)
        draft.put("/training/loss/num_chunks", chunks, kind)
        return True
    if kind is not None and kind.value != "nll":
        draft.leave_out(kind, "what this loss keeps is not modelled")
    return False


def _put_models_loss(run: TrainerRun) -> None:
    """Set what the model's own loss shifts, which was the logits before it was the labels."""
    if run.releases.has(LOSS_SHIFTS_LABELS):
        return
    widened = not run.releases.has(LOSS_WIDENS_LOGITS)
    shifted = "fp32_logits" if widened else "logits"
    run.draft.default("/training/loss/shifted", shifted, "transformers")


def _put_compiled(run: TrainerRun) -> None:
    """torch.compile is on with its switch, or with a backend or a mode of it."""
    keys = ("torch_compile_backend", "torch_compile_mode")
    given: list[Setting] = [each for key in keys if (each := run.arguments.get(key))]
    switch = run.arguments.get("torch_compile")
    if switch is not None and run.arguments.is_on("torch_compile"):
        given.insert(0, switch)
    backend = run.accelerate.get("dynamo_backend")
    if backend is not None and as_bool(backend.value) is not False:
        given.append(backend)
    if given:
        run.draft.put("/framework/compile", True, *given)
    for key, source in (("torch_compile_mode", run.arguments), ("dynamo_mode", run.accelerate)):
        mode = source.get(key)
        if mode is not None and mode.value != "default":
            run.draft.leave_out(mode, "CUDA graphs and tuned kernels of this mode are not modelled")
    for setting in given:
        if setting.key.endswith("backend") and str(setting.value).lower() != "inductor":
            run.draft.leave_out(setting, "what this backend compiles is not modelled")


def put_step(run: TrainerRun, engine: TrainerEngine, num_gpus: int | None) -> None:
    """Set all that a step is made of but the data types and the adapters."""
    size = put_batch(run, num_gpus)
    length = put_length(run)
    put_optimizer(run)
    put_recompute(run, engine)
    put_attention(run)
    put_loss(run, size, length)
    put_communication(run, engine)
    check_evaluation(run, size)
