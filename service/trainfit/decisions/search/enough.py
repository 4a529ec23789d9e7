"""About how many GPUs a job takes that no change of its layout fits on those that it has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product
from typing import Any

from trainfit.decisions.patch import patch
from trainfit.decisions.search.ground import Ground, PlanOf, grounds
from trainfit.decisions.search.ladders import Rung
from trainfit.decisions.search.results import FittingJob, Tally
from trainfit.decisions.search.space import LayoutSizes, layouts, micro_batches, stepped, worlds
from trainfit.decisions.search.splits import SAYS_SPLIT
from trainfit.decisions.suggestions import Suggestion, Timing
from trainfit.estimator.memo import Memo
from trainfit.estimator.results import Estimate
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.registry import conventions_of
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.job import Job
from trainfit.specs.parallelism import MAX_GPUS, Parallelism
from trainfit.specs.policy import FitCheckRequest
from trainfit.specs.search import SearchRequest
from trainfit.steptime import step_time

SIZES = ("num_gpus", "tp", "pp", "vpp", "cp", "ep", "etp", *SAYS_SPLIT)
TRIED = 24
"""Layouts of one number of GPUs, those that divide the model most."""
LESS_BY = 4
"""Recompute aside, another layout takes no more than so many times less memory of all GPUs together
than one in which many hold the same.
"""


def enough_gpus(
    request: FitCheckRequest, estimate: Estimate, model: ModelSpec, plan_of: PlanOf, memo: Memo
) -> Suggestion | None:
    """The fewest GPUs on which some layout fits, by powers of two, with that layout as an example;
    None where there is none. All else stays as the job has it, but that layers run again in
    backward where it leaves that open and nothing fits without.
    """
    [ground] = grounds(_leaving_layout_open(request), model, plan_of, memo)
    rungs = [each for each in ground.ladder if each.keys() <= {"recompute"}]
    num_gpus, binding = estimate.parallelism.num_gpus, estimate.binding.device_bytes
    least = num_gpus * binding.low / max(1, ground.room.usable_bytes) / LESS_BY
    for size in worlds(ground.job, MAX_GPUS, finely=False):
        if size <= num_gpus or size < least:
            continue
        divided = list(islice(_most_divided(ground, size), TRIED))
        for rung, sizes in product(dict.fromkeys((0, len(rungs) - 1)), divided):
            option = _option(ground, stepped(sizes.of(ground.on(size)), rungs[rung]))
            if option is not None:
                changed = _suggestion(request, estimate, option, sizes, rungs[rung])
                timing = Timing(request, lambda job: step_time(plan_of(job), memo=memo))
                seconds, ratio = timing.of(option.job)
                return replace(changed, step_seconds=seconds, gpu_time_ratio=ratio)
    return None


def _leaving_layout_open(request: FitCheckRequest) -> SearchRequest:
    given = request.parallelism
    kept = {name: getattr(given, name) for name in given.model_fields_set.difference(SIZES)}
    batch = {"micro_batch_size": request.training.micro_batch_size}
    return SearchRequest(
        model=request.model,
        parallelism=Parallelism(**kept),
        training=request.training.model_copy(update=batch),
        framework=request.framework,
        gpu=request.gpu,
        calibration=request.calibration,
        speed=request.speed,
        policy=request.policy,
        objective="fewest_gpus",
    )


def _most_divided(ground: Ground, num_gpus: int) -> Iterator[LayoutSizes]:
    """Layouts that divide the model over most ranks, over as few stages as they can. What shares
    weights out divides it over all, unless pipelines are what its framework is for.
    """
    job = ground.on(num_gpus)
    pipelines = conventions_of(job).sharding == "optim"

    def order(sizes: LayoutSizes) -> tuple[int, int, int, int]:
        shared = ("data_parallel_sharding_strategy", "optim_grads_params") in sizes.others
        ranks = num_gpus if shared and not pipelines else sizes.tp * sizes.pp
        return -ranks * sizes.ep, -ranks, sizes.pp, -sizes.tp

    for sizes in sorted(layouts(job, ground.model, ground.axes), key=order):
        if micro_batches(job, sizes.dp(num_gpus)):
            yield sizes


def _option(ground: Ground, job: Job) -> FittingJob | None:
    try:
        return ground.option(job, Tally())
    except RefusedError:
        return None


def _suggestion(
    request: FitCheckRequest, estimate: Estimate, option: FittingJob, sizes: LayoutSizes, rung: Rung
) -> Suggestion:
    named = {"tp": sizes.tp, "pp": sizes.pp, "cp": sizes.cp, "ep": sizes.ep, **dict(sizes.others)}
    gone = request.parallelism.model_fields_set.intersection(SIZES) - named.keys()
    values: dict[str, Any] = {f"/parallelism/{name}": None for name in sorted(gone)}
    values |= {f"/parallelism/{name}": value for name, value in named.items()}
    values["/parallelism/num_gpus"] = option.num_gpus
    values |= {f"/training/{name}": value for name, value in rung.items()}
    before, after = estimate.binding.device_bytes, option.needs.binding.device_bytes
    cost = f"about {option.num_gpus} GPUs instead of {estimate.parallelism.num_gpus}"
    saved = before.expected - after.expected
    return Suggestion(list(patch(request, values)), saved, cost, option.verdict)
