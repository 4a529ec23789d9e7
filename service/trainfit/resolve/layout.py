"""Sizes of the parallel groups, and whether the model can be divided by them."""

from functools import partial
from math import lcm, prod

from trainfit.resolve.findings import Findings, put
from trainfit.resolve.framework import Conventions
from trainfit.resolve.pipeline import split, virtual_pipeline_size
from trainfit.resolve.plan import Layout, Pipeline
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Experts, LatentAttention, Mlp, Recurrence
from trainfit.specs.job import Job
from trainfit.specs.parallelism import (
    CHUNKED,
    MAX_GPUS,
    V_SHAPED,
    Parallelism,
    PipelineSchedule,
    ShardingStrategy,
)

PARALLELISM = "/parallelism"


def resolve_layout(
    job: Job, model: ModelSpec, mtp_layers: int, conventions: Conventions, findings: Findings
) -> Layout:
    """The layout, or RefusedError with everything in it that is inconsistent."""
    given = job.parallelism
    etp = given.etp
    if etp is None:
        etp = conventions.etp_of_experts if model.has_experts else conventions.etp
    num_gpus = given.num_gpus or smallest_world(given, etp)
    sequence_parallel = shares_sequence(given, conventions)
    _check_world(given, etp, num_gpus, findings)
    _check_blocks(given, etp, model, conventions, findings)
    _check_sequence(job, conventions, findings)
    _check_levels(given, findings)
    vpp = virtual_pipeline_size(given, model.num_layers, findings)
    schedule = pipeline_schedule(given, vpp, findings, conventions.schedule)
    by_stage = None if conventions.split is None else partial(conventions.split, model)
    stages = split(given, model.num_layers, mtp_layers, vpp, findings, by_stage)
    sharding = sharding_strategy(given, conventions, findings)
    findings.refuse()
    dp = num_gpus // (given.tp * given.pp * given.cp)
    expert_dp = num_gpus // (given.pp * given.ep * etp)
    sharded = sharding != "no_shard"
    instances = given.data_parallel_replicate_size
    _check_instances(instances, dp * given.cp, findings)
    findings.refuse()
    return Layout(
        num_gpus=num_gpus,
        tp=given.tp,
        pipeline=Pipeline(
            pp=given.pp,
            vpp=vpp,
            schedule=schedule,
            virtual_stages=stages,
            microbatch_group_size=given.microbatch_group_size_per_vp_stage or given.pp,
        ),
        cp=given.cp,
        ep=given.ep,
        etp=etp,
        dp=dp,
        expert_dp=expert_dp,
        sequence_parallel=sequence_parallel,
        divides_embedding=conventions.divides_embedding,
        cp_comm_type=given.cp_comm_type,
        cp_ring=_ring(given),
        sharding=sharding,
        optimizer_shards=dp * given.cp // instances if sharded else 1,
        expert_optimizer_shards=max(1, expert_dp // instances) if sharded else 1,
        replicas=instances,
    )


def smallest_world(given: Parallelism, etp: int) -> int:
    """The smallest number of GPUs that tp * pp * cp and pp * ep * etp both divide."""
    return given.pp * lcm(given.tp * given.cp, given.ep * etp)


def shares_sequence(given: Parallelism, conventions: Conventions) -> bool:
    """Whether tensor-parallel ranks share out the sequence between the blocks."""
    wanted = given.sequence_parallel
    return given.tp > 1 and (conventions.shares_sequence if wanted is None else wanted)


def sequence_multiple(given: Parallelism, conventions: Conventions) -> int:
    """What a sequence has to be a multiple of: load-balanced context parallelism halves the share
    of each rank, and sequence parallelism shares it out again.
    """
    parts = 2 * given.cp if given.cp > 1 else 1
    return lcm(parts, given.cp * given.tp) if shares_sequence(given, conventions) else parts


def sharding_strategy(
    given: Parallelism, conventions: Conventions, findings: Findings
) -> ShardingStrategy:
    """What data-parallel ranks share out."""
    strategy, distributed = given.data_parallel_sharding_strategy, given.use_distributed_optimizer
    if strategy is None:
        return conventions.sharding if distributed is not False else "no_shard"
    if distributed is not None and distributed != (strategy != "no_shard"):
        findings.add(
            f"{PARALLELISM}/use_distributed_optimizer",
            "conflict",
            f"data_parallel_sharding_strategy {strategy} says the opposite",
        )
    return strategy


def pipeline_schedule(
    given: Parallelism, vpp: int, findings: Findings, usual: PipelineSchedule = "1f1b"
) -> PipelineSchedule:
    """The schedule, `usual` where none is given for stages of one chunk, and whether the number of
    chunks is one that it runs.
    """
    schedule = given.pipeline_schedule or ("interleaved" if vpp > 1 else usual)
    pointer = f"{PARALLELISM}/vpp"
    if vpp > 1 and given.pp == 1:
        message = "chunks are divided over pipeline stages: vpp > 1 needs pp > 1"
        findings.add(pointer, "interleaving", message, put(pointer, 1))
    elif schedule in V_SHAPED and vpp != 2:
        findings.add(pointer, "schedule", f"{schedule} runs two chunks per rank", put(pointer, 2))
    elif schedule in CHUNKED and vpp == 1:
        findings.add(pointer, "schedule", f"{schedule} needs vpp > 1", put(pointer, 2))
    elif schedule not in (*CHUNKED, *V_SHAPED) and vpp > 1:
        findings.add(
            f"{PARALLELISM}/pipeline_schedule",
            "schedule",
            f"{schedule} runs one chunk per rank; {vpp} are interleaved",
            put(f"{PARALLELISM}/pipeline_schedule", "interleaved"),
        )
    return schedule


def _check_world(given: Parallelism, etp: int, num_gpus: int, findings: Findings) -> None:
    pointer = f"{PARALLELISM}/num_gpus"
    dense, expert = given.tp * given.pp * given.cp, given.pp * given.ep * etp
    fitting = smallest_world(given, etp)
    if fitting > MAX_GPUS:
        findings.add(pointer, "too_many_gpus", f"this layout needs {fitting} GPUs or more")
        return
    nearest = max(1, round(num_gpus / fitting)) * fitting
    if num_gpus % dense:
        findings.add(
            pointer,
            "world_not_divisible",
            f"{num_gpus} GPUs are no multiple of tp * pp * cp = {dense}; {nearest} are",
            put(pointer, nearest),
        )
    elif num_gpus % expert:
        findings.add(
            pointer,
            "world_not_divisible",
            f"{num_gpus} GPUs are no multiple of pp * ep * etp = {expert} (etp = {etp}); "
            f"{nearest} are",
            put(pointer, nearest),
        )


def _check_blocks(
    given: Parallelism, etp: int, model: ModelSpec, conventions: Conventions, findings: Findings
) -> None:
    blocks = {id(block): block for block in model.blocks}
    experts = [block for block in blocks.values() if isinstance(block, Experts)]
    for block in blocks.values():
        match block:
            case Attention():
                _check_heads(given.tp, block.heads, findings)
                _check_kv_heads(given.tp, block.kv_heads, findings, repeats=conventions.repeats_kv)
            case LatentAttention():
                _check_heads(given.tp, block.heads, findings)
            case Mlp() if block.ffn % given.tp:
                _indivisible(
                    "tp", given.tp, "ffn_not_divisible", f"a width of {block.ffn}", findings
                )
            case Experts():
                _check_experts(given.ep, etp, block, findings)
            case Recurrence() if block.inner_width % given.tp:
                what = f"a mixer's width of {block.inner_width}"
                _indivisible("tp", given.tp, "mixer_not_divisible", what, findings)
            case _:
                pass
    if given.ep > 1 and not experts:
        findings.add(
            f"{PARALLELISM}/ep",
            "no_experts",
            "this model has no experts to divide: ep is 1",
            put(f"{PARALLELISM}/ep", 1),
        )
    whole = not (shares_sequence(given, conventions) or conventions.trains_experts_whole)
    if experts and given.tp > 1 and whole:
        findings.add(
            f"{PARALLELISM}/sequence_parallel",
            "moe_needs_sequence_parallel",
            "training experts with tp > 1 needs sequence parallelism",
            put(f"{PARALLELISM}/sequence_parallel", True),
        )


def _indivisible(option: str, size: int, code: str, what: str, findings: Findings) -> None:
    pointer = f"{PARALLELISM}/{option}"
    if all(each.pointer != pointer or each.code != code for each in findings.found):
        findings.add(pointer, code, f"{what} does not divide by {option} = {size}")


def _check_heads(tp: int, heads: int, findings: Findings) -> None:
    if heads % tp:
        fits = max(size for size in range(1, tp) if heads % size == 0)
        findings.add(
            f"{PARALLELISM}/tp",
            "heads_not_divisible",
            f"{heads} attention heads do not divide by tp = {tp}; by {fits} they do",
            put(f"{PARALLELISM}/tp", fits),
        )


def _check_kv_heads(tp: int, groups: int, findings: Findings, *, repeats: bool) -> None:
    """Megatron gives several ranks the same key and value heads where there are fewer heads than
    ranks; modules of PyTorch are divided, and view what they have as whole heads.
    Sources: megatron/core/transformer/transformer_config.py, torchtitan's
    models/common/attention.py, transformers' modeling files.
    """

    def fits(size: int) -> bool:
        return not groups % size or (repeats and not size % groups)

    if fits(tp):
        return
    how = "neither a multiple nor a divisor" if repeats else "no multiple"
    largest = max(size for size in range(1, tp) if fits(size))
    findings.add(
        f"{PARALLELISM}/tp",
        "kv_heads_not_divisible",
        f"{groups} key/value heads are {how} of tp = {tp}; of {largest} they are",
        put(f"{PARALLELISM}/tp", largest),
    )


def _check_experts(ep: int, etp: int, block: Experts, findings: Findings) -> None:
    if block.experts % ep:
        fits = max(size for size in range(1, ep) if block.experts % size == 0)
        findings.add(
            f"{PARALLELISM}/ep",
            "experts_not_divisible",
            f"{block.experts} experts do not divide by ep = {ep}; by {fits} they do",
            put(f"{PARALLELISM}/ep", fits),
        )
    if block.ffn % etp:
        _indivisible("etp", etp, "ffn_not_divisible", f"an expert width of {block.ffn}", findings)
    if block.top_k > block.experts:
        findings.add(
            "/model",
            "top_k",
            f"a token cannot go to {block.top_k} of {block.experts} experts",
        )


def _check_sequence(job: Job, conventions: Conventions, findings: Findings) -> None:
    given, length = job.parallelism, job.training.seq_length
    parts = sequence_multiple(given, conventions)
    if length % parts:
        nearest = max(1, round(length / parts)) * parts
        why = "2 * cp" if given.cp > 1 else "tp, with sequence parallelism"
        if given.cp > 1 and shares_sequence(given, conventions):
            why = "2 * cp and cp * tp"
        message = f"a sequence of {length} tokens does not divide by {parts} ({why})"
        # A length that suits a tensor parallel size which has to change would be wrong once it has.
        if any(each.pointer == f"{PARALLELISM}/tp" for each in findings.found):
            findings.add("/training/seq_length", "sequence_not_divisible", message)
        else:
            change = put("/training/seq_length", nearest)
            message = f"{message}; {nearest} does"
            findings.add("/training/seq_length", "sequence_not_divisible", message, change)


def _check_levels(given: Parallelism, findings: Findings) -> None:
    """Source: Megatron-LM's arguments.py."""
    levels, where = (
        given.hierarchical_context_parallel_sizes,
        f"{PARALLELISM}/hierarchical_context_parallel_sizes",
    )
    if levels is None:
        if given.cp_comm_type == "a2a+p2p" and given.cp > 1:
            message = "cp_comm_type a2a+p2p needs the sizes of its levels"
            findings.add(where, "missing", message)
    elif len(levels) != 2 or prod(levels) != given.cp:
        message = f"are two sizes, of the a2a and the p2p level, whose product is cp = {given.cp}"
        findings.add(where, "levels_do_not_multiply", message)


def _ring(given: Parallelism) -> int:
    """Context-parallel ranks that pass keys and values from one to the next."""
    if given.cp_comm_type == "a2a+p2p" and given.hierarchical_context_parallel_sizes:
        return given.hierarchical_context_parallel_sizes[-1]
    return given.cp if given.cp_comm_type == "p2p" else 1


def _check_instances(instances: int, ranks: int, findings: Findings) -> None:
    if ranks % instances:
        findings.add(
            f"{PARALLELISM}/data_parallel_replicate_size",
            "replicas_not_divisible",
            f"{ranks} data- and context-parallel ranks do not divide into {instances} groups",
        )
