"""The constants of step time, fitted to published runs.

Least squares of the logarithm of predicted to measured seconds, whose large errors count by their
size alone (Huber), and each constant is pulled towards what is known of it without any run. Gauss
and Newton's method within bounds, with derivatives by differences.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import mean
from typing import Any, Literal, NamedTuple

from tests.accuracy.outcomes import UnusableRowError
from tests.accuracy.throughput import Row, job_of, seconds_of, surroundings_of
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.memo import Memo
from trainfit.questions.estimate import plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.plan import Plan
from trainfit.steptime import StepTime, Surroundings, step_time
from trainfit.steptime.kernels import SOFTMAX_WIDTH_FLASH2


class Run(NamedTuple):
    """A published run: its row, its plan, what it ran on, and the seconds of a step."""

    row: Row
    plan: Plan
    on: Surroundings
    seconds: float

    @property
    def is_exact(self) -> bool:
        return bool(self.row["trust"] == "A")


def runs_of(path: Path) -> list[Run]:
    """Those of a file of published speed that can be priced without guessing; but none in fp4, or
    whose attention drops scores, which have no constants of their own: dropout has
    TransformerEngine leave its fastest kernels for others (get_attention_backend).
    """
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [run for row in rows if (run := _run(row)) is not None]


def _run(row: Row) -> Run | None:
    if not row["complete"] or row["trust"] == "C" or row["training"].get("attention_dropout"):
        return None
    try:
        seconds, plan = seconds_of(row), plan_of(job_of(row))
    except (UnusableRowError, RefusedError):
        return None
    on = surroundings_of(row, plan)
    in_fp4 = framework_of(plan).execution(plan).narrow == "nvfp4"
    return None if on is None or in_fp4 else Run(row, plan, on, seconds)


class Constant(NamedTuple):
    """A field of what a GPU reaches, of a software stack, or of all clusters."""

    of: Literal["reach", "stack", "cluster"]
    name: str
    field: str


class Known(NamedTuple):
    """What a constant is without any run, and how far off, as a standard deviation: of the
    logarithm, or of the log odds where it is the share of something that is hidden.
    """

    usual: float
    spread: float


PRODUCTS = {
    "A100": 0.78,
    "H100": 0.72,
    "H100-500W": 0.6,
    "B200": 0.55,
    "GB200": 0.6,
    "GB300": 0.6,
}
"""What bf16 products reach: nine tenths of the best that microbenchmarks do, whose sources the
catalogue names; of B200 the mean of two machines."""
REACH = {
    "bf16": Known(0.6, 0.12),
    "fp8": Known(0.64, 0.12),
    "attention": Known(0.5, 0.25),
    "flash2": Known(0.35, 0.25),
    "memory": Known(0.8, 0.1),
}
STACK = {
    "products": Known(1.0, 0.08),
    "grouped": Known(0.95, 0.1),
    "memory": Known(1.0, 0.12),
    "host_seconds": Known(6e-5, 0.7),
    "expert_host_seconds": Known(2e-4, 0.7),
    "pieces_host_ratio": Known(1.3, 0.3),
    "tensor_hidden": Known(0.4, 0.4),
    "tensor_overlapped": Known(0.8, 0.7),
    "expert_hidden": Known(0.1, 0.7),
    "pipeline_hidden": Known(0.3, 0.7),
    "data_hidden": Known(0.7, 0.7),
}
"""Of what tensor-parallel ranks exchange for a pair of linears, TransformerEngine runs two of five
beside a gradient's product (module/linear.py, layernorm_linear.py: the input gathered again, the
gradient of it scattered). A layer with experts in pieces takes the host longer, as each piece has
its own streams, events and call of autograd (megatron/core/pipeline_parallel/utils.py,
ScheduleNode): by how much is assumed. Products of experts reach what others do: of 1,000 rows and
more SimuMax measured, on B200, 2 % less at the median (kernels.EXPERT_SECONDS)."""
FLASH2 = {"A100": 0.65, "H100": 0.42, "H100-500W": 0.36}
"""What FlashAttention-2's products reach, beside its softmax: its authors measured 170 to 200
TFLOP/s of causal attention with heads of 128 features on A100, both ways (2307.08691), and on H100
319 forward (2407.08608, figure 5), less where its power is limited to 500 W."""
ATTENTION = {"llm-foundry": Known(0.55, 0.25)}
"""What a stack's attention reaches of FlashAttention-2 where it is another kernel: the one in
Triton, which took 1.3 to 2.5 times as long (2307.08691)."""
TOGETHER = frozenset(["pieces_host_ratio"])
"""Constants that all stacks have in common: of any one too few runs tell."""
CLUSTER = {
    "link_efficiency": Known(0.68, 0.08),
    "nic_efficiency": Known(0.75, 0.2),
    "link_latency_seconds": Known(2.8e-5, 0.2),
    "nic_latency_seconds": Known(3e-5, 0.7),
    "all_to_all_latency_seconds": Known(1e-4, 0.7),
    "jitter_per_doubling": Known(0.006, 0.7),
}
"""All-reduces of 1 MiB to 1 GiB among 2, 4 and 8 A100 of a node, as vTrain measured them, agree
within a tenth with 28 us for every doubling of the ranks and 0.68 of the links
(VIA-Research/vTrain@f8dda8473a48, trace/a100/AR_GPU*_LUT)."""
NICS = {"omni-path-4x100": Known(0.25, 0.5)}
"""What collectives reach of NICs that are known to be slow: of four of Omni-Path, 400 Gb/s in all,
BigScience measured an all-reduce at 15 to 42 Gb/s over 4 nodes of A100, at 44 to 57 over 16 of V100
and at 30 to 90 over 4 of them, whose bytes pass twice (experiments/bandwidth/README.md)."""
SHARED = {"B300": "B200", "GB200": "B200", "Ada": "H100", "GA102": "A100"}
"""GPUs of the same chips: what one reaches in fp8, attention and memory is the other's; B300 has
too few runs for bf16 of its own. And of chips of which no run is known, those that stand for them.
"""

HEAD = 128
"""Features of heads with which FlashAttention-2 is no faster than the latest kernels are."""
MOST = 0.87 / 1.006
"""The most of a card's bf16 peak that products reach in microbenchmarks, with room for the third
digit of each constant."""

SHARES = frozenset([each for each in STACK if each.endswith(("_hidden", "_overlapped"))])
"""What is hidden of exchanges: ratios, fitted as log odds."""

Values = Mapping[Constant, float]
"""Constants in the scale in which they are fitted: logarithms or log odds."""

ERROR = 0.06
"""The standard deviation of what no constant explains."""
LARGE = 0.1
"""Errors beyond this count by their size, not by its square."""
STEP = 0.02
LONGEST = 0.5
ROUNDS = 12
SWEEPS = 300


def scaled(field: str, value: float) -> float:
    return log(value / (1 - value)) if field in SHARES else log(value)


def unscaled(field: str, value: float) -> float:
    return 1 / (1 + exp(-value)) if field in SHARES else exp(value)


def known(constant: Constant) -> Known:
    of, name, field = constant
    if of == "reach" and field == "bf16":
        return REACH[field]._replace(usual=PRODUCTS[name])
    if of == "reach" and field == "flash2" and name in FLASH2:
        return REACH[field]._replace(usual=FLASH2[name])
    if of == "stack" and field == "attention":
        return ATTENTION[name]
    if field == "nic_efficiency" and name in NICS:
        return NICS[name]
    return {"reach": REACH, "stack": STACK, "cluster": CLUSTER}[of][field]


def constants_of(on: Surroundings) -> Iterator[Constant]:
    """All that the time of a run rests on."""
    reach = on.gpu.reach
    for field in REACH:
        if getattr(reach, field) is not None:
            yield Constant("reach", _whose(reach.name, field), field)
    for field in STACK:
        yield Constant("stack", stack_of(on.stack.name, field), field)
    if on.stack.name in ATTENTION:
        yield Constant("stack", on.stack.name, "attention")
    for field in CLUSTER:
        yield Constant("cluster", cluster_of(on.cluster.name, field), field)


def stack_of(name: str, field: str) -> str:
    """Whose constant a stack has."""
    return "all" if field in TOGETHER else name


def cluster_of(name: str, field: str) -> str:
    """Whose constant a cluster has: NICs are its own, all else is alike."""
    return name if field == "nic_efficiency" else "usual"


def _whose(reach: str, field: str) -> str:
    return reach if reach == "GB200" and field == "bf16" else SHARED.get(reach, reach)


def usual(constants: Iterable[Constant]) -> dict[Constant, float]:
    return {each: scaled(each.field, known(each).usual) for each in constants}


def predicted(runs: Sequence[Run], values: Values) -> list[float]:
    """Seconds of runs by these constants; by those that are known without runs of all others."""
    memo, made = Memo(), dict[tuple[str, str, str], Surroundings]()
    return [_seconds(run, values, memo, made) for run in runs]


def _seconds(
    run: Run, values: Values, memo: Memo, made: dict[tuple[str, str, str], Surroundings]
) -> float:
    on = run.on
    names = on.gpu.name, on.stack.name, on.cluster.name
    if names not in made:
        made[names] = with_constants(on, values)
    found = step_time(run.plan, memo=memo, on=made[names])
    assert isinstance(found, StepTime)
    return found.seconds.expected


def with_constants(on: Surroundings, values: Values) -> Surroundings:
    """What a run ran on, by these constants; by those that are known without runs of all others."""
    given = {**usual(constants_of(on)), **values}
    told: dict[str, dict[str, Any]] = defaultdict(dict)
    for each in constants_of(on):
        told[each.of][each.field] = unscaled(each.field, given[each])
    return Surroundings(
        replace(on.gpu, reach=replace(on.gpu.reach, **told["reach"])),
        replace(on.stack, **told["stack"]),
        replace(on.cluster, **told["cluster"]),
    )


def errors_of(runs: Sequence[Run], values: Values) -> list[float]:
    """Logarithms of predicted to measured seconds."""
    pairs = zip(predicted(runs, values), runs, strict=True)
    return [log(seconds / run.seconds) for seconds, run in pairs]


def fitted(runs: Sequence[Run], start: Values | None = None) -> dict[Constant, float]:
    """The constants that agree best with these runs and with what is known of each."""
    bearing = [list(constants_of(run.on)) for run in runs]
    order = sorted({each for all_ in bearing for each in all_})
    values = {**usual(order), **{each: at for each, at in (start or {}).items() if each in order}}
    limits = bounds(runs)
    errors = errors_of(runs, values)
    cost = _cost(errors, values)
    for _ in range(ROUNDS):
        slopes = _slopes(runs, bearing, values, errors)
        change = _newton(order, values, errors, slopes, limits)
        found = _shortened(runs, values, change, cost)
        if found is None:
            break
        before, (values, errors, cost) = cost, found
        if before - cost < 0.005 * cost:
            break
    return values


class Bound(NamedTuple):
    """What weighted constants, added up, may not exceed."""

    weights: Mapping[Constant, float]
    most: float


def bounds(runs: Sequence[Run]) -> list[Bound]:
    """What constants of these runs can mean: experts' products reach at most what others do, the
    host launches their layers no faster, FlashAttention-2 reaches at most what the latest kernels
    do, and no stack more than microbenchmarks.
    """
    found: dict[tuple[Constant, ...], Bound] = {}
    for run in runs:
        chip, stack = run.on.gpu.reach.name, run.on.stack.name
        grouped, products, host, of_experts = (
            Constant("stack", stack, each)
            for each in ("grouped", "products", "host_seconds", "expert_host_seconds")
        )
        flash2, attention, bf16 = (
            Constant("reach", _whose(chip, each), each) for each in ("flash2", "attention", "bf16")
        )
        found[grouped,] = Bound({grouped: 1.0}, 0.0)
        found[host, of_experts] = Bound({host: 1.0, of_experts: -1.0}, 0.0)
        latest = 2 * HEAD + run.on.gpu.reach.softmax_width
        slower = (2 * HEAD + SOFTMAX_WIDTH_FLASH2) / latest
        found[flash2, attention] = Bound({flash2: 1.0, attention: -1.0}, log(slower))
        found[bf16, products] = Bound({bf16: 1.0, products: 1.0}, log(MOST))
    return list(found.values())


def _cost(errors: Iterable[float], values: Values) -> float:
    def each(error: float) -> float:
        size = abs(error)
        return error**2 if size < LARGE else LARGE * (2 * size - LARGE)

    pull = sum(_pull(constant, value) ** 2 for constant, value in values.items())
    return sum(map(each, errors)) / ERROR**2 + pull


def _pull(constant: Constant, value: float) -> float:
    """How far a constant is from what is known of it, in standard deviations."""
    about = known(constant)
    return (value - scaled(constant.field, about.usual)) / about.spread


def _slopes(
    runs: Sequence[Run],
    bearing: Sequence[Sequence[Constant]],
    values: Values,
    errors: Sequence[float],
) -> list[dict[Constant, float]]:
    """By how much each run's error grows with each constant that bears on it."""
    slopes: list[dict[Constant, float]] = [{} for _ in runs]
    places: dict[Constant, list[int]] = defaultdict(list)
    for place, constants in enumerate(bearing):
        for each in constants:
            places[each].append(place)
    for constant, some in places.items():
        moved = {**values, constant: values[constant] + STEP}
        for place, error in zip(some, errors_of([runs[at] for at in some], moved), strict=True):
            slopes[place][constant] = (error - errors[place]) / STEP
    return slopes


