"""A config of NeMo-RL -> a draft of the job that trains its policy over Megatron.

Sources, of NVIDIA-NeMo/RL at 7ea279a: nemo_rl/models/megatron/setup.py and train.py,
models/policy/workers/megatron_policy_worker.py (use_reference_model: its weights take the place of
the policy's, and wait in host memory), algorithms/loss/wrapper.py (SequencePackingLossWrapper),
distributed/model_utils.py (DistributedLogprob), distributed/batched_data_dict.py, examples/run_*.py
and examples/configs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from trainfit.launch.allocator import VARIABLES, read_allocator
from trainfit.launch.draft import Draft, Reading
from trainfit.launch.effects import Effect
from trainfit.launch.engines import ASLEEP_BYTES, asleep
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.keys import table_of
from trainfit.launch.megatron.arguments import read_arguments
from trainfit.launch.megatron.configs import (
    Field,
    is_argument,
    reading_of,
    sizes_within,
    without_idle_recompute,
)
from trainfit.launch.megatron.options import Defaults, MegatronParser
from trainfit.launch.models import experts_of, put_model, text_config_of
from trainfit.launch.nemo_rl.config import ALGORITHMS, OTHERS, POLICY, is_config, settings_of_run
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.launch.values import flag, size, whole

WHOSE = "NeMo-RL"
PROGRAM = re.compile(r"(.*/)?run_(vlm_)?(?P<algorithm>grpo|dpo|sft)\.py")
MEGATRON = f"{POLICY}.megatron_cfg"
GENERATION = "policy.generation"
OWN = f"{MEGATRON}.env_vars."
"""Variables of the environment that count before those that are set
(distributed/worker_groups.py)."""
BY_TOKENS = (f"{POLICY}.sequence_packing", f"{POLICY}.dynamic_batching")
HALVES = {"bfloat16": "bf16", "float16": "fp16"}
OF_ARGUMENTS = (
    MEGATRON,
    f"{MEGATRON}.model_overrides",
    f"{MEGATRON}.optimizer",
    f"{MEGATRON}.distributed_data_parallel_config",
)
"""Sections of fields of Megatron's dataclasses."""
OTHERWISE = {"activation_checkpointing", "mtp_num_layers", "gradient_accumulation_fusion"}
OF_FSDP = {"data_parallel_sharding_strategy", "use_custom_fsdp"}
USUAL: Mapping[str, Any] = {
    "attention_backend": "auto",
    "attention_dropout": None,
    "hidden_dropout": 0.0,
    "moe_grouped_gemm": True,
    "overlap_grad_reduce": False,
    "overlap_param_gather": False,
}
"""What Megatron-Bridge's providers set, where Megatron-LM's arguments set another; of dropout in
attention it is the config's."""


def recognises(program: TrainingProgram) -> bool:
    """By its scripts beside a config of a policy; files by the sections of a policy."""
    if program.name is not None and PROGRAM.fullmatch(program.name) is None:
        return False
    return any(is_config(file) for file in program.files.values())


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """Keys mean the same in every release that has them. Raises LaunchError."""
    draft.ignore_version(version)
    settings = settings_of_run(program, draft)
    algorithm = _algorithm(program, settings)
    own = {
        key.removeprefix(OWN): settings.pop(key)
        for key in map(OWN.__add__, VARIABLES)
        if key in settings
    }
    engine = {key: each for key, each in settings.items() if _is_engine(key)}
    reading = Reading({key: each for key, each in settings.items() if key not in engine}, draft)
    if not reading.value(f"{MEGATRON}.enabled", False, flag):
        message = "of NeMo-RL's policies those over Megatron are read (policy.megatron_cfg.enabled)"
        raise LaunchError(Complaint(message))
    _put_gpus(reading, draft)
    if (model := reading.get(f"{POLICY}.model_name")) is not None:
        put_model(draft, program, model)
    if draft.settled("/model") is None:
        message = f"{POLICY}.model_name names no model; give it, or /model in overrides"
        raise LaunchError(Complaint(message))
    replicas = _replicas(engine, draft)
    batch = _batch(reading, draft, replicas, pairs=algorithm == "dpo")
    fields = [*batch, *without_idle_recompute(_fields(engine, reading), draft)]
    defaults = Defaults(WHOSE, {**MegatronParser(None).defaults().values, **USUAL}, None)
    read_arguments(reading_of(fields, draft), defaults)
    _bound_routers(reading, settings.get(ROUTER), draft)
    _put_rest(reading, draft)
    _put_loss(reading, draft)
    if algorithm == "grpo":
        _put_engine(reading, draft)
    read_allocator({**program.environment, **own}, draft)
    draft.default("/framework/expandable_segments", False, "PyTorch")
    reading.close(table_of(__package__))


