"""What a GPU holds beyond the tensors: allocator slack, CUDA context, communicators.

These are not derived but taken from published runs (docs/assumptions.md), so each is an interval.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Literal, NamedTuple

from trainfit.estimator.results import Interval
from trainfit.resolve.plan import Plan
from trainfit.specs.calibration import Calibration, Outside, Trained
from trainfit.specs.framework import FrameworkName

MIB = 2**20

KernelLoading = Literal["lazy", "eager"]
"""Whether the kernels of a process are loaded when they are first run, or all at its start."""

SLACK_PERCENT = Interval(0, 4, 10)
"""Reserved above allocated in runs with fixed shapes: 1.007 to 1.075, median 1.04, on 8 B200."""
SLACK_PERCENT_EXPANDABLE = Interval(0, 1, 4)
"""Segments that grow on demand leave at most a part of a 20 MiB page each."""

CONTEXT = Interval(500 * MIB, 700 * MIB, 1_200 * MIB)
"""CUDA context with lazily loaded kernels: 0.49 to 0.70 GiB bare, up to 1.14 in a full stack."""
EAGER_KERNELS = Interval(1_000 * MIB, 1_190 * MIB, 1_300 * MIB)
"""What all kernels take besides where CUDA loads them at once: nvidia-smi showed 1.66 GiB beyond
what PyTorch reserved on A100 with its release 2.4.1, flash-attn and transformers 4.48.1, of runs
with 0.51 under 4.45.2, and 1.0 to 1.3 more of several ranks."""
CONTEXT_MIB = {"sm_75": 120, "sm_80": 510, "sm_86": 240, "sm_89": 430, "sm_90": 600}
"""Expected of a process alone by its GPU's generation, as errors of PyTorch tell what is in use
beyond what it reserved (GiB): 0.10 and 0.14 on T4, 0.49 to 0.51 eleven times and 0.40 once on A100,
0.22 on A10, 0.25 on RTX 3080, 0.42 on RTX 6000 Ada, 0.51 to 0.67 seven times on H100 and H200.
"""
COMMUNICATOR = Interval(150 * MIB, 500 * MIB, 1_000 * MIB)
"""One NCCL communicator in use: rings of 24 channels x 2 neighbours x 12 MiB and NVLS buffers."""
NOTHING = Interval(0, 0, 0)
"""Of what a job does not have."""
ALL_TO_ALL = Interval(500 * MIB, 1_500 * MIB, 2_700 * MIB)
"""Point-to-point connections of an all-to-all among 8 GPUs: 32 channels x 7 peers x 12 MiB."""


def calibration_of(plan: Plan) -> Calibration | None:
    """What was measured of the cluster of a plan; None where that is not what the job came with."""
    if plan.calibration is None:
        return None
    cluster, set_to = plan.calibration.cluster, plan.framework.expandable_segments
    alike = (cluster.gpu_name, cluster.framework_name) == (plan.gpu.name, plan.framework.name)
    grows = cluster.allocator == "expandable_segments"
    return plan.calibration if alike and set_to in (grows, None) else None


def grows_segments(plan: Plan) -> bool | None:
    """Whether the allocator grows segments, as a job has it or else the cluster whose runs were
    measured; None where neither says.
    """
    grows, calibration = plan.framework.expandable_segments, calibration_of(plan)
    if grows is None and calibration is not None:
        return calibration.cluster.allocator == "expandable_segments"
    return grows


def slack(
    allocated: Interval,
    cached: int,
    calibration: Calibration | None,
    expandable_segments: bool | None,
) -> Interval:
    """Bytes that PyTorch's caching allocator reserves above what is allocated: `cached` ones that
    are known, and a part that is not. Segments may grow or not where nothing says so. Where runs of
    the cluster report the whole, that.
    """
    if calibration is not None and (ratio := calibration.slack_ratio) is not None:
        return Interval(
            int(allocated.low * ratio.low),
            max(cached, int(allocated.expected * ratio.expected)),
            max(cached, int(allocated.high * ratio.high)),
        )
    percent = SLACK_PERCENT if expandable_segments is False else SLACK_PERCENT_EXPANDABLE
    return Interval(
        allocated.low * percent.low // 100,
        cached + allocated.expected * percent.expected // 100,
        cached + most_slack(allocated.high, expandable_segments),
    )


def most_slack(nbytes: int, expandable_segments: bool | None) -> int:
    """The most that is reserved above so many bytes that are allocated."""
    percent = SLACK_PERCENT_EXPANDABLE if expandable_segments else SLACK_PERCENT
    return nbytes * percent.high // 100


class OddBlocks(NamedTuple):
    """What options of the allocator add to what a ratio bounds: requests are rounded up by at most
    one of so many `parts` of themselves, 0 for none, and blocks that are not split may come to fill
    `room_bytes` of the GPU before the cache is given back.
    """

    parts: int
    room_bytes: int

    def beside(self, slack: Interval, allocated: Interval) -> Interval:
        """What is reserved above what is allocated with these, where a ratio says so much."""
        rounded = allocated.high // self.parts if self.parts else 0
        high = max(slack.high + rounded, self.room_bytes - allocated.high)
        return Interval(slack.low, slack.expected, high)


def odd_blocks(plan: Plan, outside: Interval) -> OddBlocks:
    """Of a plan whose GPU has so much outside PyTorch."""
    framework = plan.framework
    parts = [each for each in framework.roundup_power2_divisions if each > 1]
    room = plan.gpu.memory_bytes - outside.high if framework.max_split_size_bytes else 0
    return OddBlocks(min(parts, default=0), max(0, room))


class OutgrownBlocks(NamedTuple):
    """Blocks that no longer micro-batch finds room in: those of `usual`, and of at most `most`
    micro-batches of the longest length, until they fill `room_bytes` of the GPU and the cache is
    given back; None where it has no bytes.
    """

    usual: float
    most: float
    room_bytes: int | None

    def beside(self, slack: Interval, allocated: Interval, activations: int) -> Interval:
        """What is reserved above what is allocated with these, where a ratio says so much of
        micro-batches that are alike.
        """
        left = sys.maxsize
        if self.room_bytes is not None:
            left = max(0, self.room_bytes - allocated.high - slack.high)
        expected, high = (
            min(left, int(count * activations * percent / 100))
            for count, percent in (
                (self.usual, KEPT_PERCENT.expected),
                (self.most, KEPT_PERCENT.high),
            )
        )
        return Interval(slack.low, slack.expected + expected, slack.high + high)


KEPT_PERCENT = Interval(0, 67, 116)
"""Of the activations of a micro-batch what a longer one cannot be given, and buys anew: 0 to 116,
median 67, in 32 replays of Mistral-7B, Qwen2.5-0.5B, Gemma-3-270m and SmolLM2-135M with and without
adapters and recomputation; least where layers keep most, whose blocks it finds merged, and most
where logits make the peak."""


def outgrown_blocks(plan: Plan, outside: Interval) -> OutgrownBlocks | None:
    """Of a plan whose GPU has so much outside PyTorch; None where all micro-batches are alike or
    addresses grow, which serve every size.
    """
    spread = plan.batch.spread
    if spread is None or grows_segments(plan):
        return None
    room = plan.gpu.memory_bytes - outside.high if plan.gpu.memory_bytes else None
    usual, most = (
        sum(order[: order.index(spread.longest)]) / spread.longest
        for order in (spread.usual(), spread.worst())
    )
    return OutgrownBlocks(usual, most, room)


class Permille(NamedTuple):
    """Bounds of a ratio to what is expected, in thousandths."""

    low: int
    high: int


def own_replays(plan: Plan, trains: Trained, stray_permille: int) -> Permille | None:
    """Bounds of what is reserved, relative to a replay and in thousandths of it, as two or more
    runs of the cluster of a plan leave them: it trains all weights, as they did, and is of a kind
    of which runs were measured. None where they say nothing of it.
    """
    calibration, beyond = calibration_of(plan), OWN_REPLAYS_PERMILLE.get(plan.framework.name)
    if calibration is None or beyond is None or stray_permille > PYTORCH_PERMILLE:
        return None
    for each in calibration.replays:
        if each.trains == trains == "all" and each.runs >= ENOUGH_RUNS:
            seen = each.reserved_ratio
            low, high = 1000 * min(1.0, seen.low), 1000 * max(1.0, seen.high)
            return Permille(int(low) - beyond, ceil(high) + beyond)
    return None


def communicators(plan: Plan, expert_groups: Iterable[int]) -> int:
    """How many there are: one for every group of more than one rank that is used, those of experts
    among them.
    """
    layout = plan.layout
    groups = [
        layout.num_gpus,
        layout.dp * layout.cp,
        layout.tp,
        layout.pipeline.pp,
        layout.cp,
        layout.tp * layout.pipeline.pp,
        *expert_groups,
    ]
    return sum(size > 1 for size in groups)


def context_and_communicators(
    plan: Plan, bare: Interval, used: int, exchange: Interval, trains: Trained
) -> Interval:
    """A context that is so large, so many communicators, and what moves tokens to experts on other
    ranks; as runs of the cluster report it, where they do.
    """
    calibration = calibration_of(plan)
    if calibration is not None:
        measured = _measured(calibration.outside, bare, used, exchange, trains)
        if measured is not None:
            return measured
    return _published(bare, used, exchange)


def context(plan: Plan, loading: KernelLoading | None) -> Interval:
    """The context on the GPU of a plan whose kernels are loaded so; None where it may be either
    way. Where ranks are several it has the kernels of NCCL too, which are among those that are
    loaded at once.
    """
    known = CONTEXT_MIB.get(plan.gpu.compute_capability)
    alone = CONTEXT if known is None else _alone(known * MIB)
    lazy = CONTEXT if plan.layout.num_gpus > 1 else alone
    if loading == "lazy":
        return lazy
    eager = added(Interval(alone.low, alone.expected, alone.expected), EAGER_KERNELS)
    if loading == "eager":
        return eager
    return Interval(lazy.low, lazy.expected, lazy.high if known is None else eager.high)


def _alone(expected: int) -> Interval:
    """The context of a process alone on a card of which so much is known."""
    return Interval(min(CONTEXT.low, expected * 4 // 5), expected, CONTEXT.high)


def _published(bare: Interval, used: int, exchange: Interval) -> Interval:
    return added(added(bare, times(used, COMMUNICATOR)), exchange)


def _measured(
    seen: Sequence[Outside], bare: Interval, used: int, exchange: Interval, trains: Trained
) -> Interval | None:
    """What runs with the nearest number of communicators have shown, and what published ones show
    of each that is more or fewer, and of an exchange that was not seen: no more than they show of
    the whole, where that agrees. None where none is alike.
    """
    exchanges = exchange.high > 0
    alike = [each for each in seen if each.exchanges == exchanges]
    has, missing = exchange, NOTHING
    if not alike:
        alike, has, missing = [each for each in seen if exchanges], NOTHING, exchange
    if not alike:
        return None
    nearest = min([each.communicators for each in alike], key=lambda number: abs(number - used))
    same = [each for each in alike if each.communicators == nearest]
    more = times(used - nearest, COMMUNICATOR)
    found = added(_shown(same, _published(bare, nearest, has), trains), more)
    found = Interval(max(0, found.low), max(0, found.expected), max(0, found.high))
    carried, whole = added(found, missing), _published(bare, used, exchange)
    if (nearest == used and missing is NOTHING) or not whole.low <= carried.expected <= whole.high:
        return carried
    return Interval(max(carried.low, whole.low), carried.expected, min(carried.high, whole.high))


def _shown(seen: Sequence[Outside], published: Interval, trains: Trained) -> Interval:
    """What runs with one number of communicators have shown: those whose reserved memory was
    measured, else those that trained the same. What others' replays were off by is their own, so
    that they move what is expected and narrow nothing.
    """
    for carried in (None, trains):
        for each in seen:
            if each.replayed == carried:
                return Interval(each.bytes.low, each.bytes.expected, each.bytes.high)
    middles = [each.bytes.expected for each in seen]
    least, most = min(middles), max(middles)
    return Interval(min(published.low, least), (least + most) // 2, max(published.high, most))


def reserved_as_seen(held: Interval, replayed: Interval, permille: Permille) -> Interval:
    """What is reserved, no wider than runs of the cluster leave what its requests are replayed to:
    of the releases of PyTorch the least, that of the usual, and the most.
    """
    low = min(held.expected, replayed.low * permille.low // 1000)
    high = max(held.expected, replayed.high * permille.high // 1000)
    return Interval(max(held.low, low), held.expected, min(held.high, high))


def added(a: Interval, b: Interval) -> Interval:
    """Both, within the bounds of both."""
    return Interval(a.low + b.low, a.expected + b.expected, a.high + b.high)


def times(number: int, interval: Interval) -> Interval:
    """So many of them; below zero, so many fewer."""
    low, high = sorted((number * interval.low, number * interval.high))
    return Interval(low, number * interval.expected, high)


def all_to_all(plan: Plan) -> Interval:
    """Connections of an all-to-all among expert-parallel ranks."""
    return ALL_TO_ALL if plan.layout.ep > 1 else NOTHING


OWN_REPLAYS_PERMILLE: Mapping[FrameworkName, int] = {"megatron": 16, "torchtitan": 16}
"""How far beyond two runs of a cluster, and what is expected, a third one reserves that trains all
weights, in thousandths: at most 15 in each of 612 such thirds among ten stages under Megatron on
B200 and nine runs of torchtitan on H100, none of which routes tokens without a capacity
(tests/accuracy/test_bounds.py). So one in twenty may lie further. Under other frameworks, and of
adapters, no two complete runs of one cluster report what they reserved."""
ENOUGH_RUNS = 2
"""Own runs whose replays have to hold: of one nobody knows whether it was chance."""

MEASURED_STAGES = 59
"""Measured peaks of complete Megatron runs that the interval of allocated bytes holds for: all."""
MEASURED_PYTORCH_RUNS = 14
"""The same of torchtitan and torchtune: nine reserved peaks and five allocated ones."""
LEDGER_PERMILLE = 20
"""How far measured peaks stray from the ledger's sum to either side, in thousandths."""
PYTORCH_PERMILLE = 30
"""The same for modules of PyTorch, whose allocated peaks stray by 23 thousandths at most."""
PLAIN_PERMILLE = 15
"""The same for transformers' own modules, each called by itself, on one GPU or, unless weights are
quantised, under FullyShardedDataParallel: 17 complete runs stray by 8 thousandths at most."""
QUANTISED_PERMILLE = 50
"""The same on quantised weights else: 6 complete runs stray by 5 thousandths, but what they reserve
by more; runs with more fused kernels than a job can say stray by 47 below."""
UNMEASURED_PERMILLE = 100
"""The same where no run was measured: mixers to first order, schedules by their bounds."""
SMALL_BUFFERS = 32 * MIB
"""Buffers below the ledger's notice: of the order of the deficits of runs of 1 to 5 GiB."""
IMBALANCE_PERMILLE = 200
"""How much more the most loaded rank keeps where experts take every token that is routed to them:
6 to 21 % of the activations in published runs without a capacity. In thousandths."""


def allocated(
    expected: int,
    unbalanced: int,
    permille: int,
    uncounted: int = 0,
    imbalance_permille: int = IMBALANCE_PERMILLE,
) -> Interval:
    """The ledger's sum with the bounds that measured runs have kept. `unbalanced` bytes of it are
    activations, and what operations borrow, of ranks whose experts take whatever is routed there;
    `uncounted` ones there may be besides.
    """
    stray = expected * permille // 1000
    imbalance = unbalanced * imbalance_permille // 1000
    high = expected + stray + SMALL_BUFFERS + imbalance + uncounted
    return Interval(expected - stray, expected, high)