def _newton(
    order: Sequence[Constant],
    values: Values,
    errors: Sequence[float],
    slopes: Sequence[Mapping[Constant, float]],
    limits: Sequence[Bound],
) -> dict[Constant, float]:
    """The change of every constant, within the bounds, that would be right were all as straight as
    it is here.
    """
    at = {each: place for place, each in enumerate(order)}
    matrix = [[0.0] * len(order) for _ in order]
    right = [0.0] * len(order)
    for error, slope in zip(errors, slopes, strict=True):
        weight = min(1.0, LARGE / max(abs(error), LARGE)) / ERROR**2
        for one, steep in slope.items():
            right[at[one]] -= weight * steep * error
            row = matrix[at[one]]
            for other, also in slope.items():
                row[at[other]] += weight * steep * also
    for each, place in at.items():
        spread = known(each).spread
        matrix[place][place] += 1 / spread**2
        right[place] -= _pull(each, values[each]) / spread
    sides = [[limit.weights.get(each, 0.0) for each in order] for limit in limits]
    room = [
        limit.most - sum(weight * values[each] for each, weight in limit.weights.items())
        for limit in limits
    ]
    free, *along = _solved(matrix, [right, *sides])
    forces = _forces(sides, along, [_dot(side, free) for side in sides], room)
    for force, line in zip(forces, along, strict=True):
        free = [value - force * each for value, each in zip(free, line, strict=True)]
    return dict(zip(order, free, strict=True))


