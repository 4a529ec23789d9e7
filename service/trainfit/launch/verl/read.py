"""A launch of verl's PPO trainer -> a draft of the job that updates its actor."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import ceil, prod

from trainfit.launch.allocator import grows_segments
from trainfit.launch.documents import document_of, mapping_in
from trainfit.launch.dotlist import assignments, values_of
from trainfit.launch.draft import Draft, Reading
from trainfit.launch.effects import Effect
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.keys import table_of
from trainfit.launch.models import config_of, put_model, told_by_its_end
from trainfit.launch.program import Program, Word
from trainfit.launch.settings import Setting, settings_of
from trainfit.launch.values import flag, size, whole
from trainfit.launch.verl import megatron, sft
from trainfit.launch.verl.beside import ON_THE_CARD, RESERVED, leave_out, leave_out_beside
from trainfit.launch.verl.keys import (
    ACTOR,
    ALWAYS_ENTROPY,
    DTYPES,
    FSDP,
    LATEST,
    MODEL,
    OPTIMIZER,
    PADS,
    RELEASES,
    ROLLOUT,
    STRATEGIES,
)
from trainfit.specs.launch import LaunchFile

TRAINER = re.compile(r"(.*[./])?verl[./]trainer[./](?P<name>\w+?)(\.py)?|main_ppo(\.py)?")
PPO = "main_ppo"
SECTION = "actor_rollout_ref"
ENGINE = "model_engine"
ENGINES = ("dp", "megatron")


def recognises(program: Program) -> bool:
    """By its module; files by the actor in them."""
    if program.name is None:
        return any(_is_config(file) for file in program.files.values())
    return TRAINER.fullmatch(program.name) is not None


def _is_config(file: LaunchFile) -> bool:
    return SECTION in (mapping_in(file, SECTION) or ())


def read(program: Program, draft: Draft, version: str | None) -> None:
    """Read a launch as the release of this name takes it; unset: the latest."""
    release = _release(version)
    trainer = _trainer(program)
    file, words, named = _config(program)
    settings = _settings(file, list(assignments(words)), draft)
    for key in {f"{MODEL}.path", *sft.MODEL_PATHS} & settings.keys():
        settings[key] = told_by_its_end(settings[key])
    if trainer in sft.TRAINERS:
        actor = sft.as_actor(settings, program, draft, trainer)
        _read_fsdp(actor, program, draft, release, alone=trainer)
        return
    chosen = _engine(settings) or settings.get(f"{ACTOR}.strategy", named)
    if chosen is not None and (chosen is named or chosen.value == "megatron"):
        _read_megatron(settings, chosen, program, draft, release)
    else:
        _read_fsdp(settings, program, draft, release)


def _engine(settings: Mapping[str, Setting]) -> Setting | None:
    """What chooses the engine of all models at once. Raises LaunchError for one that is not read.
    Source: verl/trainer/config/model_engine.
    """
    setting = settings.get(ENGINE)
    if setting is not None and setting.value not in ENGINES:
        message = f"of verl's engines {' and '.join(ENGINES)} are read"
        raise LaunchError(Complaint.at(setting, message))
    return setting


def _read_fsdp(
    settings: Mapping[str, Setting],
    program: Program,
    draft: Draft,
    release: str,
    *,
    alone: str | None = None,
) -> None:
    """The actor under FSDP, or what a trainer that is `alone` trains as it, with nothing beside."""
    reading = Reading(settings, draft, values_of(settings))
    reading.get(ENGINE)
    whose = f"verl {release}"
    draft.default("/framework/name", "transformers", whose)
    draft.default("/framework/sync_each_micro_batch", True, whose)
    _model(reading, draft, program, whose)
    sp = _layout(reading, draft, whose)
    sample = sft.SAMPLE if alone else SAMPLE
    _batch(reading, draft, whose, sample, sequence_ranks=sp, replica_ranks=sp)
    _precision(reading, draft, whose)
    _optimizer(reading, draft)
    _recompute(reading, draft, whose)
    if alone == sft.OLDER:
        sft.put_older_loss(reading, draft)
    else:
        _loss(reading, draft, release)
    if not alone:
        leave_out_beside(reading, draft)
    _segments(program, draft)
    keys = table_of(__package__, "sft") if alone else table_of(__package__)
    reading.close(keys, _targets(settings))


def _read_megatron(
    settings: Mapping[str, Setting],
    chosen: Setting,
    program: Program,
    draft: Draft,
    release: str,
) -> None:
    """Keys of the engine are Megatron's; batches, the loss and what shares the card are verl's."""
    if release != LATEST:
        message = f"verl's Megatron actor is read as {LATEST} has it"
        raise LaunchError(Complaint(f"framework_version: {message}"))
    whose = f"verl {release}"
    engine = {key: each for key, each in settings.items() if megatron.is_argument(key)}
    others = {key: each for key, each in settings.items() if key not in engine}
    reading = Reading(others, draft, values_of(others))
    reading.get(f"{ACTOR}.strategy")
    reading.get(ENGINE)
    _put_model(reading, draft, program)
    _gpus(reading, draft, whose)
    sequence, replica = megatron.ranks(engine)
    _batch(reading, draft, whose, SAMPLE, sequence_ranks=sequence, replica_ranks=replica)
    if (optimizer := reading.get(f"{OPTIMIZER}.optimizer")) is not None:
        engine[f"{OPTIMIZER}.optimizer"] = optimizer
    megatron.read_engine(engine, chosen, draft, whose)
    _entropy(reading, draft, release)
    _fused_kernels(reading, draft)
    if draft.overridden(RESERVED) is None:
        megatron.keep_reference(reading, draft, f"what the reference model holds {ON_THE_CARD}")
    leave_out_beside(reading, draft)
    _segments(program, draft)
    reading.close(table_of(__package__) | table_of(__package__, "megatron"), _targets(others))


def _targets(settings: Mapping[str, Setting]) -> set[str]:
    """Keys that name the dataclass of a section."""
    return {key for key in settings if key.endswith("._target_")}


def _segments(program: Program, draft: Draft) -> None:
    if program.name is None or not grows_segments(program.environment, draft):
        draft.default("/framework/expandable_segments", False, "PyTorch")


def _release(version: str | None) -> str:
    if version is None:
        return LATEST
    named = f"v{version.removeprefix('v')}".partition(".post")[0]
    if named not in RELEASES:
        raise LaunchError(Complaint(f"framework_version: of verl {', '.join(RELEASES)} are known"))
    return named


def _trainer(program: Program) -> str:
    """The trainer that is started; of files alone that of PPO. Raises LaunchError for another."""
    found = TRAINER.fullmatch(program.name) if program.name is not None else None
    name = (found["name"] if found is not None else None) or PPO
    if name not in (PPO, *sft.TRAINERS):
        read = f"{PPO}, {' and '.join(sft.TRAINERS)}"
        message = f"verl's trainer {name} is not read; {read} are"
        raise LaunchError(Complaint(message))
    return name


def _config(program: Program) -> tuple[LaunchFile | None, Sequence[Word], Setting | None]:
    """The YAML file that was sent, the words over it, and what names verl's own config of the
    Megatron actor, which Hydra's options may.
    """
    words, rest = list(program.arguments), []
    named = None
    while words:
        word = words.pop(0)
        if not word.text.startswith("-"):
            rest.append(word)
            continue
        option, equals, value = word.text.partition("=")
        if not equals and words:
            value = words.pop(0).text
        if option in ("--config-name", "-cn") and "megatron" in value:
            named = Setting(option, value, word.file, word.line)
    files = [file for file in program.files.values() if _is_config(file)]
    if len(files) > 1:
        paths = ", ".join(file.path for file in files)
        raise LaunchError(Complaint(f"send one config of verl, not {paths}"))
    return (files[0] if files else None), rest, named


def _settings(
    file: LaunchFile | None, overrides: Sequence[Setting], draft: Draft
) -> dict[str, Setting]:
    found = settings_of(document_of(file, ".yaml"), file.path) if file is not None else {}
    for each in overrides:
        draft.let_count(found, each.key, each)
    return found


def _put_model(reading: Reading, draft: Draft, program: Program) -> None:
    if draft.overridden("/model") is not None:
        reading.pass_by(f"{MODEL}.path")
    else:
        path = reading.get(f"{MODEL}.path")
        if path is not None:
            put_model(draft, program, path)
        draft.require("/model", f"{MODEL}.path names no model; give /model in overrides", path)


def _model(reading: Reading, draft: Draft, program: Program, whose: str) -> None:
    _put_model(reading, draft, program)
    rank_key, target_key = f"{MODEL}.lora_rank", f"{MODEL}.target_modules"
    targets = reading.get(target_key)
    if not reading.value(rank_key, 0, whole):
        return
    rank = reading.get(rank_key)
    assert rank is not None
    draft.put("/training/peft/method", "lora", rank)
    reading.copy(rank_key, "/training/peft/r")
    if targets is None or not reading.copy(target_key, "/training/peft/target_modules"):
        draft.default("/training/peft/target_modules", "all-linear", whose)


def _layout(reading: Reading, draft: Draft, whose: str) -> int:
    """FSDP over all GPUs, or over groups of fsdp_size; Ulysses exchanges heads within sp ranks."""
    strategy = reading.get(f"{ACTOR}.strategy")
    named = str(strategy.value) if strategy is not None else "fsdp"
    engine = STRATEGIES.get(named)
    if strategy is not None and engine is not None:
        draft.put("/framework/data_parallel_engine", engine, strategy)
    elif strategy is not None:
        draft.leave_out(strategy, f"the strategy {named} is not modelled")
    else:
        draft.default("/framework/data_parallel_engine", "fsdp1", whose)
    draft.default("/parallelism/data_parallel_sharding_strategy", "optim_grads_params", whose)
    reading.copy(f"{FSDP}.reshard_after_forward", "/framework/reshard_after_forward", flag)
    offload = f"{FSDP}.offload_policy"
    if named == "fsdp2":
        reading.copy(offload, "/framework/offload_params", flag)
    elif (idle := reading.get(offload)) is not None:
        draft.ignore(idle)
    gpus = _gpus(reading, draft, whose)
    group = reading.value(f"{FSDP}.fsdp_size", -1, whole)
    replicas, rest = divmod(gpus, group) if group > 0 else (1, 0)
    if (setting := reading.get(f"{FSDP}.fsdp_size")) is not None and group > 0:
        if rest:
            draft.complain(setting, f"does not divide {gpus} GPUs")
        elif replicas > 1:
            draft.put("/parallelism/data_parallel_replicate_size", replicas, setting)
    key = f"{ACTOR}.ulysses_sequence_parallel_size"
    inner = f"{FSDP}.ulysses_sequence_parallel_size"
    sp: int = reading.value(key, reading.value(inner, 1, size), size)
    if (setting := reading.get(key) or reading.get(inner)) is not None:
        draft.put("/parallelism/cp", sp, setting)
        if sp > 1:
            draft.put("/parallelism/cp_comm_type", "a2a", setting)
    return sp


def _gpus(reading: Reading, draft: Draft, whose: str) -> int:
    keys = ("trainer.n_gpus_per_node", "trainer.nnodes")
    pointer = "/parallelism/num_gpus"
    overridden = draft.overridden(pointer)
    if isinstance(overridden, int) and overridden > 0:
        node = reading.get(keys[0]) if reading.is_unknown(keys[1]) else None
        if node is not None and overridden % reading.value(keys[0], 1, size):
            draft.complain(node, f"nodes of {node.value} do not make {overridden}")
        for key in keys:
            reading.pass_by(key)
        return overridden
    counts = [reading.value(key, usual, size) for key, usual in zip(keys, (8, 1), strict=True)]
    given = [setting for key in keys if (setting := reading.get(key)) is not None]
    for key in keys:
        if reading.is_unknown(key):
            draft.put(pointer, None, reading.settings[key])
    if given:
        draft.put(pointer, prod(counts), *given)
    else:
        draft.default(pointer, prod(counts), whose)
    return prod(counts)


SAMPLE: Mapping[str, int] = {"data.max_prompt_length": 512, "data.max_response_length": 512}
"""What a sample is made of, and the most tokens of each where nothing else is said."""


def _batch(
    reading: Reading,
    draft: Draft,
    whose: str,
    sample: Mapping[str, int],
    *,
    sequence_ranks: int,
    replica_ranks: int,
) -> None:
    """Either micro-batches of whole samples, or as many tokens as are allowed, packed into one.
    Ranks share a sequence, and others beside them a replica of the model.
    """
    length = sum(reading.value(key, usual, size) for key, usual in sample.items())
    lengths = [each for key in sample if (each := reading.get(key)) is not None]
    micro_key, tokens_key = (
        f"{ACTOR}.ppo_micro_batch_size_per_gpu",
        f"{ACTOR}.ppo_max_token_len_per_gpu",
    )
    dynamic = reading.value(f"{ACTOR}.use_dynamic_bsz", False, flag)
    micro = reading.value(micro_key)
    whole_key = f"{ACTOR}.ppo_micro_batch_size"
    if dynamic:
        tokens = reading.value(tokens_key, 16384, size) * sequence_ranks
        switch = reading.get(f"{ACTOR}.use_dynamic_bsz")
        given = [each for each in (reading.get(tokens_key), switch) if each is not None]
        draft.put("/training/seq_length", tokens, *given)
        draft.default("/training/micro_batch_size", 1, whose)
        samples = tokens / length
    else:
        reading.get(tokens_key)
        if lengths:
            draft.put("/training/seq_length", length, *lengths)
        else:
            draft.default("/training/seq_length", length, whose)
        if micro is not None:
            reading.copy(micro_key, "/training/micro_batch_size", size)
        message = f"give {micro_key}: how many samples a micro-batch has is not said"
        draft.require("/training/micro_batch_size", message, reading.get(whole_key))
        samples = micro if isinstance(micro, int) else 1
    _accumulation(reading, draft, replica_ranks, samples)


def _accumulation(reading: Reading, draft: Draft, replica_ranks: int, samples: float) -> None:
    """Micro-batches of one update: every prompt of a mini-batch has n responses."""
    mini_key, n_key = f"{ACTOR}.ppo_mini_batch_size", f"{ROLLOUT}.n"
    world = draft.overridden("/parallelism/num_gpus") or draft.get("/parallelism/num_gpus")
    prompts, responses = reading.value(mini_key, 256, size), reading.value(n_key, 1, size)
    given = [each for key in (mini_key, n_key) if (each := reading.get(key)) is not None]
    if not isinstance(world, int) or not given:
        return
    of_rank = prompts * responses * replica_ranks / world
    draft.put("/training/num_microbatches", max(1, ceil(of_rank / samples)), *given)


def _precision(reading: Reading, draft: Draft, whose: str) -> None:
    """FSDP gathers in bf16 and reduces in fp32; the actor's own weights are fp32 unless told."""
    section = f"{FSDP}.mixed_precision"
    for key, field, usual in (
        (f"{FSDP}.model_dtype", "params", "fp32"),
        (f"{section}.param_dtype", "compute", "bf16"),
        (f"{section}.reduce_dtype", "gradients", "fp32"),
    ):
        pointer, setting = f"/training/precision/{field}", reading.get(key)
        if setting is None and field == "compute":
            setting = reading.get(f"{FSDP}.dtype")
        if setting is None:
            draft.default(pointer, usual, whose)
        elif str(setting.value) in DTYPES:
            draft.put(pointer, DTYPES[str(setting.value)], setting)
        else:
            draft.leave_out(setting, f"{setting.value} is not modelled")
    if (buffers := reading.get(f"{section}.buffer_dtype")) is not None:
        draft.ignore(buffers)


