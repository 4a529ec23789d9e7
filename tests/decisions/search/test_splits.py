"""Layers that do not divide are shared out all the same."""

from __future__ import annotations

import pytest

from trainfit.decisions.search.splits import chunks, layout
from trainfit.questions.dimensions import from_package
from trainfit.questions.pricing import Pricing
from trainfit.specs.job import Job
from trainfit.specs.pipeline_layout import parse_layout

DEEPSEEK_V3 = Job.model_validate({"model": {"hf_id": "deepseek-ai/DeepSeek-V3"}})


@pytest.mark.parametrize(("layers", "mtp", "stages"), [(61, 1, 32), (61, 1, 16), (126, 0, 9)])
def test_a_layout_has_every_layer_and_no_stage_much_more(
    layers: int, mtp: int, stages: int
) -> None:
    parsed = parse_layout(layout(layers, mtp, stages))
    assert len(parsed) == stages
    assert sum(each.layers for each in parsed) == layers
    assert sum(each.mtp_layers for each in parsed) == mtp
    sizes = [sum(each) for each in parsed]
    assert max(sizes) - min(sizes) <= 1


def test_every_number_of_stages_of_deepseek_v3_is_shared_out_so_that_it_runs() -> None:
    model = from_package(DEEPSEEK_V3.model).spec
    pricing = Pricing()
    found = [
        (pp, vpp, split) for pp in (2, 4, 8, 16) for vpp, split in chunks(DEEPSEEK_V3, model, pp)
    ]
    assert {(pp, vpp) for pp, vpp, _ in found} >= {(2, 1), (4, 4), (8, 2), (16, 4)}
    for pp, vpp, split in found:
        layout_of = DEEPSEEK_V3.parallelism.model_copy(update={"pp": pp, "vpp": vpp, **split})
        plan = pricing.plan_of(DEEPSEEK_V3.model_copy(update={"parallelism": layout_of}))
        assert len(plan.layout.pipeline.virtual_stages) == pp * vpp
