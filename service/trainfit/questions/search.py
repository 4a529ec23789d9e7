"""Which layout: from a job that leaves some of it open to the layouts that are sent. The one path,
for HTTP, which takes it portion by portion, for the terminal and for Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod
from time import perf_counter
from typing import Annotated, Any

from pydantic import ValidationError

from trainfit import __version__
from trainfit.architectures.config import ConfigError
from trainfit.decisions.patch import PatchError
from trainfit.decisions.quantities import gib, plain
from trainfit.decisions.room import room_on
from trainfit.decisions.search.fastest import TIE
from trainfit.decisions.search.ground import Ground, TimeUpError, grounds
from trainfit.decisions.search.results import FittingJob, Tried, pareto
from trainfit.decisions.search.search import (
    MAX_PORTIONS,
    SearchProgress,
    advance,
    begin,
    ranked,
    value,
)
from trainfit.decisions.search.space import worlds
from trainfit.decisions.verdict import Verdict
from trainfit.decisions.verdict import standing as standing_beside
from trainfit.estimator.memo import Memos
from trainfit.estimator.results import Binding, Interval
from trainfit.launch.convert.targets import WrittenLaunch
from trainfit.launch.reading import LaunchReading, ReadLaunch
from trainfit.questions.answers import Sent, html_table
from trainfit.questions.convert import converted
from trainfit.questions.digest import catalogue_version, request_digest
from trainfit.questions.dimensions import Find, from_package
from trainfit.questions.pricing import Pricing
from trainfit.questions.spanning import spanning
from trainfit.resolve.findings import Finding, RefusedError
from trainfit.resolve.plan import Plan
from trainfit.specs.framework import Megatron, Torchtitan, Transformers
from trainfit.specs.job import AS_JOB, Job
from trainfit.specs.launch import LaunchTarget
from trainfit.specs.search import BY_TIME, Objective, SearchRequest
from trainfit.steptime import Seconds, StepParts

MEMOS = Memos(max_results=50_000)
"""What the layouts of the last searches have in common: some kB for each result."""


@dataclass(frozen=True, slots=True)
class FoundLayout:
    """A whole job that fits, what it needs and how fast it is; null where the speed of its card is
    not known. `tie` says that what is known does not tell it from the best. `device_bytes` are
    those of the stage that binds, `headroom_bytes` what stays free by the highest of all bounds.
    """

    job: Annotated[dict[str, Any], AS_JOB]
    num_gpus: int
    gpu: str
    verdict: Verdict
    device_bytes: Interval
    headroom_bytes: int
    binding: Binding
    step_seconds: Seconds | None
    parts: StepParts | None
    tokens_per_second: float | None
    tokens_per_second_per_gpu: float | None
    model_flops_utilization_ratio: float | None
    cost_per_million_tokens: float | None
    tie: bool
    launch: WrittenLaunch | None


@dataclass(frozen=True, slots=True)
class SearchAnswer(Sent):
    """The best layouts, each with the keys of its launch where its framework's can say it; of all
    that were priced those that no other beats in time, GPUs and headroom together; and what became
    of the rest. `launch` tells how it was read, where a launch stood in the place of a job. `cut`
    says how far the search was where the time for an answer was up before its end; of answers that
    are not cut equal digests have equal ones.
    """

    objective: Objective
    best: list[FoundLayout]
    pareto: list[FoundLayout]
    tried: Tried
    launch: ReadLaunch | None
    cut: str | None
    estimator_version: str
    catalogue_version: str
    request_digest: str

    def _repr_html_(self) -> str:
        """A row for each of the best, for a notebook."""
        header = ["GPUs", "layout", "seconds a step", "tokens/s", "GiB free", "verdict"]
        rows = [
            [
                str(each.num_gpus),
                in_words(each.job),
                "" if each.step_seconds is None else f"{each.step_seconds.expected:.3g}",
                "" if each.tokens_per_second is None else f"{each.tokens_per_second:,.0f}",
                gib(each.headroom_bytes),
                plain(each.verdict),
            ]
            for each in self.best
        ]
        return html_table(plain(self.objective), header, rows)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is: portions that are done, of so many; layouts that were looked at, and how
    many were found that fit.
    """

    done: int
    portions: int
    layouts: int
    found: int


