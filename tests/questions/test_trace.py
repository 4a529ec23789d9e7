"""A rank from moment to moment, and as a memory snapshot."""

from __future__ import annotations

import io
import pickle
from typing import Any

import pytest

from trainfit.api.examples import TRACE_EXAMPLES
from trainfit.questions.estimate import answer
from trainfit.questions.trace import memory_snapshot, rank_trace
from trainfit.resolve.findings import RefusedError
from trainfit.specs.job import Job
from trainfit.specs.ledger import TraceRequest

SMALL: dict[str, Any] = {
    "model": {"hf_id": "meta-llama/Llama-3.2-1B"},
    "parallelism": {"num_gpus": 1},
    "training": {"micro_batch_size": 2, "seq_length": 2048, "num_microbatches": 1},
    "framework": {"name": "transformers"},
    "gpu": "H100-80GB",
}
SHARDED = SMALL | {"parallelism": {"num_gpus": 8}, "framework": {"name": "torchtitan"}}
TIGHT = {
    "model": {"hf_id": "mistralai/Mistral-7B-v0.1"},
    "parallelism": {"num_gpus": 1},
    "training": {
        "micro_batch_size": 8,
        "seq_length": 4096,
        "precision": "bf16-pure",
        "recompute": {"granularity": "full"},
    },
    "framework": {"name": "transformers"},
    "gpu": {"memory_bytes": 71 * 2**30},
}
"""It has room only when its cache is released."""
JOBS = [SMALL, SHARDED, TIGHT, *(each["value"] for each in TRACE_EXAMPLES.values())]


def traced(job: Any) -> TraceRequest:
    return TraceRequest.model_validate(job)


@pytest.mark.parametrize("job", JOBS, ids=range(len(JOBS)))
def test_what_is_reserved_is_what_the_estimate_rests_on(job: Any) -> None:
    found, (stage,) = rank_trace(traced(job)), answer(Job.model_validate(job)).stages
    assert stage.reserved_basis == "replayed"
    peak = found.peak
    expected = stage.reserved_bytes.expected
    assert found.reserved_bytes == expected or job is TIGHT
    assert (found.cache_retries > 0) == (stage.cache_releases != "none")
    assert peak.allocated_bytes == max(each.allocated_bytes for each in found.moments)
    asked = peak.requested_bytes + peak.rounding_bytes
    assert asked == peak.allocated_bytes
    assert asked + peak.split_bytes + peak.unused_bytes == peak.reserved_bytes
    assert sum(each.bytes for each in peak.tensors) == peak.requested_bytes
    assert sum(each.bytes for each in peak.segments) == peak.reserved_bytes


def test_moments_are_in_order_and_named() -> None:
    moments = rank_trace(traced(SMALL)).moments
    assert [each.moment for each in moments if each.step == "load"] == ["load"]
    first = [each.moment for each in moments if each.step == "first"]
    assert first == [each.moment for each in moments if each.step == "later"]
    assert first[0] == "embedding_forward"
    assert first[1:3] == ["dense_forward 0", "dense_forward 1"]
    assert first[-1] == "optimizer_step"


class Plain(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        raise AssertionError(f"{module_name}.{global_name}")


@pytest.mark.parametrize("job", [SMALL, SHARDED, TIGHT], ids=["small", "sharded", "tight"])
def test_a_snapshot_has_plain_data_whose_entries_lead_to_its_segments(job: Any) -> None:
    document = Plain(io.BytesIO(memory_snapshot(traced(job)))).load()
    (entries,) = document["device_traces"]
    blocks: dict[int, int] = {}
    reserved = most = 0
    for entry in entries:
        assert entry["frames"] or entry["action"].startswith("segment")
        match entry["action"]:
            case "alloc":
                blocks[entry["addr"]] = entry["size"]
            case "free_completed":
                del blocks[entry["addr"]]
            case "segment_alloc" | "segment_map":
                reserved += entry["size"]
            case "segment_free" | "segment_unmap":
                reserved -= entry["size"]
        most = max(most, reserved)
    segments = document["segments"]
    held = {
        block["address"]: block["requested_size"]
        for segment in segments
        for block in segment["blocks"]
        if block["state"] != "inactive"
    }
    assert held == blocks
    assert sum(segment["total_size"] for segment in segments) == reserved
    assert most == rank_trace(traced(job)).reserved_bytes


def test_a_rank_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RefusedError) as error:
        rank_trace(traced(SMALL | {"pp_rank": 1}))
    (finding,) = error.value.findings
    assert finding.pointer == "/pp_rank"


def test_a_job_whose_order_is_not_known_is_refused() -> None:
    compiled = SMALL | {"framework": {"name": "transformers", "compile": True}}
    with pytest.raises(RefusedError, match="order"):
        rank_trace(traced(compiled))
