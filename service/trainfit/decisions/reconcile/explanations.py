"""What would explain that a run took more or less than was predicted: the job with one thing other
than it says, priced again and put beside the same figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

from pydantic import ValidationError

from trainfit.decisions.patch import apply, patch
from trainfit.decisions.reconcile.comparison import (
    FIRST_STEP,
    OF_THE_ALLOCATOR,
    ComparedFigure,
    comparisons,
    off_bytes,
    residuals,
    rest_on_the_allocator,
)
from trainfit.estimator.results import Estimate
from trainfit.resolve.findings import Change, Findings, RefusedError
from trainfit.resolve.layout import sharding_strategy
from trainfit.resolve.registry import conventions_of
from trainfit.specs.framework import Megatron, Nanotron, Transformers
from trainfit.specs.honoured import MEGATRON
from trainfit.specs.job import Job
from trainfit.specs.loss import LOSSES
from trainfit.specs.optimizers import OPTIMIZERS
from trainfit.specs.parallelism import ShardingStrategy
from trainfit.specs.reconcile import Figure
from trainfit.specs.training import BACKENDS

OFF = 0.01
"""How far the expected may be from the measured before an explanation is looked for."""
BETTER = 0.5
"""What an explanation leaves at most of how far they are apart."""
OFFERED = 5
OF_FIRST_STEP = "they are of the first step, before the optimizer makes its moments"
RECOMPUTE = "/training/recompute"
OPTIMIZER = "/training/optimizer"
MOMENTS = ("exp_avg", "exp_avg_sq")
FREEZABLE = ("vision_tower", "language_model", "embed_tokens")
"""Parts that runs are often said to leave as they are."""
SHARDING = "/parallelism/data_parallel_sharding_strategy"
DISTRIBUTED = "/parallelism/use_distributed_optimizer"
SHARDED: Mapping[ShardingStrategy, str] = {
    "no_shard": "optimizer states are not sharded over data-parallel ranks",
    "optim": "optimizer states are sharded over data-parallel ranks",
    "optim_grads": "optimizer states and gradients are sharded over data-parallel ranks",
    "optim_grads_params": "all states of the model are sharded over data-parallel ranks",
}
EVERY_LAYER = {"granularity": "full", "method": "uniform", "num_layers": 1}


class Supposed(NamedTuple):
    """Values of fields of the job, and what they would mean in words."""

    values: Mapping[str, Any]
    meaning: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What would explain the figures: a JSON Patch on the job, empty where they are of another
    moment of it, by how much it changes what is expected of the stage that is farthest off, and how
    far the figures then are from the expected, relative to them, where they were `before`.
    `speaks_for` and `speaks_against` name the figures that come nearer and that go farther.
    """

    meaning: str
    patch: list[Change]
    bytes: int
    before_ratio: float
    after_ratio: float
    speaks_for: list[str]
    speaks_against: list[str]


def explanations(
    job: Job,
    figures: Sequence[Figure],
    found: Sequence[ComparedFigure],
    price: Callable[[Job], Estimate],
    sketch: Callable[[Job], Estimate],
    first_step: Callable[[], Estimate],
) -> list[Explanation]:
    """What explains the figures, best first and of those alike the likelier; nothing where they
    are as expected. `price` raises RefusedError for a job that does not hold, as `sketch` does,
    which is of tensors alone and costs less; `first_step` is the estimate of the job as it is
    before the optimizer has made its moments.
    """
    before = _apart(found)
    if before <= OFF:
        return []
    tried = []
    if not any(each.step is not None and each.step > FIRST_STEP for each in figures):
        again = comparisons(figures, first_step())
        after = _apart(again)
        if after <= BETTER * before:
            tried.append(_explained(OF_FIRST_STEP, (), found, again, (before, after)))
    for each in _promising(job, figures, found, sketch):
        changes = patch(job, each.values)
        try:
            priced = price(apply(job, changes))
        except (RefusedError, ValidationError):
            continue
        again = comparisons(figures, priced)
        after = _apart(again)
        if after <= BETTER * before:
            tried.append(_explained(each.meaning, changes, found, again, (before, after)))
    tried.sort(key=lambda explanation: round(explanation.after_ratio / OFF))
    return tried[:OFFERED]


