"""What a search finds is what pricing every job of its space finds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from math import inf
from operator import itemgetter
from typing import Any

import pytest

from trainfit.decisions.search.ground import Ground, grounds
from trainfit.decisions.search.results import FittingJob, Tally
from trainfit.decisions.search.search import ranked, search, value
from trainfit.decisions.search.space import layouts, micro_batches, stepped
from trainfit.questions.pricing import Pricing
from trainfit.resolve.findings import RefusedError
from trainfit.specs.job import Job
from trainfit.specs.search import SearchRequest

SMALL = {
    "model_type": "llama",
    "num_hidden_layers": 10,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
EXPERTS = SMALL | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
SPACES: dict[str, dict[str, Any]] = {
    "dense, megatron": {"parallelism": {"num_gpus": 8}},
    "experts, megatron": {
        "model": {"hf_config": EXPERTS},
        "parallelism": {"num_gpus": 16, "cp": 1, "etp": 1},
    },
    "latent attention, megatron": {
        "model": {"hf_id": "deepseek-ai/DeepSeek-V2-Lite"},
        "parallelism": {"num_gpus": 8, "etp": 1, "cp": 1},
    },
    "dense, torchtitan": {
        "parallelism": {"num_gpus": 4, "cp": 1},
        "framework": {"name": "torchtitan"},
    },
    "dense, FSDP": {
        "parallelism": {"num_gpus": 4},
        "framework": {"name": "transformers"},
    },
    "dense, nanotron": {
        "parallelism": {"num_gpus": 4},
        "framework": {"name": "nanotron"},
        "gpu": "H100-80GB",
    },
}
ASKED: dict[str, Any] = {
    "model": {"hf_config": SMALL},
    "training": {"global_batch_size": 32, "seq_length": 4096},
    "gpu": "A100-40GB",
}


def everything(ground: Ground, num_gpus: int) -> Iterator[Job]:
    """Every job of a space."""
    job = ground.on(num_gpus)
    for sizes in layouts(job, ground.model, ground.axes):
        batches = micro_batches(job, sizes.dp(num_gpus))
        for batch, rung in product(batches, ground.ladder):
            yield stepped(stepped(sizes.of(job), {"micro_batch_size": batch}), rung)


def bounds(ground: Ground, jobs: Iterable[Job]) -> Iterator[tuple[Job, float, float]]:
    """Jobs that hold, with the pace of each, and a bound of the headroom that is below it: what
    tensors leave, with its sign turned.
    """
    for job in jobs:
        try:
            plan = ground.plan_of(job)
            least, time = ground.least(plan), ground.time(plan)
        except RefusedError:
            continue
        pace = inf if time is None else 1 / time.tokens_per_second
        yield job, pace, least.high - ground.room.usable_bytes


def first_that_fits(
    ground: Ground, bounded: Iterable[tuple[Job, float]], asked: SearchRequest
) -> FittingJob:
    """The best of all jobs, priced in full in the order of their bounds up to the first that is no
    worse than what may follow.
    """
    best: FittingJob | None = None
    for job, bound in sorted(bounded, key=itemgetter(1)):
        if best is not None and bound >= value(best, asked):
            break
        option = ground.option(job, Tally())
        if option is not None:
            assert bound <= value(option, asked)
            best = (
                option if best is None else min(best, option, key=lambda each: value(each, asked))
            )
    assert best is not None
    return best


@pytest.mark.parametrize("space", SPACES)
def test_the_best_is_that_of_all(space: str) -> None:
    question = {**ASKED, **SPACES[space]}
    request = SearchRequest.model_validate(question)
    pricing = Pricing()
    model = pricing.model_of(request.model).spec
    [ground] = grounds(request, model, pricing.plan_of, pricing.memo)
    every = list(bounds(ground, everything(ground, question["parallelism"]["num_gpus"])))
    bounded = {
        "fastest": [(job, pace) for job, pace, _ in every],
        "most_headroom": [(job, headroom) for job, _, headroom in every],
    }
    paces = {pace for _, pace, _ in every}
    for objective, candidates in bounded.items():
        asked = request.model_copy(update={"objective": objective})
        found = ranked(asked, search(asked, [ground]).options)
        best = first_that_fits(ground, candidates, asked)
        assert value(found[0], asked) == value(best, asked)
        if objective == "fastest":
            assert {each.pace for each in found} <= paces
            assert all(ground.option(each.job, Tally()) is not None for each in found)
