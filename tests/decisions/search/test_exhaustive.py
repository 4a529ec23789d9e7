"""What a search finds is what pricing every job of its space finds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from trainfit.decisions.search.ground import Ground, grounds
from trainfit.decisions.search.results import Option, Tally
from trainfit.decisions.search.search import ranked, search, value
from trainfit.decisions.search.space import layouts, micro_batches, stepped
from trainfit.questions.pricing import Pricing
from trainfit.resolve.findings import RefusedError
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


def everything(ground: Ground, num_gpus: int) -> Iterator[Option]:
    """Every job of a space that fits, priced in full."""
    job = ground.on(num_gpus)
    for sizes in layouts(job, ground.model, ground.axes):
        batches = micro_batches(job, sizes.dp(num_gpus))
        for batch, rung in product(batches, ground.ladder):
            tried = stepped(stepped(sizes.of(job), {"micro_batch_size": batch}), rung)
            try:
                option = ground.option(tried, Tally())
            except RefusedError:
                continue
            if option is not None:
                yield option


@pytest.mark.parametrize("space", SPACES)
def test_the_best_is_that_of_all(space: str) -> None:
    question = {**ASKED, **SPACES[space]}
    request = SearchRequest.model_validate(question)
    pricing = Pricing()
    model = pricing.model_of(request.model).spec
    [ground] = grounds(request, model, pricing.plan_of, pricing.memo)
    num_gpus = question["parallelism"]["num_gpus"]
    every = list(everything(ground, num_gpus))
    for objective in ("fastest", "most_headroom"):
        asked = request.model_copy(update={"objective": objective})
        found = ranked(asked, search(asked, [ground]).options)
        least = sorted(value(each, asked) for each in every)
        assert value(found[0], asked) == least[0]
        if objective == "fastest":
            assert all(value(each, asked) in least for each in found)
            paces = {each.pace for each in every}
            assert {each.pace for each in found} <= paces