def searched(
    request: SearchRequest, find: Find = from_package, reading: LaunchReading | None = None
) -> SearchAnswer:
    """The best layouts of a job, as they are sent. Errors are those of `plan_of`."""
    standing = next_portion(request, find)
    while not standing.is_over:
        standing = next_portion(request, find, standing)
    return concluded(request, standing, find, reading)


def next_portion(
    request: SearchRequest, find: Find, standing: SearchProgress | None = None, until: float = inf
) -> SearchProgress:
    """A search one portion further on, or cut where the machine's clock (`perf_counter`, which all
    processes share) is past `until`. Raises RefusedError where it cannot be begun.
    """
    places = _grounds(request, find, until)
    if standing is None:
        _check(request, places)
        standing = begin(request, places)
    if not standing.is_over:
        advance(request, places, standing)
    return standing


def progress(standing: SearchProgress) -> Progress:
    return Progress(
        standing.done, len(standing.portions), standing.tally.layouts, len(standing.options)
    )


def _grounds(request: SearchRequest, find: Find, until: float) -> list[Ground]:
    """Where is searched. Raises RefusedError where that is nowhere, or in too many places."""
    places = len(request.gpus or (request.gpu,)) * prod(map(len, request.alternatives.values()))
    portions = places * len(worlds(request, request.max_gpus, finely=True))
    if portions > MAX_PORTIONS:
        message = (
            f"{places} cards and alternatives on so many numbers of GPUs are {portions} "
            f"searches, and at most {MAX_PORTIONS} are made at once; give num_gpus, or fewer"
        )
        raise _refused("/alternatives" if request.alternatives else "/gpus", "too_many", message)
    pricing = Pricing(find, MEMOS)

    def plan_of(job: Job) -> Plan:
        if perf_counter() > until:
            raise TimeUpError
        return pricing.plan_of(job)

    try:
        model = pricing.model_of(request.model).spec
        return list(grounds(request, model, plan_of, pricing.memo))
    except PatchError as error:
        raise _refused("/alternatives", "no_such_path", str(error)) from None
    except ValidationError as error:
        message = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors()[:3])
        raise _refused("/alternatives", "invalid", message) from None


def _check(request: SearchRequest, places: Sequence[Ground]) -> None:
    """Raise RefusedError where what is sought cannot be found."""
    training, objective = request.training, request.objective
    if objective not in BY_TIME:
        return
    untimed = [each.gpu for each in places if not each.is_timed]
    timed = objective != "fewest_gpus" or request.min_tokens_per_second is not None
    if untimed and timed:
        message = f"the links between GPUs are not known: {untimed[0]}; nobody can say what is fast"
        raise _refused("/gpu", "not_timed", message)
    if training.global_batch_size is None and training.num_microbatches is None and not untimed:
        message = "layouts are compared by the time of a step: say how many samples it has"
        raise _refused("/training/global_batch_size", "missing", message)
    unpriced = [each.gpu for each in places if each.price_per_gpu_hour is None]
    if unpriced and objective == "cheapest":
        message = f"has no price of {unpriced[0]}"
        raise _refused("/price_per_gpu_hour", "missing", message)


def _refused(pointer: str, code: str, message: str) -> RefusedError:
    return RefusedError((Finding(pointer, code, message),))


def concluded(
    request: SearchRequest,
    standing: SearchProgress,
    find: Find,
    reading: LaunchReading | None = None,
) -> SearchAnswer:
    """What a search has found, as it is sent."""
    options = standing.options
    if reading is not None:
        options = _upheld(request, standing, find, reading)
    best = ranked(request, options)
    asked = request.model_dump(mode="json", exclude_unset=True)
    source = find(request.model).source
    return SearchAnswer(
        objective=request.objective,
        best=[_found(request, each, best[0], find) for each in best],
        pareto=[_found(request, each, best[0], None) for each in pareto(options)],
        tried=standing.tally.summary(),
        launch=None if reading is None else reading.launch,
        cut=_cut(standing) if standing.is_cut else None,
        estimator_version=__version__,
        catalogue_version=catalogue_version(),
        request_digest=request_digest("search", {}, asked, source),
    )


UPHELD = 40
"""Options, the first by the objective, that are priced again beside what a launch leaves open."""