def _optimizer(reading: Reading, draft: Draft) -> None:
    """torch's AdamW, which steps by lists of tensors."""
    setting = reading.get(f"{OPTIMIZER}.optimizer")
    if setting is not None and setting.value not in ("AdamW", "Adam"):
        draft.leave_out(setting, f"the optimizer {setting.value} of verl is not modelled")
    elif setting is not None:
        draft.put("/training/optimizer/name", "adam", setting)
    draft.default("/training/optimizer/implementation", "foreach", "PyTorch")


def _recompute(reading: Reading, draft: Draft, whose: str) -> None:
    key, pointer = f"{MODEL}.enable_gradient_checkpointing", "/training/recompute/granularity"
    enabled = reading.value(key, True, flag)
    if (setting := reading.get(key)) is None:
        draft.default(pointer, "full", whose)
    elif enabled:
        draft.put(pointer, "full", setting)


def _loss(reading: Reading, draft: Draft, release: str) -> None:
    """Log-probabilities by flash-attn's kernel over logits in their own type, without padding."""
    draft.default("/training/loss/cross_entropy", "fused", "verl with flash-attn")
    _entropy(reading, draft, release, size=_logits(draft) * ENTROPY_BYTES)
    padding = (f"{MODEL}.use_remove_padding", f"{ACTOR}.use_remove_padding")
    usual = release not in PADS
    removed = [reading.value(key, None, flag) for key in padding]
    if not next((each for each in removed if each is not None), usual):
        why = "logits of padded samples are not modelled; set use_remove_padding"
        leave_out(reading, draft, padding, why)
    _fused_kernels(reading, draft)


