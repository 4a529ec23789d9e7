"""All layouts that a job leaves open, in an order that is always the same. Sizes that could not
divide are not named; whether a layout is consistent only resolving it tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from typing import Any, NamedTuple

from trainfit.decisions.search.splits import chunks
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Experts
from trainfit.specs.framework import Megatron, Nanotron, Torchtitan, Transformers
from trainfit.specs.job import Job
from trainfit.specs.parallelism import ShardingStrategy

SHORTEST_SHARE = 2048
"""Tokens of a sequence that a context-parallel rank has at least: with fewer its exchange of keys
and values takes longer than its attention.
"""
LARGEST_CP = 64
MICRO_BATCHES = (1, 2, 4, 8, 16)
"""Sizes of a micro-batch."""
ENOUGH_TOKENS = 16_384
"""Tokens of a micro-batch, with which products gain next to nothing from more rows."""


class LayoutSizes(NamedTuple):
    """A layout, as the fields of parallelism that it sets."""

    tp: int
    pp: int
    cp: int
    ep: int
    others: tuple[tuple[str, Any], ...]

    def dp(self, num_gpus: int) -> int:
        return num_gpus // (self.tp * self.pp * self.cp)

    def of(self, job: Job) -> Job:
        """The job in this layout."""
        changed = {"tp": self.tp, "pp": self.pp, "cp": self.cp, "ep": self.ep, **dict(self.others)}
        return job.model_copy(update={"parallelism": job.parallelism.model_copy(update=changed)})


class Axes(NamedTuple):
    """What is tried of each size, given a job with a number of GPUs; a size that the job gives is
    the only one of its kind.
    """

    tp: Sequence[int]
    cp: Sequence[int]
    ep: Sequence[int]
    compared: bool
    """Leave out what no run tells the speed of."""


def axes(job: Job, model: ModelSpec, max_tp: int, *, any_cp: bool, compared: bool) -> Axes:
    """Sizes that may divide the model. With `any_cp` the length of a sequence is left open."""
    length = job.training.seq_length
    most_cp = LARGEST_CP if any_cp else min(LARGEST_CP, length // SHORTEST_SHARE)
    experts = [block.experts for block in model.blocks if isinstance(block, Experts)]
    return Axes(
        tp=_or_given(job, "tp", divisors(max_tp)),
        cp=_or_given(job, "cp", _powers_of_two(max(1, most_cp))),
        ep=_or_given(job, "ep", divisors(gcd(*experts)) if experts else [1]),
        compared=compared,
    )


def layouts(job: Job, model: ModelSpec, tried: Axes) -> Iterator[LayoutSizes]:
    """Every layout of the job's number of GPUs."""
    world = job.parallelism.num_gpus
    assert world is not None
    experts = model.has_experts
    for pp in _or_given(job, "pp", divisors(world)):
        for vpp, split in chunks(job, model, pp):
            interleaved = {"vpp": vpp} if vpp > 1 or job.parallelism.vpp is not None else {}
            for tp in tried.tp:
                for ep, etp in _of_experts(job, tried.ep, tp, world // pp, experts=experts):
                    for sharding in strategies(
                        job, pp, world // (pp * tp), compared=tried.compared
                    ):
                        for cp in tried.cp:
                            if world % (tp * pp * cp) == 0:
                                others = {**interleaved, **split, **etp, **sharding}
                                yield LayoutSizes(tp, pp, cp, ep, tuple(others.items()))


def _of_experts(
    job: Job, sizes: Sequence[int], tp: int, ranks: int, *, experts: bool
) -> Iterator[tuple[int, Mapping[str, int]]]:
    """How the experts are laid out over the ranks of a stage, apart from attention: undivided, or
    divided as attention is.
    """
    within = job.parallelism.etp
    for ep in sizes:
        if within is not None or not experts:
            yield ep, {}
            continue
        for etp in dict.fromkeys((1, tp)):
            if ranks % (ep * etp) == 0:
                yield ep, {"etp": etp}


def strategies(
    job: Job, pp: int, shares: int, *, compared: bool
) -> Iterator[Mapping[str, ShardingStrategy]]:
    """What data-parallel ranks share out, where that is open and there are several of them."""
    given = job.parallelism.model_fields_set
    if {"data_parallel_sharding_strategy", "use_distributed_optimizer"} & given or shares == 1:
        yield {}
        return
    for strategy in _strategies(job, pp, compared=compared):
        yield {"data_parallel_sharding_strategy": strategy}


def _strategies(job: Job, pp: int, *, compared: bool) -> Sequence[ShardingStrategy]:
    match job.framework:
        case Megatron():
            # Megatron-FSDP gathers a stage's weights for every micro-batch. Beyond one domain of
            # the scale-up network nobody has said how fast.
            return ("optim",) if compared or pp > 1 else ("optim", "optim_grads_params")
        case Torchtitan() | Transformers(data_parallel_engine="fsdp1" | "fsdp2"):
            return ("optim_grads", "optim_grads_params")
        case Transformers(data_parallel_engine="ddp"):
            return ("no_shard",)
        case Transformers(data_parallel_engine="deepspeed"):
            return ("optim", "optim_grads", "optim_grads_params")
        case Transformers():
            return ("no_shard", "optim_grads", "optim_grads_params")
        case Nanotron():
            return ("no_shard", "optim")


def micro_batches(job: Job, dp: int) -> Sequence[int]:
    """Sizes of a micro-batch that make up a rank's share of the global batch."""
    training = job.training
    total, length = training.global_batch_size, training.seq_length
    pinned = "micro_batch_size" in training.model_fields_set
    return [
        size
        for size in ((training.micro_batch_size,) if pinned else MICRO_BATCHES)
        if (total is None or total % (size * dp) == 0)
        and (pinned or size == 1 or size * length <= ENOUGH_TOKENS)
    ]


def stepped(job: Job, changes: Mapping[str, Any]) -> Job:
    """The job with other values of fields of its training; of a part of it, in a mapping."""
    training = job.training
    changed = {
        name: getattr(training, name).model_copy(update=value)
        if isinstance(value, Mapping)
        else value
        for name, value in changes.items()
    }
    return job.model_copy(update={"training": training.model_copy(update=changed)})


def worlds(job: Job, max_gpus: int, *, finely: bool) -> Sequence[int]:
    """Numbers of GPUs, ascending: powers of two, `finely` half as many again too, and the most that
    there may be.
    """
    if job.parallelism.num_gpus is not None:
        return (job.parallelism.num_gpus,)
    powers = _powers_of_two(max_gpus)
    between = [3 * size // 2 for size in powers if size > 1 and 3 * size // 2 <= max_gpus]
    return sorted({*powers, *(between if finely else ()), max_gpus})


def divisors(number: int) -> list[int]:
    """The divisors of a number, ascending."""
    small = [each for each in range(1, int(number**0.5) + 1) if number % each == 0]
    return small + [number // each for each in reversed(small) if each * each != number]


def _powers_of_two(most: int) -> list[int]:
    return [2**power for power in range(most.bit_length())]


def _or_given(job: Job, name: str, sizes: Sequence[int]) -> Sequence[int]:
    """The size that the job gives, or all of these."""
    if name in job.parallelism.model_fields_set:
        return (getattr(job.parallelism, name),)
    return sizes
