"""JSON Patches on a job: applied, and made so that any implementation of RFC 6902 applies them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from trainfit.decisions.patch import PatchError, apply, patch
from trainfit.resolve.findings import Change
from trainfit.specs.job import Job

JOB = Job.model_validate(
    {
        "model": {"hf_config": {"model_type": "llama", "a/b": {"c~d": 1}}},
        "parallelism": {"tp": 2},
        "gpu": "h100",
    }
)


def test_what_is_not_touched_stays_as_it_was_given() -> None:
    changed = apply(JOB, [Change("replace", "/parallelism/tp", 4)])
    assert changed.parallelism.tp == 4
    assert changed.model is JOB.model
    assert changed.model_fields_set == JOB.model_fields_set
    assert changed.parallelism.model_fields_set == {"tp"}
    assert JOB.parallelism.tp == 2


def test_the_operations() -> None:
    changed = apply(
        JOB,
        [
            Change("add", "/training", {"recompute": {}}),
            Change("add", "/training/recompute/granularity", "full"),
            Change("remove", "/parallelism/tp"),
            Change("replace", "/model/hf_config/a~1b/c~0d", 2),
        ],
    )
    assert changed.training.recompute.granularity == "full"
    assert changed.parallelism.tp == 1
    assert changed.model.hf_config == {"model_type": "llama", "a/b": {"c~d": 2}}


@pytest.mark.parametrize(
    "change",
    [
        Change("replace", "/training/seq_length", 1),
        Change("add", "/training/seq_length", 1),
        Change("remove", "/parallelism/pp"),
        Change("add", "/gpu/memory_bytes", 1),
        Change("replace", "parallelism", {}),
        Change("replace", "", {}),
    ],
)
def test_a_path_that_leads_nowhere(change: Change) -> None:
    with pytest.raises(PatchError):
        apply(JOB, [change])


@pytest.mark.parametrize(
    "change",
    [
        Change("replace", "/parallelism/tp", 0),
        Change("add", "/parallelism/no_such_option", 1),
        Change("remove", "/model"),
    ],
)
def test_what_would_be_no_job(change: Change) -> None:
    with pytest.raises(ValidationError):
        apply(JOB, [change])


def test_a_part_that_the_job_leaves_out_is_added_once() -> None:
    changes = patch(
        JOB,
        {
            "/parallelism/tp": 4,
            "/parallelism/pp": 2,
            "/training/optimizer/precision_aware": True,
            "/training/seq_length": 1024,
            "/framework/expandable_segments": True,
        },
    )
    assert changes == (
        Change("replace", "/parallelism/tp", 4),
        Change("add", "/parallelism/pp", 2),
        Change("add", "/training", {"optimizer": {"precision_aware": True}, "seq_length": 1024}),
        Change("add", "/framework", {"name": "megatron", "expandable_segments": True}),
    )
    changed = apply(JOB, changes)
    assert changed.training.seq_length == 1024
    assert changed.training.optimizer.precision_aware