def _promising(
    job: Job,
    figures: Sequence[Figure],
    found: Sequence[ComparedFigure],
    sketch: Callable[[Job], Estimate],
) -> list[Supposed]:
    """What would explain the figures of tensors, the best first; all that is supposed where these
    are as expected, none was reported, or there are no others, so that a sketch tells no less.
    """
    before = _apart([each for each in found if each.quantity not in OF_THE_ALLOCATOR])
    if before <= OFF or not rest_on_the_allocator(figures):
        return list(supposed(job))
    tensors = [each for each in figures if not rest_on_the_allocator([each])]
    promising = []
    for each in supposed(job):
        try:
            sketched = sketch(apply(job, patch(job, each.values)))
        except (RefusedError, ValidationError):
            continue
        after = _apart(comparisons(tensors, sketched))
        if after <= max(BETTER * before, OFF):
            promising.append((round(after / OFF), each))
    return [each for _, each in sorted(promising, key=lambda ranked: ranked[0])]


def _apart(found: Sequence[ComparedFigure]) -> float:
    """How far figures are from the expected: the root of the mean of the squares. Without anything
    to compare, nothing.
    """
    apart = residuals(found)
    return sqrt(sum(each**2 for each in apart) / len(apart)) if apart else 0.0


def _explained(
    meaning: str,
    changes: Sequence[Change],
    found: Sequence[ComparedFigure],
    again: Sequence[ComparedFigure],
    apart: tuple[float, float],
) -> Explanation:
    nearer, farther, moved = [], [], 0
    for old, new in zip(found, again, strict=True):
        before, after = off_bytes(old), off_bytes(new)
        if before is None or after is None or old.predicted is None or new.predicted is None:
            continue
        change = new.predicted.expected - old.predicted.expected
        moved = max(moved, change, key=abs)
        name = f"{old.quantity} of rank {old.rank}" if old.rank is not None else old.quantity
        if abs(after) < abs(before):
            nearer.append(name)
        elif abs(after) > abs(before):
            farther.append(name)
    return Explanation(meaning, list(changes), moved, *apart, nearer, farther)


def supposed(job: Job) -> Iterator[Supposed]:
    """What a run may have been other than its job says, the likeliest first, one at a time. A
    kernel that a job names is one that a run may have had no use for.
    """
    named = job.training.attention.backend != "auto"
    for each in (_kernels, _recomputed) if named else (_recomputed, _kernels):
        yield from each(job)
    yield from _batch(job)
    yield from _states(job)
    for factor in (1.1, 1.25, 1.5, 2.0):
        if factor > job.training.moe.imbalance_factor:
            yield Supposed(
                {"/training/moe/imbalance_factor": factor},
                f"the most loaded rank receives {factor:g} times the rows of balanced routing",
            )
    yield from _moments(job)
    yield from _shared(job)
    yield from _frozen(job)


def _recomputed(job: Job) -> Iterator[Supposed]:
    given = job.training.recompute
    if given.granularity is not None:
        yield Supposed({RECOMPUTE: {}}, "nothing is recomputed")
    if given.granularity != "full":
        yield Supposed({RECOMPUTE: EVERY_LAYER}, "every layer is recomputed")
    if given.granularity != "selective":
        yield Supposed({RECOMPUTE: {"granularity": "selective"}}, "recomputation is selective")
    elif job.framework.name in MEGATRON:
        for module in given.modules or ():
            rest = [each for each in given.modules or () if each != module]
            values = {"granularity": "selective", "modules": rest} if rest else {}
            yield Supposed({RECOMPUTE: values}, f"{module} is not recomputed")


def _kernels(job: Job) -> Iterator[Supposed]:
    name, training = job.framework.name, job.training
    for backend, frameworks in BACKENDS.items():
        if name in frameworks and backend != training.attention.backend:
            values = {"/training/attention/backend": backend}
            yield Supposed(values, f"attention is {backend}")
    for loss, frameworks in LOSSES.items():
        if name in frameworks and loss != training.loss.cross_entropy:
            yield Supposed({"/training/loss/cross_entropy": loss}, f"the loss is {loss}")
    if training.loss.cross_entropy != "unfused":
        yield Supposed({"/training/loss/cross_entropy": "unfused"}, "the loss is not fused")