def _forces(
    sides: Sequence[Sequence[float]],
    along: Sequence[Sequence[float]],
    reached: Sequence[float],
    room: Sequence[float],
) -> list[float]:
    """How hard each bound pushes back so that none is passed (Hildreth, 1957): each in turn by as
    much as it would be passed, and never outward.
    """
    stiff = [[_dot(side, line) for line in along] for side in sides]
    forces = [0.0] * len(sides)
    for _ in range(SWEEPS):
        for place, row in enumerate(stiff):
            over = reached[place] - _dot(row, forces) - room[place]
            forces[place] = max(0.0, forces[place] + over / row[place])
    return forces


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def _solved(matrix: list[list[float]], sides: Sequence[list[float]]) -> list[list[float]]:
    """What the matrix takes to each side, by Gauss' elimination; it is positive definite, so that
    no rows need be swapped.
    """
    size = len(matrix)
    rows = [[*row, *[side[place] for side in sides]] for place, row in enumerate(matrix)]
    for place, row in enumerate(rows):
        for below in rows[place + 1 :]:
            if factor := below[place] / row[place]:
                for column in range(place, len(row)):
                    below[column] -= factor * row[column]
    found: list[list[float]] = [[] for _ in sides]
    for place in reversed(range(size)):
        after = rows[place][place + 1 : size]
        for values, value in zip(found, rows[place][size:], strict=True):
            rest = sum(a * b for a, b in zip(after, reversed(values), strict=True))
            values.append((value - rest) / rows[place][place])
    return [values[::-1] for values in found]


