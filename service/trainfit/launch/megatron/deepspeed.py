"""Megatron-DeepSpeed: Megatron-LM's model under DeepSpeed's engine, whose config is a file.

Sources: bigscience-workshop/Megatron-DeepSpeed (megatron/arguments.py, megatron/model/gpt_model.py)
and microsoft/Megatron-DeepSpeed; DeepSpeed's runtime/bf16_optimizer.py and runtime/zero/
stage_1_and_2.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainfit.launch.documents import document_of
from trainfit.launch.draft import Draft, Reading
from trainfit.launch.effects import Effect
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.keys import table_of
from trainfit.launch.missing import not_sent
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting, settings_of
from trainfit.launch.transformers.source import as_int
from trainfit.launch.values import whole

SHARDING = "/parallelism/data_parallel_sharding_strategy"
PRECISION = "/training/precision"
OFFLOADED = "/training/optimizer/cpu_offload_fraction"
BUCKET = 500_000_000
"""Elements of a bucket where the config does not say (runtime/zero/config.py)."""
BUCKETS = 3
"""Two to reduce gradients while the next fills, one to gather weights, each of 2 bytes."""
ACCUMULATES = "data_types.grad_accum_dtype"
"""With fp32 for weights in bf16, the first stage is the engine without one. Source: DeepSpeed's
runtime/engine.py (_do_optimizer_sanity_check)."""
WIDE = ("fp32", "float32")
GROWING = "curriculum_learning"
EXPERTS = (
    "create_moe_param_group",
    "disable_moe_token_dropping",
    "enable_expert_tensor_parallelism",
    "expert_interval",
    "mlp_type",
    "moe_eval_capacity_factor",
    "moe_expert_parallel_size",
    "moe_loss_coeff",
    "moe_min_capacity",
    "moe_train_capacity_factor",
    "topk",
)
"""Arguments of DeepSpeed's experts."""
READ = ("stage", "reduce_bucket_size", "allgather_bucket_size")


@dataclass(frozen=True, slots=True)
class DeepSpeedEngine:
    """What DeepSpeed does with the states: its stage and what says so; `bf16` is of its config."""

    stage: int
    switch: Setting
    setting: Setting
    bf16: bool
    bucket: int
    offloads: Setting | None


def of_deepspeed(settings: Mapping[str, Setting]) -> bool:
    """Whether arguments are those of Megatron-DeepSpeed, where one expert stands for none."""
    return "deepspeed" in settings or any(name in settings for name in EXPERTS)


def read_experts(reading: Reading) -> None:
    """Experts are DeepSpeed's own: other layers have them, and other ranks share them out."""
    experts = reading.settings.get("num_experts")
    if experts is None:
        for name in EXPERTS:
            reading.pass_by(name)
    elif of_deepspeed(reading.settings):
        for each in filter(None, map(reading.get, ("num_experts", *EXPERTS))):
            reading.draft.leave_out(each, "experts of DeepSpeed's own are not modelled")


def engine_of(program: TrainingProgram, reading: Reading) -> DeepSpeedEngine | None:
    """The engine that --deepspeed switches on, if it does. Its file counts before --zero-stage,
    which says the same to Megatron-DeepSpeed itself. Raises LaunchError where that was not sent.
    """
    switch, path = reading.get("deepspeed"), reading.get("deepspeed_config")
    stage, offloads = reading.get("zero_stage"), reading.get("cpu_optimizer")
    for name in ("deepspeed_mpi", "deepspeed_activation_checkpointing", "no_pipeline_parallel"):
        reading.get(name)
    if switch is None or not reading.value("deepspeed"):
        return None
    if path is None:
        setting = stage or switch
        return DeepSpeedEngine(
            reading.value("zero_stage", 0, whole), switch, setting, False, BUCKET, offloads
        )
    file = program.file(str(path.value))
    if file is None:
        raise LaunchError(Complaint.at(path, not_sent(str(path.value), path.unknown)))
    config = Reading(settings_of(document_of(file, ".json"), file.path), reading.draft)
    _read_growing(config, reading.settings.get("seq_length"))
    return _engine(config, switch, stage or path, offloads)


def _engine(
    config: Reading, switch: Setting, setting: Setting, offloads: Setting | None
) -> DeepSpeedEngine:
    """What the file says; sizes of a batch are Megatron's own."""
    zero = {name: _size(config, f"zero_optimization.{name}") for name in READ}
    config.get("zero_optimization.overlap_comm")
    for key in ("train_batch_size", "train_micro_batch_size_per_gpu"):
        config.get(key)
    config.get("gradient_accumulation_steps")
    half = config.value("bf16.enabled") or config.value("bfloat16.enabled")
    config.get("fp16.enabled")
    device = config.get("zero_optimization.offload_optimizer.device")
    config.get("zero_optimization.contiguous_gradients")
    if device is not None and device.value not in (None, "none"):
        offloads = device
    stage = zero["stage"]
    accumulates = config.settings.get(ACCUMULATES)
    if half and stage <= 1 and accumulates is not None and str(accumulates.value) in WIDE:
        config.get(ACCUMULATES)
        stage = 0
    config.close(table_of("trainfit.launch.deepspeed"))
    bucket = max(zero[name] or BUCKET for name in READ[1:])
    said = config.settings.get("zero_optimization.stage", setting)
    return DeepSpeedEngine(stage, switch, said, bool(half), bucket, offloads)


