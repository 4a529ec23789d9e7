"""What a search tries, and what it does when its time is up."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from tests.decisions.search.test_exhaustive import ASKED as SMALL
from tests.decisions.search.test_exhaustive import SPACES
from trainfit.decisions.search.ground import Ground, TimeUpError, grounds
from trainfit.decisions.search.results import FittingJob, Tally
from trainfit.decisions.search.search import search
from trainfit.decisions.search.space import layouts
from trainfit.questions.pricing import Pricing
from trainfit.resolve.plan import Plan
from trainfit.specs.job import Job
from trainfit.specs.search import SearchRequest

ASKED: dict[str, Any] = {
    "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
    "parallelism": {"num_gpus": 16, "cp": 1},
    "training": {"global_batch_size": 64, "seq_length": 4096},
    "gpu": "H100-80GB",
}
SHARDED = {"data_parallel_sharding_strategy": "optim_grads_params"}

Limit = Callable[[Callable[[Job], Plan]], Callable[[Job], Plan]]


def ground_of(request: SearchRequest, limit: Limit = lambda plan_of: plan_of) -> Ground:
    pricing = Pricing()
    model = pricing.model_of(request.model).spec
    [ground] = grounds(request, model, limit(pricing.plan_of), pricing.memo)
    return ground


@pytest.mark.parametrize(
    ("asked", "tried"),
    [
        ({"objective": "fastest"}, {"optim"}),
        ({"objective": "fewest_gpus"}, {"optim"}),
        ({"objective": "most_headroom"}, {"optim", "optim_grads_params"}),
        (
            {"parallelism": {**ASKED["parallelism"], **SHARDED}},
            {"optim_grads_params"},
        ),
    ],
    ids=["fastest", "fewest_gpus", "most_headroom", "asked"],
)
def test_what_no_run_tells_the_speed_of_is_not_said_to_be_fastest(
    asked: dict[str, Any], tried: set[str]
) -> None:
    ground = ground_of(SearchRequest.model_validate(ASKED | asked))
    job = ground.on(16)
    found = {
        sizes.of(job).parallelism.data_parallel_sharding_strategy
        for sizes in layouts(job, ground.model, ground.axes)
        if sizes.dp(16) > 1
    }
    assert found == tried


def until(plans: int) -> Limit:
    """So many plans, and no time for another."""

    def limited(plan_of: Callable[[Job], Plan]) -> Callable[[Job], Plan]:
        made = count(1)

        def plan(job: Job) -> Plan:
            if next(made) > plans:
                raise TimeUpError
            return plan_of(job)

        return plan

    return limited


def test_a_search_that_is_cut_tells_what_it_found_first() -> None:
    request = SearchRequest.model_validate(ASKED)
    whole = search(request, [ground_of(request)])
    assert not whole.is_cut
    [first, *_] = [each.job for each in whole.options]
    found = []
    for plans in (0, 30, 50, 60):
        standing = search(request, [ground_of(request, until(plans))])
        assert standing.is_cut
        assert standing.done == 0
        found.append([each.job for each in standing.options])
    assert found[0] == []
    assert found[-1][0] == first
    assert all(each == found[-1][: len(each)] for each in found)


def test_of_what_ties_only_that_is_priced_which_may_leave_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = SearchRequest.model_validate({**SMALL, **SPACES["dense, FSDP"]})
    ground, option = ground_of(request), Ground.option
    found, behind = list[FittingJob](), list[tuple[int, int]]()

    def noted(ground: Ground, job: Job, tally: Tally) -> FittingJob | None:
        plan = ground.plan_of(job)
        may_leave = ground.room.usable_bytes - ground.least(plan).high
        time = ground.time(plan)
        assert time is not None
        if len(found) >= request.best and 1 / time.tokens_per_second > found[-1].pace:
            behind.append((may_leave, max(each.headroom_bytes for each in found)))
        if (priced := option(ground, job, tally)) is not None:
            found.append(priced)
        return priced

    monkeypatch.setattr(Ground, "option", noted)
    search(request, [ground])
    assert all(may_leave > left for may_leave, left in behind)