def _algorithm(program: TrainingProgram, settings: Mapping[str, Setting]) -> str:
    """By the script that is started, or by the section that a config has. Raises LaunchError for
    one whose other models are not modelled.
    """
    found = PROGRAM.fullmatch(program.name) if program.name is not None else None
    if found is not None:
        return found["algorithm"]
    sections = {key.partition(".")[0] for key in settings}
    for name in OTHERS:
        if name in sections:
            message = f"what {name} holds beside the policy is not modelled"
            raise LaunchError(Complaint(f"{message}; {', '.join(ALGORITHMS)} are read"))
    return next((name for name in ALGORITHMS if name in sections), "grpo")


def _is_engine(key: str) -> bool:
    section, _, name = key.rpartition(".")
    return section in OF_ARGUMENTS and name not in OTHERWISE | OF_FSDP and is_argument(name)


def _put_gpus(reading: Reading, draft: Draft) -> None:
    """Those of the cluster but what is dedicated to generation, as nodes where there are several
    (algorithms/grpo.py: setup).
    """
    keys = ("cluster.gpus_per_node", "cluster.num_nodes")
    pointer = "/parallelism/num_gpus"
    if draft.overridden(pointer) is not None:
        for key in keys:
            reading.pass_by(key)
        return
    each, nodes = (reading.value(key, 1, size) for key in keys)
    given = [setting for key in keys if (setting := reading.get(key)) is not None]
    apart = f"{GENERATION}.colocated"
    if not reading.value(f"{apart}.enabled", True, flag):
        name = "num_nodes" if nodes > 1 else "gpus_per_node"
        dedicated = reading.value(f"{apart}.resources.{name}", 0, size)
        nodes, each = (nodes - dedicated, each) if nodes > 1 else (nodes, each - dedicated)
    if given:
        draft.put(pointer, nodes * each, *given)
    draft.require(
        pointer, f"the number of GPUs is not said; give {keys[0]}, or {pointer} in overrides"
    )