def _batch(job: Job) -> Iterator[Supposed]:
    training = job.training
    size, length = training.micro_batch_size, training.seq_length
    sizes = {each for each in (2 * size, size // 2, 1) if each >= 1} - {size}
    for each in sorted(sizes):
        values: dict[str, Any] = {"/training/micro_batch_size": each}
        yield Supposed(values, f"micro-batches have {each} samples")
    for each in (2 * length, length // 2):
        yield Supposed({"/training/seq_length": each}, f"samples have {each} tokens")


def _states(job: Job) -> Iterator[Supposed]:
    layout = job.parallelism
    yield from _sharded(job)
    if layout.tp > 1:
        shared = layout.sequence_parallel is not False
        yield Supposed(
            {"/parallelism/sequence_parallel": not shared},
            f"sequence parallelism is {'off' if shared else 'on'}",
        )
    for dtype in ("bf16", "fp32"):
        if job.training.precision != dtype:
            yield Supposed({"/training/precision": dtype}, f"the precision is {dtype}")


def _sharded(job: Job) -> Iterator[Supposed]:
    """What data-parallel ranks share out of the model's states."""
    layout = job.parallelism
    if layout.num_gpus == 1:
        return
    given = sharding_strategy(layout, conventions_of(job), Findings())
    in_short = job.framework.name in MEGATRON and layout.data_parallel_sharding_strategy is None
    for strategy in _strategies(job):
        meaning = SHARDED[strategy]
        if strategy == given:
            continue
        if in_short:
            yield Supposed({DISTRIBUTED: strategy != "no_shard"}, meaning)
        else:
            short = {} if layout.use_distributed_optimizer is None else {DISTRIBUTED: None}
            yield Supposed({**short, SHARDING: strategy}, meaning)


def _strategies(job: Job) -> Sequence[ShardingStrategy]:
    """What the framework may share out: FullyShardedDataParallel no states without gradients."""
    match job.framework:
        case Megatron() | Nanotron():
            return ("no_shard", "optim")
        case Transformers(data_parallel_engine="deepspeed"):
            return ("no_shard", "optim", "optim_grads", "optim_grads_params")
        case _:
            return ("no_shard", "optim_grads", "optim_grads_params")


def _moments(job: Job) -> Iterator[Supposed]:
    """What the optimizer keeps, in other data types."""
    optimizer, megatron = job.training.optimizer, job.framework.name in MEGATRON
    given = {optimizer.exp_avg_dtype, optimizer.exp_avg_sq_dtype}
    for dtype in ("fp32", "bf16"):
        if given != {dtype} and not (megatron and dtype == "fp32" and given == {None}):
            values: dict[str, Any] = {f"{OPTIMIZER}/{moment}_dtype": dtype for moment in MOMENTS}
            if megatron and dtype != "fp32":
                values[f"{OPTIMIZER}/precision_aware"] = True
            yield Supposed(values, f"the optimizer keeps its moments in {dtype}")
    wide = OPTIMIZERS["adam"].in_8_bits
    if optimizer.name == wide:
        yield Supposed({f"{OPTIMIZER}/name": "adam"}, "the optimizer keeps no moments in 8 bits")
    elif optimizer.name == "adam" and not megatron:
        yield Supposed({f"{OPTIMIZER}/name": wide}, "the optimizer keeps its moments in 8 bits")


def _shared(job: Job) -> Iterator[Supposed]:
    """Who has a part of each layer."""
    layout = job.parallelism
    for tp in {2 * layout.tp, max(1, layout.tp // 2)} - {layout.tp}:
        values: dict[str, Any] = {"/parallelism/tp": tp}
        if tp == 1 and layout.sequence_parallel:
            values["/parallelism/sequence_parallel"] = False
        yield Supposed(values, f"tp is {tp}")


def _frozen(job: Job) -> Iterator[Supposed]:
    """What is trained: more or less of the model's parts."""
    training = job.training
    whole = {"frozen": [], "num_frozen_layers": 0, "num_frozen_last_layers": 0}
    if training.frozen or training.num_frozen_layers or training.num_frozen_last_layers:
        given = {
            f"/training/{name}": none
            for name, none in whole.items()
            if name in training.model_fields_set
        }
        yield Supposed(given, "nothing is frozen")
    for name in FREEZABLE:
        if name not in training.frozen:
            yield Supposed({"/training/frozen": [*training.frozen, name]}, f"{name} is not trained")
