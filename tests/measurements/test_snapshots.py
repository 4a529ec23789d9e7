"""Recordings of the allocator: real ones reduced, hostile ones refused within limits."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from collections import Counter
from io import BytesIO
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from pydantic import ValidationError

from trainfit.estimator.allocator import Allocate, Free
from trainfit.estimator.estimate import estimate
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.memo import Memo
from trainfit.measurements.snapshots.recording import SnapshotError
from trainfit.measurements.snapshots.summary import summarize
from trainfit.questions.estimate import plan_of
from trainfit.questions.reconcile import reconciled
from trainfit.resolve.findings import RefusedError
from trainfit.specs.job import Job
from trainfit.specs.reconcile import ReconcileRequest
from trainfit.specs.snapshot import SnapshotSummary, TensorGroup

TRACES = Path(__file__).parents[1] / "data" / "corpus" / "allocator_traces"
FORWARD = [
    {"filename": "/home/ada/secret/model.py", "name": "forward", "line": 3},
    {
        "filename": "/home/ada/env/lib/python3.12/site-packages/torch/nn/linear.py",
        "name": "forward",
    },
]
STEP = [{"filename": "/opt/python/site-packages/torch/optim/adamw.py", "name": "step", "line": 9}]


def trace(name: str) -> dict[str, Any]:
    with gzip.open(TRACES / name) as file:
        content: dict[str, Any] = json.load(file)
    return content


def recording(real: dict[str, Any]) -> dict[str, Any]:
    """A recording as PyTorch writes it, of the requests of a real one; each block that was there
    in the end has a segment to itself.
    """
    live = dict(map(tuple, real["live"]))
    events = []
    frames: list[Any] = [FORWARD, STEP, []]
    for action, address, size, stream in real["events"]:
        name = {"alloc": "alloc", "free": "free_requested"}.get(action, action)
        event = {"action": name, "addr": address, "size": size, "stream": stream, "time_us": 1}
        events.append(event | {"frames": frames[(size // 512) % 3]})
        if action == "alloc":
            live[address] = size
        elif action == "free":
            live.pop(address, None)
    segments = [
        {
            "device": 0,
            "address": address,
            "total_size": size,
            "allocated_size": size,
            "segment_type": "large",
            "blocks": [{"size": size, "requested_size": size, "state": "active_allocated"}],
        }
        for address, size in live.items()
    ]
    return {"segments": segments, "device_traces": [[], events]}


def dumped(content: object, protocol: int = 4) -> BytesIO:
    return BytesIO(pickle.dumps(content, protocol))


@pytest.mark.parametrize("name", sorted(each.name for each in TRACES.iterdir()))
def test_a_real_recording_is_reduced_to_what_was_there_at_its_peak(name: str) -> None:
    real = trace(name)
    found = summarize(dumped(recording(real)))
    live = dict(map(tuple, real["live"]))
    now = most = sum(live.values())
    for action, address, size, _ in real["events"]:
        if action == "alloc":
            live[address] = size
            now += size
        elif action == "free":
            now -= live.pop(address)
        most = max(most, now)
    assert found.peak_bytes == most
    assert sum(each.bytes * each.count for each in found.peak) + found.rest_bytes == most
    assert found.allocated_bytes == now
    assert found.events == len(real["events"])
    assert not found.wrapped


def test_neither_folders_nor_arguments_of_anybody_are_told() -> None:
    found = summarize(dumped(recording(trace("medium_1024_training_snapshot.json.gz"))))
    stacks = {each.stack for each in found.peak}
    assert ("forward model.py", "forward torch/nn/linear.py") in stacks
    assert not any(word in found.model_dump_json() for word in ("home", "secret", "python3"))
    phases = {each.phase for each in found.peak}
    assert phases <= {"before", "forward", "backward", "optimizer"}
    assert len(phases) > 2


@pytest.mark.alone
def test_places_without_end_cost_no_more_than_their_length() -> None:
    frames = [{"filename": f"/home/{'a' * 4000}{at}", "name": "b" * 4000} for at in range(64)]
    events = [
        {"action": "alloc", "addr": at, "size": at, "frames": [dict(each) for each in frames]}
        for at in range(100)
    ]
    file = dumped({"device_traces": [events]})
    began = process_time()
    summarize(file)
    assert process_time() - began < 2


def test_a_ring_that_lost_its_beginning_says_so() -> None:
    content = recording(trace("small_forward_fp32_128.json.gz"))
    content["segments"][-1]["blocks"][0]["frames"] = FORWARD
    content["device_traces"][1] = []
    assert summarize(dumped(content)).wrapped


@pytest.mark.alone
def test_a_recording_of_4_mb_is_reduced_within_two_seconds() -> None:
    real = recording(trace("2.7b_ctx256_fullstep.json.gz"))
    events = real["device_traces"][1]
    file = BytesIO()
    times = 1
    while file.tell() < 4_000_000:
        file = BytesIO()
        times += 2
        real["device_traces"][1] = [dict(each) for _ in range(times) for each in events]
        pickle.dump(real, file)
    file.seek(0)
    began = process_time()
    summarize(file)
    assert process_time() - began < 2


class Command:
    """What a pickle makes of it is the result of a command."""

    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/never",)


def test_what_it_names_is_named_in_the_refusal() -> None:
    with pytest.raises(SnapshotError, match=r"it names \w+\.system"):
        summarize(BytesIO(pickle.dumps(Command())))


def test_what_is_outside_itself_is_not_fetched() -> None:
    """PERSID and BINPERSID of the protocol."""
    for pickled in (b"Pelsewhere\n.", b"\x80\x04N\x8c\x09elsewhereQ."):
        with pytest.raises(SnapshotError, match="refers to something outside itself"):
            summarize(BytesIO(pickled))


GPT: dict[str, Any] = {
    "model": {
        "spec": {
            "num_layers": 32,
            "hidden_size": 2560,
            "ffn_hidden_size": 10240,
            "num_attention_heads": 32,
            "vocab_size": 10_000,
            "swiglu": True,
            "normalization": "RMSNorm",
            "position_embedding_type": "rope",
            "add_bias_linear": False,
            "untie_embeddings_and_output_weights": True,
        }
    },
    "parallelism": {"num_gpus": 1},
    "training": {"seq_length": 256, "micro_batch_size": 4, "precision": "fp32"},
    "framework": {"name": "transformers"},
}
"""What the real recording `2.7b_ctx256_fullstep` is of, as its sizes tell."""


def whole_step() -> SnapshotSummary:
    """That recording, with what was kept and asked for last in a step of an optimizer. Blocks that
    were there before are told as large as they were asked for, which the recording tells no more.
    """
    real = trace("2.7b_ctx256_fullstep.json.gz")
    asked = {27_262_976: 26_214_400, 102_760_448: 102_400_000}
    real["live"] = [[address, asked.get(size, size)] for address, size in real["live"]]
    content = recording(real)
    there = Counter(size for _, size in real["live"])
    kept = {each["address"] for each in content["segments"]}
    events = content["device_traces"][1]
    last = {each["addr"]: each for each in events if each["action"] == "alloc"}
    for event in events:
        event["frames"] = []
        if event["addr"] in kept and last[event["addr"]] is event:
            there[event["size"]] -= 1
            event["frames"] = STEP if there[event["size"]] < 0 else []
    return summarize(dumped(content))


def test_a_real_recording_is_told_apart_by_its_sizes() -> None:
    """Weights from before, gradients from backward and two moments from the optimizer."""
    run = {"snapshot_summary": whole_step().model_dump(mode="json")}
    found = reconciled(ReconcileRequest.model_validate({**GPT, "run": run})).snapshot
    assert found is not None
    parts = {each.part: each for each in found.attributions}
    for part, states in (("weights", 1), ("gradients", 1), ("optimizer_states", 2)):
        expected = states * parts["weights"].predicted_bytes
        assert parts[part].measured_bytes == pytest.approx(expected, rel=0.001)
    assert found.unmatched_bytes < 0.006 * found.peak_bytes
    assert {(each.bytes, each.count) for each in found.unmatched} >= {(33_554_432, 2)}


def test_what_the_job_does_not_make_is_not_matched() -> None:
    """Half as many layers: half of the weights are nobody's."""
    summary = whole_step()
    half = GPT | {"model": {"spec": GPT["model"]["spec"] | {"num_layers": 16}}}
    run = {"snapshot_summary": summary.model_dump(mode="json")}
    found = reconciled(ReconcileRequest.model_validate({**half, "run": run})).snapshot
    assert found is not None
    assert found.unmatched_bytes > 0.45 * found.peak_bytes


