"""Who shares what over how many GPUs, and of which samples a micro-batch of the actor is."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, prod

from trainfit.launch.draft import Draft, Reading
from trainfit.launch.values import flag, size, whole
from trainfit.launch.verl.keys import ACTOR, FSDP, ROLLOUT, STRATEGIES

SAMPLE: Mapping[str, int] = {"data.max_prompt_length": 512, "data.max_response_length": 512}
"""What a sample is made of, and the most tokens of each where nothing else is said."""


def read_layout(reading: Reading, draft: Draft, whose: str) -> int:
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
    gpus = put_gpus(reading, draft, whose)
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


def put_gpus(reading: Reading, draft: Draft, whose: str) -> int:
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


def read_batch(
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
    if micro is None:
        micro = _share(reading, draft, whole_key, replica_ranks)
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
        if reading.value(micro_key) is not None:
            reading.copy(micro_key, "/training/micro_batch_size", size)
        elif micro is not None:
            draft.put("/training/micro_batch_size", micro, reading.settings[whole_key])
        message = f"give {micro_key}: how many samples a micro-batch has is not said"
        draft.require("/training/micro_batch_size", message, reading.get(whole_key))
        samples = max(1, micro) if isinstance(micro, int) else 1
    _accumulation(reading, draft, replica_ranks, samples)


def _share(reading: Reading, draft: Draft, key: str, replica_ranks: int) -> int | None:
    """A replica's share of a micro-batch that is said of all GPUs together
    (fsdp_workers.py, megatron_workers.py: ActorRolloutRefWorker).
    """
    given, world = reading.get(key), draft.get("/parallelism/num_gpus")
    world = draft.overridden("/parallelism/num_gpus") or world
    if given is None or given.value is None or not isinstance(world, int):
        return None
    if given.unknown is not None:
        draft.put("/training/micro_batch_size", None, given)
        return None
    together: int = reading.value(key, 0, size)
    replicas = max(1, world // replica_ranks)
    if 0 < together < replicas:
        message = f"{together} samples of all GPUs together leave none for each of {replicas}"
        draft.complain(given, message)
    return max(1, together // replicas)


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
