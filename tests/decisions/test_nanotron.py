"""What nanotron offers holds together, and lowers what a run needs."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.decisions.candidates import nanotron
from trainfit.decisions.candidates.candidate import Candidate
from trainfit.decisions.patch import apply, patch
from trainfit.questions.estimate import price
from trainfit.specs.job import Job

PLAIN: dict[str, Any] = {
    "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
    "parallelism": {"num_gpus": 16, "tp": 4, "pp": 2},
    "training": {"num_microbatches": 8},
    "framework": {"name": "nanotron"},
}
SCATTERED = PLAIN | {
    "parallelism": PLAIN["parallelism"] | {"sequence_parallel": True, "pipeline_schedule": "1f1b"},
    "framework": {
        "name": "nanotron",
        "tp_recompute_allgather": False,
        "expandable_segments": True,
    },
}


def offered(job: Job) -> list[Candidate]:
    return [*nanotron.switches(job), *nanotron.trades(job)]


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        (
            PLAIN,
            {
                "/framework/expandable_segments",
                "/parallelism/sequence_parallel",
                "/parallelism/pipeline_schedule",
                "/training/precision",
                "/training/recompute",
            },
        ),
        (
            SCATTERED,
            {"/framework/tp_recompute_allgather", "/training/precision", "/training/recompute"},
        ),
    ],
)
def test_each_offer_lowers_the_need(document: dict[str, Any], paths: set[str]) -> None:
    job = Job.model_validate(document)
    before = price(job).binding.device_bytes.expected
    found = offered(job)
    assert {path for each in found for path in each.values} == paths
    for each in found:
        after = price(apply(job, patch(job, each.values))).binding.device_bytes.expected
        assert after < before, each.values
