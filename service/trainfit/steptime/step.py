"""step_time(plan): the seconds of a step, from those of its stages.

    T = m (slowest stage + sends) + bubble + exposed data parallelism + optimizer, and the wait for
    the slowest of many ranks

Pure but for the constants, which are the catalogue's.
"""

from dataclasses import fields, replace
from math import log2
from operator import attrgetter

from trainfit.catalog.speed import ClusterEfficiency
from trainfit.estimator.frameworks.framework import StateTraffic
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.local_parameters import Local, ParameterTable, parameters_of
from trainfit.estimator.memo import Memo
from trainfit.estimator.placement import placements
from trainfit.resolve.plan import Pipeline, Plan
from trainfit.specs.calibration import Ratios
from trainfit.steptime.bubbles import PassSeconds, bubble
from trainfit.steptime.calibration import paces_of
from trainfit.steptime.links import Links, sizes_of
from trainfit.steptime.results import Basis, Seconds, StepParts, StepTime, Untimed
from trainfit.steptime.stages import StageCost, Stages
from trainfit.steptime.states import StateSeconds, exposed_each, exposed_once, state_seconds
from trainfit.steptime.stretches import Timer
from trainfit.steptime.surroundings import Surroundings, surroundings

NODE = 8
"""GPUs of a node, whose ranks wait for each other no longer than any did when constants were
fitted."""
EXTRAPOLATED = 0.31
"""Half the width of the interval where no run of the stack was compared on such a GPU, relative to
what is expected: nine of ten runs lay within it of every stack that was left out, but for networks
that were a run's limit (docs/step-time.md).
"""


def step_time(
    plan: Plan, *, memo: Memo | None = None, on: Surroundings | None = None
) -> StepTime | Untimed:
    """The time of a step of a plan, or why none is known. What plans of the same `memo` have in
    common is worked out once. It runs `on` what the plan names, unless that is given.
    """
    memo = Memo() if memo is None else memo
    on = on or surroundings(plan)
    if on is None:
        name = plan.gpu.name or "no GPU was named"
        return Untimed(f"the links between GPUs are not known: {name}")
    if plan.runs_reference:
        return Untimed("the forward of a reference model is not timed")
    if plan.generates:
        return Untimed("what is generated between steps is not timed")
    return _step_time(plan, memo, on)


class PlacedKinds:
    """What the chunks of ranks are made of, each kind of rank once, and of which kind every rank
    is.
    """

    def __init__(self, pipeline: Pipeline, pattern: tuple[int, ...], mtp_layers: int) -> None:
        ranks = placements(pipeline, pattern, mtp_layers)
        contents = [tuple([each.content for each in rank]) for rank in ranks]
        self.kinds = list(dict.fromkeys(contents))
        number = {kind: number for number, kind in enumerate(self.kinds)}
        self.ranks = [number[each] for each in contents]


def _step_time(plan: Plan, memo: Memo, on: Surroundings) -> StepTime:
    layout, framework = plan.layout, framework_of(plan)
    sizes = sizes_of(layout)
    links = memo(Links, on.gpu, on.cluster, sizes)
    # Blocks exchange among ranks of one replica, however many of it there are.
    within = memo(Links, on.gpu, on.cluster, sizes._replace(dp=1, expert_dp=1))
    timer = memo(Timer, on.stack, within, framework.execution(plan), on.products)
    ledger = framework.shared_ledger(plan, memo)
    timed = memo(Stages, ledger, plan.model, plan.mtp_layers, timer)
    placed = memo(PlacedKinds, layout.pipeline, plan.model.pattern, plan.mtp_layers)
    stages = memo(_stages, timed, placed)
    table = parameters_of(plan, memo)
    shards = layout.optimizer_shards, layout.expert_optimizer_shards
    states = memo(_states, placed, table, framework.state_traffic(plan), shards, links)
    # In parallel over the sequence, each rank has its part of it anyway.
    scattered = on.stack.scatters_sends and not layout.sequence_parallel
    send = links.send(ledger.sizes.act, scattered=scattered)
    return _added_up(plan, on, placed, stages, states, send)


def jitter_ratio(cluster: ClusterEfficiency, num_gpus: int) -> float:
    """How long so many GPUs wait for the slowest, to all else that a step takes."""
    return cluster.jitter_per_doubling * max(0.0, log2(num_gpus / NODE))


def _stages(timed: Stages, placed: PlacedKinds) -> list[StageCost]:
    return [timed.of(contents) for contents in placed.kinds]


def _states(
    placed: PlacedKinds,
    table: ParameterTable,
    traffic: StateTraffic,
    shards: tuple[int, int],
    links: Links,
) -> list[StateSeconds]:
    local = [sum([table.chunk(each).all for each in kind], Local()) for kind in placed.kinds]
    return [state_seconds(each, traffic, shards, links) for each in local]