Fit = tuple[dict[Constant, float], list[float], float]
"""Constants, the errors of the runs, and what both cost."""


def _shortened(runs: Sequence[Run], values: Values, change: Values, before: float) -> Fit | None:
    """The change, or so much of it that the cost falls; None where none does. What lies between
    two points within bounds does so as well.
    """
    most = max(map(abs, change.values()))
    if not most:
        return None
    whole = min(1.0, LONGEST / most)
    for part in (whole, whole / 2, whole / 4, whole / 10):
        moved = {each: value + part * change[each] for each, value in values.items()}
        errors = errors_of(runs, moved)
        cost = _cost(errors, moved)
        if cost < before:
            return moved, errors, cost
    return None


def held_out(
    runs: Sequence[Run], part: Callable[[Run], object], start: Values | None = None
) -> list[float]:
    """The error of each run by constants that were fitted to all runs of other parts. Of a stack
    that no other run has, the constants are the mean of those that were fitted.
    """
    errors = dict[int, float]()
    for each in sorted({str(part(run)) for run in runs}):
        apart = [place for place, run in enumerate(runs) if str(part(run)) == each]
        rest = [run for run in runs if str(part(run)) != each]
        values = fitted(rest, start)
        unseen = {runs[place].on.stack.name for place in apart} - {r.on.stack.name for r in rest}
        values |= _usual_stack(values, unseen)
        found = errors_of([runs[place] for place in apart], values)
        errors |= dict(zip(apart, found, strict=True))
    return [errors[place] for place in range(len(runs))]


def _usual_stack(values: Values, unseen: Iterable[str]) -> dict[Constant, float]:
    def of_all(field: str) -> float:
        return mean(v for c, v in values.items() if c.of == "stack" and c.field == field)

    own = STACK.keys() - TOGETHER
    return {Constant("stack", name, field): of_all(field) for name in unseen for field in own}