ENTROPY_BYTES = 4 + 4 + 16
"""Of a logit in fp32: the softmax and a wider copy, which wait for backward, and there at most four
gradients (verl/utils/torch_functional.py: entropy_from_logits; compiled or in chunks it is less).
"""


def _logits(draft: Draft) -> int:
    """Logits [b, s / c, V] that a rank makes at once; 0 where the vocabulary is not known."""
    rows = (config_of(draft) or {}).get("vocab_size") or 0
    length = draft.get("/training/seq_length") or 0
    samples = draft.get("/training/micro_batch_size") or 1
    return int(rows * samples * length // (draft.get("/parallelism/cp") or 1))


def _entropy(reading: Reading, draft: Draft, release: str, *, size: int = 0) -> None:
    """Note an entropy of the logits, which takes so many bytes where that is known."""
    entropy = f"{ACTOR}.entropy_coeff"
    asked = reading.value(f"{ACTOR}.calculate_entropy", False, flag)
    coefficient = reading.value(entropy, 0)
    if asked or coefficient or release in ALWAYS_ENTROPY:
        why = "what the entropy keeps of the logits is not modelled"
        keys = (entropy, f"{ACTOR}.calculate_entropy")
        keys = keys[::-1] if asked else keys
        given = [setting for key in keys if (setting := reading.get(key)) is not None]
        if not size:
            leave_out(reading, draft, keys, why)
            return
        usual = Setting(entropy, 0.001, f"verl {release}", None)
        source = "verl/utils/torch_functional.py: entropy_from_logits"
        effect = Effect("an entropy of all logits besides", "raises", source, bytes=size)
        draft.leave_out(given[0] if given else usual, effect)


def _fused_kernels(reading: Reading, draft: Draft) -> None:
    fused = (f"{MODEL}.use_fused_kernels", f"{ACTOR}.use_fused_kernels")
    on = [each for key in fused if reading.value(key, False, flag) and (each := reading.get(key))]
    for setting in on:
        draft.leave_out(setting, FUSED)


FUSED = Effect(
    "verl's fused kernels of head and loss make logits of 512 tokens at a time",
    "lowers",
    "verl/utils/experimental/torch_functional.py: FusedLinearForPPO",
    within={"/training/loss/cross_entropy": "liger"},
)