def test_a_recording_says_what_was_given_back_and_what_lies_idle() -> None:
    summary = whole_step().model_copy(update={"reserved_bytes": 70 * 2**30, "out_of_memory": 1})
    run = {"snapshot_summary": summary.model_dump(mode="json")}
    found = reconciled(ReconcileRequest.model_validate({**GPT, "run": run})).findings
    assert {each.id for each in found} == {"out_of_memory", "cache_releases", "fragmentation"}


def test_a_recording_of_an_unknown_rank_of_several_stages_is_refused() -> None:
    job = GPT | {"parallelism": {"num_gpus": 2, "pp": 2}, "framework": {"name": "megatron"}}
    job["training"] = {"seq_length": 256}
    run = {"snapshot_summary": whole_step().model_dump(mode="json")}
    with pytest.raises(RefusedError) as refused:
        reconciled(ReconcileRequest.model_validate({**job, "run": run}))
    assert refused.value.findings[0].pointer == "/run/snapshot_summary/rank"


def test_buffers_of_megatron_and_what_its_optimizer_shares_are_told_apart() -> None:
    """One of weights in bf16, one of gradients in fp32, and for each a share of master weights."""
    job = {
        "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
        "parallelism": {"num_gpus": 16, "tp": 2, "pp": 2},
        "training": {"seq_length": 4096},
        "gpu": "H100-80GB",
    }
    plan = plan_of(Job.model_validate(job))
    components = {each.name: each.bytes for each in estimate(plan).stages[0].components}
    (loaded,) = [a for a in framework_of(plan).traces(plan, Memo()) if 0 in a.ranks]
    live: dict[Any, int] = {}
    for each in loaded.trace(0).loaded:
        if isinstance(each, Allocate):
            live[each.tensor] = each.nbytes
        elif isinstance(each, Free):
            live.pop(each.tensor, None)
    buffers = {components["weights"], components["gradients"]}
    shares = Counter(size for size in live.values() if size not in buffers)
    groups = [TensorGroup(bytes=s, count=1, phase="before", kept=True) for s in buffers]
    for size, count in shares.items():
        groups.append(TensorGroup(bytes=size, count=count, phase="before", kept=True))
        groups.append(TensorGroup(bytes=size, count=2 * count, phase="optimizer", kept=True))
    peak = sum(each.bytes * each.count for each in groups)
    summary = SnapshotSummary(
        rank=0,
        events=1,
        wrapped=False,
        expandable_segments=False,
        peak_bytes=peak,
        peak=tuple(groups),
        allocated_bytes=peak,
        reserved_bytes=peak,
        segments=(),
    )
    run = {"snapshot_summary": summary.model_dump(mode="json")}
    found = reconciled(ReconcileRequest.model_validate({**job, "run": run})).snapshot
    assert found is not None
    assert found.unmatched_bytes == 0
    for part in found.attributions[:3]:
        assert part.measured_bytes == pytest.approx(part.predicted_bytes, rel=0.01), part.part


def test_a_summary_that_does_not_add_up_is_refused() -> None:
    document = whole_step().model_dump(mode="json")
    document["peak_bytes"] -= 1
    with pytest.raises(ValidationError, match="more bytes than peak_bytes"):
        SnapshotSummary.model_validate(document)