def _upheld(
    request: SearchRequest, standing: SearchProgress, find: Find, reading: LaunchReading
) -> list[FittingJob]:
    """Options whose verdict stands beside all that a launch says and that is not modelled."""
    unread, read = reading.unread(), reading.launch
    if not (unread or read.account.bounded or read.variants):
        return standing.options
    price = spanning(reading, Pricing(find, MEMOS).estimate)
    accepted = ("fits",) if request.accept == "fits" else ("fits", "tight")
    found = []
    for option in ranked(request, standing.options, UPHELD):
        assert option.job.gpu is not None
        try:
            estimate = price(option.job)
        except RefusedError:
            continue
        verdict = room_on(option.job.gpu, request.policy).verdict(estimate)
        verdict = standing_beside(verdict, [each.direction for each in unread])
        if verdict in accepted:
            found.append(option._replace(verdict=verdict))
        else:
            why = unread[0].message if unread else "options of the launch may take it further"
            standing.tally.fell("unknown", why)
    return found


def _cut(standing: SearchProgress) -> str:
    parts = len(standing.portions)
    return (
        f"the time for an answer was up after {standing.done} of {parts} parts of the search; "
        "give some of the sizes, or ask for its progress, which allows more time"
    )


def _found(
    request: SearchRequest, option: FittingJob, best: FittingJob, find: Find | None
) -> FoundLayout:
    """An option beside the best; with `find` also the keys of its launch."""
    time = option.time
    return FoundLayout(
        job=option.job.model_dump(mode="json", exclude_unset=True),
        num_gpus=option.num_gpus,
        gpu=option.gpu,
        verdict=option.verdict,
        device_bytes=option.needs.binding.device_bytes,
        headroom_bytes=option.headroom_bytes,
        binding=option.needs.binding,
        step_seconds=None if time is None else time.seconds,
        parts=None if time is None else time.parts,
        tokens_per_second=None if time is None else time.tokens_per_second,
        tokens_per_second_per_gpu=None if time is None else time.tokens_per_second_per_gpu,
        model_flops_utilization_ratio=None if time is None else time.model_flops_utilization_ratio,
        cost_per_million_tokens=1e6 * option.cost if option.cost < inf else None,
        tie=_ties(request, option, best),
        launch=None if find is None else _launch(option.job, find),
    )


def _ties(request: SearchRequest, option: FittingJob, best: FittingJob) -> bool:
    """Whether an option is as good as the best, as far as times can tell."""
    one, other = value(option, request), value(best, request)
    if request.objective in ("fastest", "cheapest"):
        return one <= TIE * other
    return one == other and (request.objective not in BY_TIME or option.pace <= TIE * best.pace)


def _launch(job: Job, find: Find) -> WrittenLaunch | None:
    """The keys that say a job; None where its framework's cannot."""
    target = _target(job)
    try:
        return None if target is None else converted(job, target, find)
    except (RefusedError, ConfigError):
        return None


def _target(job: Job) -> LaunchTarget | None:
    match job.framework:
        case Megatron():
            return "megatron-args"
        case Torchtitan():
            return "torchtitan"
        case Transformers(data_parallel_engine="deepspeed"):
            return "deepspeed"
        case Transformers():
            return "accelerate"
        case _:
            return None


def in_words(job: dict[str, Any]) -> str:
    """A layout in a line: tp 4, pp 4, vpp 5, micro-batch 1."""
    layout, training = job["parallelism"], job["training"]
    said = [
        f"{name} {layout[name]}"
        for name in ("tp", "pp", "vpp", "cp", "ep", "etp")
        if layout.get(name, 1) not in (1, None)
    ]
    said.append(f"micro-batch {training['micro_batch_size']}")
    recompute = training.get("recompute", {})
    if granularity := recompute.get("granularity"):
        modules = recompute.get("modules")
        said.append(f"recompute {', '.join(modules) if modules else granularity}")
    if sharding := layout.get("data_parallel_sharding_strategy"):
        said.append(f"share {plain(sharding)}")
    if training.get("optimizer", {}).get("cpu_offload_fraction"):
        said.append("optimizer on the host")
    if training.get("offload_activations"):
        said.append("activations on the host")
    return ", ".join(said)