def _read_growing(config: Reading, whole: Setting | None) -> None:
    """Samples that grow step by step are cut off at `max_difficulty`: the peak is that of the
    longest.
    """
    keys = [key for key in config.settings if key.startswith(f"{GROWING}.")]
    switch = config.settings.get(f"{GROWING}.enabled")
    longest = config.settings.get(f"{GROWING}.max_difficulty")
    kind = config.settings.get(f"{GROWING}.curriculum_type")
    on = switch is not None and bool(switch.value)
    if on and (longest is None or kind is None or kind.value != "seqlen"):
        return
    for key in keys:
        config.pass_by(key)
    if not on or longest is None:
        return
    cut = as_int(longest.value)
    length = None if whole is None else as_int(whole.value)
    if cut is None or length is None:
        config.draft.leave_out(longest, "how long the longest sample is is not known")
    elif cut < length:
        why = "sequences that grow are priced as whole"
        within = {"/training/seq_length": cut}
        config.draft.leave_out(longest, Effect(why, "lowers", LOOP, within))


LOOP = "microsoft/Megatron-DeepSpeed megatron/training.py"


def _size(config: Reading, key: str) -> int:
    """A number of the file, which may be written as 5e8; 0 where it says none."""
    setting = config.get(key)
    if setting is None or setting.value in ("auto", None):
        return 0
    number = as_int(setting.value)
    if number is None:
        config.draft.complain(setting, f"{setting.value!r} is no whole number")
    return number or 0


def put_engine(draft: Draft, engine: DeepSpeedEngine) -> None:
    """Set what data-parallel ranks share out. In bf16 the engine without a stage shares states out
    too, and accumulates in fp32; from stage 1 on gradients have the type of the weights.
    """
    if engine.stage >= 3:
        why = "weights that ZeRO shards beside Megatron's parallelism are not modelled"
        draft.leave_out(engine.setting, why)
        return
    precision = draft.get(PRECISION)
    if engine.stage > 0 and precision == "bf16":
        narrow = {"gradients": "bf16", "main_params": "fp32"}
        draft.put(PRECISION, narrow, engine.setting)
    shares = engine.stage > 0 or engine.bf16
    draft.put(SHARDING, "optim" if shares else "no_shard", engine.setting)
    if engine.offloads is not None:
        draft.put(OFFLOADED, 1.0, engine.offloads)
    if shares:
        _leave_out_buffers(draft, engine)
    if engine.stage == 2:
        within = {SHARDING: "optim_grads_params"}
        draft.leave_out(engine.switch, Effect(SHARES_GRADIENTS, "lowers", STAGES, within))


SHARES_GRADIENTS = "gradients that ZeRO shards too are priced as whole"
STAGES = "DeepSpeed's runtime/zero/stage_1_and_2.py"


def _leave_out_buffers(draft: Draft, engine: DeepSpeedEngine) -> None:
    """Beside the states: buckets, and what a micro-batch or a step makes of gradients in another
    type, which is no more than what is shared out of the states.
    """
    effect = Effect(
        "buckets of gradients and weights, and copies of gradients in another type: at most three "
        "buckets, and what a rank would hold of states that were not sharded",
        "raises",
        f"{STAGES}, runtime/bf16_optimizer.py",
        within={SHARDING: "no_shard"},
        bytes=2 * BUCKETS * engine.bucket,
    )
    draft.leave_out(engine.setting, effect)


LOGGED = "log_optimizer_states"


def bound_logged(reading: Reading) -> None:
    """Behind a step, norms of roots of the second moment are logged, one tensor's after the
    other's: of a parameter, or of all that a rank has where states are shared out as one. At most
    as many as layers with a gated network have (training_log).
    """
    setting, draft = reading.get(LOGGED), reading.draft
    if setting is None or not reading.value(LOGGED):
        return
    tp, pp, gpus = (draft.settled(f"/parallelism/{name}") or 1 for name in ("tp", "pp", "num_gpus"))
    names = ("num_layers", "hidden_size", "vocab_size")
    layers, hidden, rows = (draft.settled(f"/model/spec/{name}") for name in names)
    why = "roots of second moments that are logged"
    if not all(isinstance(each, int) for each in (tp, pp, gpus, layers, hidden, rows)):
        draft.leave_out(setting, Effect(why, "raises", LOOP))
        return
    width = draft.settled("/model/spec/ffn_hidden_size") or 4 * hidden
    embedding, gated = rows * hidden, 3 * hidden * width
    most = max(embedding, gated) // tp
    if draft.get(SHARDING) != "no_shard":
        of_rank = (layers * (4 * hidden**2 + gated) // pp + 2 * embedding) // tp
        most = max(most, of_rank * tp * pp // gpus)
    draft.leave_out(setting, Effect(why, "raises", LOOP, bytes=4 * most))