def _replicas(engine: Mapping[str, Setting], draft: Draft) -> int:
    """How many replicas of the model there are; one where nothing says how many GPUs."""
    world = draft.settled("/parallelism/num_gpus")
    ranks = prod(sizes_within(engine, MEGATRON).values())
    return max(1, world // ranks) if isinstance(world, int) else 1


def _batch(reading: Reading, draft: Draft, replicas: int, *, pairs: bool) -> Iterator[Field]:
    """Samples of the longest length, or as many as make so many tokens, padded or packed, of which
    each of the `replicas` has equally many. Of preferences both samples of a pair count.
    """
    length, micro, batch = (
        f"{POLICY}.{name}"
        for name in (
            "max_total_sequence_length",
            "train_micro_batch_size",
            "train_global_batch_size",
        )
    )
    by_tokens = [name for name in BY_TOKENS if reading.value(f"{name}.enabled", False, flag)]
    tokens = reading.get(f"{by_tokens[0]}.train_mb_tokens") if by_tokens else None
    said = {key: each for key in (length, micro, batch) if (each := reading.get(key)) is not None}
    both = 2 if pairs else 1
    if tokens is not None:
        for each in said.values():
            draft.recognise(each)
        yield Field("seq_length", tokens, tokens.value)
        yield Field("micro_batch_size", tokens, 1)
        packed = reading.value(tokens.key, 0, size)
        if batch in said and packed:
            longest = reading.value(length, packed, size) * both * reading.value(batch, 1, size)
            packs = -(-longest // (packed * replicas)) * replicas
            yield Field("global_batch_size", said[batch], packs)
        return
    for key, name, times in (
        (length, "seq_length", 1),
        (micro, "micro_batch_size", both),
        (batch, "global_batch_size", both),
    ):
        if (setting := said.get(key)) is not None:
            count = reading.value(key, 1, size)
            yield Field(name, setting, times * count)


def _fields(engine: Mapping[str, Setting], reading: Reading) -> Iterator[Field]:
    """Fields of Megatron's dataclasses under their names, with what NeMo-RL sets by itself."""
    precision = f"{POLICY}.precision"
    kind = reading.get(precision)
    half = HALVES.get(str(kind.value)) if kind is not None else None
    if kind is not None and half is not None:
        yield Field(half, kind, True)
    at = kind or Setting(precision, None, WHOSE, None)
    yield Field("use_distributed_optimizer", at, True)
    again, key = reading.get(f"{MEGATRON}.activation_checkpointing"), "recompute_granularity"
    on = again is not None and reading.value(again.key, False, flag)
    depths = reading.value(f"{MEGATRON}.mtp_num_layers", 0)
    for each in engine.values():
        name = each.key.rpartition(".")[2]
        switched = {"mtp": bool(depths), "recompute": on}
        if not switched.get(name.partition("_")[0], True):
            reading.draft.ignore(each)
        elif each.key == ROUTER and str(each.value) == "fp64":
            yield Field(name, each, "fp32")
        else:
            yield Field(name, each, each.value)
    if again is not None and on:
        granularity = engine.get(f"{MEGATRON}.{key}")
        if granularity is None:
            yield Field(key, again, "full")
        if granularity is None or granularity.value == "full":
            yield Field("recompute_method", again, "uniform")
            yield Field("recompute_num_layers", again, 1)
    narrow = f"{MEGATRON}.fp8_cfg"
    if reading.value(f"{narrow}.enabled", False, flag):
        for name, argument in (("fp8", "fp8"), ("fp8_recipe",) * 2, ("fp8_param", "fp8_param")):
            if (setting := reading.get(f"{narrow}.{name}")) is not None:
                yield Field(argument, setting, setting.value)


ROUTER = f"{MEGATRON}.moe_router_dtype"
FSDP = "Megatron-FSDP of a policy is not modelled"
ADAPTERS = Effect(
    "adapters are priced as full training", "lowers", "nemo_rl/models/megatron/setup.py: LoRA"
)
FUSED = Effect(
    "log-probabilities with the head in one make no logits",
    "lowers",
    "nemo_rl/distributed/model_utils.py: from_parallel_hidden_states_to_logprobs",
)
CHUNKED, NARROW = 8, 2
"""Bytes of a logit: what log-probabilities of whole logits hold more than those of chunks, which
keep the logits and make their gradient (ChunkedDistributedLogprob), of logits in bf16; and the
logits themselves, beside their copy in fp32, where the model answers in bf16."""


def _put_rest(reading: Reading, draft: Draft) -> None:
    """What no argument of Megatron's says, or another."""
    if (fused := reading.get(f"{MEGATRON}.gradient_accumulation_fusion")) is not None:
        draft.put(
            "/framework/gradient_accumulation_fusion",
            reading.value(fused.key, False, flag),
            fused,
        )
    depths = reading.get(f"{MEGATRON}.mtp_num_layers")
    if depths is not None:
        draft.put("/training/mtp", {"num_layers": depths.value or 0}, depths)
    else:
        draft.default("/training/mtp", {"num_layers": 0}, WHOSE)
    section = f"{MEGATRON}.distributed_data_parallel_config"
    if reading.value(f"{section}.use_custom_fsdp", False, flag):
        draft.leave_out(reading.settings[f"{section}.use_custom_fsdp"], FSDP)
    reading.pass_by(f"{section}.data_parallel_sharding_strategy")
    for key, effect in (
        (f"{MEGATRON}.peft.enabled", ADAPTERS),
        (f"{MEGATRON}.use_fused_linear_logprobs", FUSED),
    ):
        if (setting := reading.get(key)) is not None and reading.value(key, False, flag):
            draft.leave_out(setting, effect)


ROUTED, REPLAYED = 16, 16
"""Bytes of a score of an expert that fp64 takes more than fp32: logits, scores, their softmax and
its gradient, 4 each; and of a chosen one whose number is replayed, with a copy to sort by."""


def _bound_routers(reading: Reading, router: Setting | None, draft: Draft) -> None:
    """What routers of all layers keep more that score in fp64, or replay who was chosen."""
    config, experts = text_config_of(draft), experts_of(draft)
    layers, chosen = config.get("num_hidden_layers"), config.get("num_experts_per_tok")
    tokens = [draft.settled(f"/training/{name}") for name in ("micro_batch_size", "seq_length")]
    replay = reading.get(f"{POLICY}.router_replay.enabled")
    if not all(isinstance(each, int) for each in (layers, *tokens)) or not experts:
        return
    rows = tokens[0] * tokens[1] * int(layers or 0)
    source = "megatron/core/transformer/moe/router.py: gating, routing"
    if router is not None and str(router.value) == "fp64":
        why = "scores of a router in fp64 are priced in fp32"
        wide = Effect(why, "raises", source, bytes=ROUTED * rows * experts)
        draft.leave_out(replace(router, key=f"{ROUTER} in fp64"), wide)
    if replay is not None and reading.value(replay.key, False, flag):
        why = "numbers of experts that are replayed are kept"
        kept = REPLAYED * rows * (chosen if isinstance(chosen, int) else experts)
        draft.leave_out(replay, Effect(why, "raises", source, bytes=kept))


def _put_loss(reading: Reading, draft: Draft) -> None:
    """Log-probabilities of every token, by which preferences and samples to imitate are learnt too.
    A reference waits in host memory.
    """
    draft.default("/training/loss/objective", "policy", WHOSE)
    draft.default("/training/loss/log_probs_by", "nemo-rl", WHOSE)
    chunks, narrow = f"{POLICY}.logprob_chunk_size", f"{MEGATRON}.defer_fp32_logits"
    source = "nemo_rl/distributed/model_utils.py"
    if (setting := reading.get(chunks)) is not None and setting.value is not None:
        why = "logits that are worked through in chunks are priced as whole"
        draft.leave_out(setting, Effect(why, "lowers", source, bytes=_of_logits(draft, CHUNKED)))
    if (setting := reading.get(narrow)) is not None and reading.value(narrow, False, flag):
        why = "logits in the narrow type stay beside those in fp32"
        draft.leave_out(setting, Effect(why, "raises", source, bytes=_of_logits(draft, NARROW)))


def _of_logits(draft: Draft, each: int) -> int:
    """So many bytes of each logit of a rank."""
    rows = text_config_of(draft).get("vocab_size")
    sizes = [draft.settled(f"/training/{name}") for name in ("micro_batch_size", "seq_length")]
    ranks: int = prod(draft.settled(f"/parallelism/{name}") or 1 for name in ("tp", "cp"))
    counts = [count for count in (rows, *sizes) if isinstance(count, int)]
    return -(-each * prod(counts) // ranks) if len(counts) == 3 else 0


def _put_engine(reading: Reading, draft: Draft) -> None:
    """An engine on the cards of the policy sleeps while it trains; Megatron's own reads the
    policy's weights, and keeps its cache.
    """
    backend, at = f"{GENERATION}.backend", f"{GENERATION}.colocated.enabled"
    engine, buffer = reading.get(backend), f"{GENERATION}.mcore_generation_config.buffer_size_gb"
    setting = reading.get(at) or engine or Setting(at, True, WHOSE, None)
    if not reading.value(at, True, flag):
        return
    if engine is None or engine.value != "megatron":
        draft.leave_out(setting, asleep("an engine that generates sleeps on the same card"))
        return
    kept = ASLEEP_BYTES + reading.value(buffer, CACHE, whole) * 2**30
    why = "Megatron's engine keeps its cache and graphs while the policy trains"
    source = "examples/configs/grpo_math_1B.yaml: mcore_generation_config"
    draft.leave_out(setting, Effect(why, "raises", source, bytes=kept))


CACHE = 10
"""GiB of keys and values that Megatron's engine keeps where nothing is said."""