def _added_up(
    plan: Plan,
    on: Surroundings,
    placed: PlacedKinds,
    stages: list[StageCost],
    states: list[StateSeconds],
    send: float,
) -> StepTime:
    """The parts of the slowest rank's step, and what they come to, given each kind of rank."""
    pipeline, m, stack = plan.layout.pipeline, plan.batch.num_microbatches, on.stack
    slowest = max(stages, key=_passes)
    sends = 2 * pipeline.vpp * send * (1 - stack.pipeline_hidden) if pipeline.pp > 1 else 0.0
    sending = [_with_sends(each.passes, sends) for each in stages]
    fetching = slowest.fetched / on.gpu.host_bytes_per_second
    traffic = framework_of(plan).state_traffic(plan)

    def exposed(stage: StageCost, state: StateSeconds) -> float:
        beside = _passes(stage)
        once = exposed_once(state.once, beside, stack, pipeline, overlapped=traffic.overlapped)
        return m * exposed_each(state.each, beside, stack) + once

    cost = slowest.cost
    parts = StepParts(
        compute_seconds=m * cost.compute,
        host_seconds=m * slowest.waits,
        tensor_parallel_seconds=m * cost.tensor,
        context_parallel_seconds=m * cost.context,
        expert_parallel_seconds=m * cost.expert,
        data_parallel_seconds=max(map(exposed, stages, states)),
        pipeline_parallel_seconds=m * sends,
        offload_seconds=m * sum(max(0.0, fetching - each) for each in slowest.passes[:2]),
        bubble_seconds=bubble(pipeline, [sending[kind] for kind in placed.ranks], m),
        optimizer_seconds=max(each.optimizer for each in states),
        jitter_seconds=0.0,
    )
    busy = sum(_every_part(parts))
    waits = jitter_ratio(on.cluster, plan.layout.num_gpus)
    parts = replace(parts, jitter_seconds=busy * waits)
    seconds = busy + parts.jitter_seconds
    compared = framework_of(plan).execution(plan).narrow != "nvfp4"
    known = (
        compared
        and on.gpu.reach.name in stack.compared
        and (not traffic.gathers or stack.gathers_compared)
    )
    basis: Basis = "known_stack" if known else "extrapolated"
    spread = stack.spread_experts if plan.model.has_experts else stack.spread
    width = spread if known else max(spread, EXTRAPOLATED)
    flops = sum([stages[kind].flops for kind in placed.ranks])
    answer = _answer(plan, on, parts, flops, _around(seconds, width), basis)
    paces = paces_of(plan, on.gpu)
    return answer if paces is None else _calibrated(plan, on, answer, flops, paces.seconds_ratio)


_every_part = attrgetter(*[each.name for each in fields(StepParts)])


def _around(seconds: float, width: float) -> Seconds:
    return Seconds(seconds * (1 - width), seconds, seconds * (1 + width))


def _calibrated(
    plan: Plan, on: Surroundings, bare: StepTime, flops: float, ratio: Ratios
) -> StepTime:
    """As own runs were slower or faster than was expected of them, every part alike."""
    whole = bare.seconds.expected
    seconds = Seconds(whole * ratio.low, whole * ratio.expected, whole * ratio.high)
    scaled = {
        each.name: ratio.expected * getattr(bare.parts, each.name) for each in fields(StepParts)
    }
    answer = _answer(plan, on, StepParts(**scaled), flops, seconds, "calibrated")
    return replace(answer, uncalibrated_seconds=bare.seconds)


def _passes(stage: StageCost) -> float:
    return stage.passes.forward + stage.passes.backward


def _with_sends(passes: PassSeconds, sends: float) -> PassSeconds:
    forward, backward, weights = passes
    return PassSeconds(forward + sends / 2, backward + sends / 2, weights)


def _answer(
    plan: Plan,
    on: Surroundings,
    parts: StepParts,
    flops: float,
    seconds: Seconds,
    basis: Basis,
) -> StepTime:
    layout, batch = plan.layout, plan.batch
    num_gpus, replicas = layout.num_gpus, layout.dp
    tokens = batch.micro_batch_size * batch.num_microbatches * batch.seq_length * replicas
    per_gpu = batch.num_microbatches * flops / layout.pipeline.pp
    rate = tokens / seconds.expected
    return StepTime(
        seconds=seconds,
        parts=parts,
        tokens_per_second=rate,
        tokens_per_second_per_gpu=rate / num_gpus,
        model_flops_per_gpu=per_gpu,
        model_flops_utilization_ratio=per_gpu / seconds.expected / on.gpu.bf16_flops,
        basis=basis,
    )
