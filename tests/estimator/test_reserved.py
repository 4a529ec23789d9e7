"""What is reserved: the allocator replayed, by releases, and within the room of the card."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from trainfit.decisions.verdict import verdict
from trainfit.estimator import reserved
from trainfit.estimator.allocator import Addresses, Allocate, CachingAllocator, Device, replay
from trainfit.estimator.estimate import estimate
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.memo import Memo
from trainfit.estimator.needs import needs
from trainfit.estimator.reserved import ReplayedTrace, ways
from trainfit.estimator.results import Estimate, Interval, TooMuchError
from trainfit.questions.estimate import plan_of
from trainfit.questions.launches import RequestedJob, read_asked
from trainfit.specs.job import Job

GIB = 2**30
RUNS = Path(__file__).parents[1] / "data" / "reported_runs_one_gpu.jsonl"


def estimated(memory_gib: float = 0, *, activations: bool = True, **parts: Any) -> Estimate:
    """Mistral-7B, all of it trained on one GPU."""
    training = {
        "micro_batch_size": 8,
        "seq_length": 4096,
        "precision": "bf16-pure",
        "recompute": {"granularity": "full"},
    }
    document = {
        "model": {"hf_id": "mistralai/Mistral-7B-v0.1"},
        "parallelism": {"num_gpus": 1},
        "training": training | parts.pop("training", {}),
        "framework": {"name": "transformers"} | parts.pop("framework", {}),
    }
    if memory_gib:
        document["gpu"] = {"name": "a card", "memory_bytes": int(memory_gib * GIB)}
    return estimate(plan_of(Job.model_validate(document | parts)), activations=activations)


def ids(result: Estimate) -> set[str]:
    return {each.id for each in result.assumptions}


def test_the_basis_is_told() -> None:
    replayed = estimated()
    assert replayed.stages[0].reserved_basis == "replayed"
    assert "allocator-replayed" in ids(replayed)
    assert "allocator-slack" not in ids(replayed)
    by_ratio = estimated(framework={"compile": True})
    assert by_ratio.stages[0].reserved_basis == "ratio"
    assert "allocator-slack" in ids(by_ratio)
    assert "allocator-replayed" not in ids(by_ratio)


def test_states_alone_have_no_requests() -> None:
    assert estimated(activations=False).stages[0].reserved_basis == "ratio"


def test_components_add_up() -> None:
    (stage,) = estimated().stages
    sizes = {each.name: each.bytes for each in stage.components}
    assert sum(sizes.values()) == stage.device_bytes.expected
    outside = sizes["context_and_communicators"]
    assert stage.reserved_bytes.expected == stage.device_bytes.expected - outside
    assert sizes["allocator_slack"] > 0


def test_what_is_reserved_is_never_less_than_what_is_allocated() -> None:
    (stage,) = estimated().stages
    allocated, reserved = stage.allocated_bytes, stage.reserved_bytes
    assert reserved.low >= allocated.low
    assert reserved.expected >= allocated.expected
    assert reserved.high >= allocated.high


def test_segments_that_grow_leave_little_beside_what_is_allocated() -> None:
    def slack(expandable: bool) -> int:
        (stage,) = estimated(framework={"expandable_segments": expandable}).stages
        return stage.reserved_bytes.expected - stage.allocated_bytes.expected

    assert 0 < slack(True) < slack(False) / 2


def test_segments_of_which_nothing_says_whether_they_grow_may_or_not() -> None:
    """torchtitan's run_train.sh has them grow, its script for Slurm does not."""

    def reserved_bytes(**framework: Any) -> Interval:
        document = {
            "model": {"hf_id": "Qwen/Qwen3-0.6B"},
            "parallelism": {"num_gpus": 4},
            "training": {"micro_batch_size": 1, "seq_length": 4096, "num_microbatches": 1},
            "framework": {"name": "torchtitan"} | framework,
        }
        (stage,) = estimate(plan_of(Job.model_validate(document))).stages
        return stage.reserved_bytes

    grows, caches = (reserved_bytes(expandable_segments=each) for each in (True, False))
    unset = reserved_bytes()
    assert grows.expected != caches.expected
    least, most = min(grows.low, caches.low), max(grows.high, caches.high)
    assert unset == Interval(least, grows.expected, most)


def test_a_roomy_card_changes_nothing() -> None:
    assert estimated(192).stages[0].reserved_bytes == estimated().stages[0].reserved_bytes
    assert estimated(192).stages[0].cache_releases == "none"


def test_a_run_that_has_to_release_its_cache_is_tight() -> None:
    free = estimated()
    (wanted,) = free.stages
    room = 70 * GIB
    assert wanted.allocated_bytes.expected < room < wanted.device_bytes.expected
    held = estimated(70)
    (stage,) = held.stages
    assert stage.cache_releases == "once"
    assert "cache-released" in ids(held)
    assert "cache-released" not in ids(free)
    assert stage.reserved_bytes.expected < wanted.reserved_bytes.expected
    assert stage.allocated_bytes == wanted.allocated_bytes
    assert verdict(held, int(room)) == "tight"


def test_a_card_that_is_too_small_is_told_what_would_be_reserved() -> None:
    (stage,) = estimated(40).stages
    assert stage.cache_releases == "none"
    assert stage.reserved_bytes == estimated().stages[0].reserved_bytes


@pytest.mark.parametrize("samples", [1, 2, 4])
def test_more_samples_reserve_more(samples: int) -> None:
    less, more = (
        estimated(training={"micro_batch_size": count}).stages[0].reserved_bytes.expected
        for count in (samples, 2 * samples)
    )
    assert less < more


SHARDED: dict[str, Any] = {
    "parallelism": {"num_gpus": 8, "data_parallel_sharding_strategy": "optim_grads_params"},
    "framework": {"data_parallel_engine": "fsdp2"},
    "training": {"micro_batch_size": 4, "num_microbatches": 1, "recompute": {}},
}


def test_what_may_be_reserved_keeps_to_a_card_whose_cache_need_not_go_at_every_step() -> None:
    """With 2 GiB less room than the most that would be reserved, but not with hardly any."""
    (free,) = estimated(**SHARDED).stages
    cached = free.device_bytes.high - free.allocated_bytes.high
    enough = free.device_bytes.high - 2 * GIB
    (bounded,) = estimated(enough / GIB, **SHARDED).stages
    assert bounded.allocated_bytes == free.allocated_bytes
    assert bounded.device_bytes.high == enough
    assert cached > 4 * GIB
    narrow = free.allocated_bytes.high + GIB
    (beyond,) = estimated(narrow / GIB, **SHARDED).stages
    assert beyond.device_bytes.high > narrow


def test_rows_that_are_routed_as_it_happens_keep_to_no_card() -> None:
    """Their blocks do not recur, so that a cache which had to go has to again."""
    routed: dict[str, Any] = {
        "model": {"hf_id": "Qwen/Qwen3-30B-A3B"},
        "parallelism": {"num_gpus": 8, "ep": 8},
        "framework": {"name": "megatron"},
        "training": {"micro_batch_size": 1, "precision": "bf16", "recompute": {}},
    }
    (free,) = estimated(**routed).stages
    less = free.device_bytes.high - GIB // 4
    (bounded,) = estimated(less / GIB, **routed).stages
    assert bounded.device_bytes == free.device_bytes


def test_shares_of_states_that_ask_for_the_same_are_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of four that are looked at, two lie within one parameter, as the last does."""
    asked: list[ReplayedTrace] = []
    ask = reserved._ask

    def noted(*given: Any) -> ReplayedTrace:
        asked.append(ask(*given))
        return asked[-1]

    monkeypatch.setattr(reserved, "_ask", noted)
    whole: dict[str, Any] = {
        "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
        "parallelism": {"num_gpus": 8},
        "framework": {"name": "megatron"},
        "training": {"micro_batch_size": 1, "precision": "bf16", "recompute": {}},
    }
    estimated(**whole)
    assert len(asked) == 2
    assert asked[0].recorded.steps != asked[1].recorded.steps


STAGES: dict[str, Any] = {
    "model": {"hf_id": "Qwen/Qwen3-30B-A3B"},
    "parallelism": {"num_gpus": 16, "pp": 2, "ep": 8},
    "training": {"micro_batch_size": 1, "num_microbatches": 2},
    "gpu": "H100-80GB",
}
DENSE: dict[str, Any] = {
    "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
    "parallelism": {"num_gpus": 2, "tp": 2},
    "training": {"micro_batch_size": 1, "num_microbatches": 2},
}


@pytest.mark.parametrize("job", [STAGES, DENSE])
@pytest.mark.parametrize("room_gib", [-2, 2])
def test_nothing_is_given_up_that_keeps_to_the_limit(job: dict[str, Any], room_gib: int) -> None:
    """On cards with more room than what is reserved at most, and with less, where that keeps to
    the card.
    """
    free = needs(plan_of(Job.model_validate(job)), Memo())
    card = max(each.device_bytes.high for each in free.stages) + room_gib * GIB
    plan = plan_of(Job.model_validate(job | {"gpu": {"name": "a card", "memory_bytes": card}}))
    whole = needs(plan, Memo())
    high = max(each.device_bytes.high for each in whole.stages)
    assert needs(plan, Memo(), limit_bytes=high) == whole
    expected = max(each.device_bytes.expected for each in whole.stages)
    with pytest.raises(TooMuchError):
        needs(plan, Memo(), limit_bytes=expected - 1)


def test_what_is_given_up_asks_for_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stages and another release are asked for an answer, the first stage for none."""
    served: list[CachingAllocator] = []
    serve = CachingAllocator.serve

    def noted(allocator: CachingAllocator, *given: Any) -> None:
        served.append(allocator)
        serve(allocator, *given)

    monkeypatch.setattr(CachingAllocator, "serve", noted)
    plan = plan_of(Job.model_validate(DENSE | {"parallelism": {"num_gpus": 4, "tp": 2, "pp": 2}}))
    needs(plan, Memo())
    every = len(served)
    with pytest.raises(TooMuchError):
        needs(plan, Memo(), limit_bytes=GIB)
    assert len(served) - every < every / 2


SLOT_BITS = 40
"""No segment is as large."""


class ShuffledAddresses(Addresses):
    """Segments in any order."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._slots = list(range(1, 1 << 14))
        Random(seed).shuffle(self._slots)

    def take(self, size: int) -> int:  # noqa: ARG002
        return self._slots.pop() << SLOT_BITS


@pytest.mark.parametrize(("batch", "places"), [(4, {0}), (8, {0, 1})])
def test_bounds_have_a_place_more_where_some_order_of_addresses_needs_it(
    batch: int, places: set[int]
) -> None:
    """Of PowerLM-3B's logits. Its real requests in batches of 8 reserve 45.2 or 51.2 GiB by the
    order of addresses alone, and states leave room enough beside those of batches of 4.
    """
    rows = map(json.loads, RUNS.read_text("utf-8").splitlines())
    [ask] = [each["ask"] for each in rows if f"PowerLM-3b-n1-b{batch}-full" in each["id"]]
    asked = read_asked(ask, Job)
    assert isinstance(asked, RequestedJob)
    plan = plan_of(asked.job)
    (stage,) = estimate(plan).stages
    (alike,) = framework_of(plan).traces(plan, Memo())
    steps = alike.trace(0).steps
    place = max(each.nbytes for each in steps[2] if isinstance(each, Allocate))
    reserved_bytes, needed = stage.reserved_bytes, set()
    for seed in range(8):
        allocator = CachingAllocator(ways(plan)[0][0], Device(addresses=ShuffledAddresses(seed)))
        for each in steps:
            replay(allocator, each)
        most = allocator.peak_reserved_bytes
        assert most <= reserved_bytes.high
        needed.add(max(0, round((most - reserved_bytes.expected) / place)))
    assert needed == places
    open_bytes = reserved_bytes.high - reserved_bytes.expected
    assert (open_bytes > place) == (1 in places)


def reserved_with(compile: bool = False, **framework: Any) -> Interval:
    """On a GPU of 141 GB."""
    (stage,) = estimated(131, framework={"compile": compile} | framework).stages
    return stage.reserved_bytes


def test_blocks_that_are_not_split_serve_no_smaller_request() -> None:
    grown, whole = (
        reserved_with(expandable_segments=True, max_split_size_bytes=each)
        for each in (None, 512 * 2**20)
    )
    assert whole.expected > 1.2 * grown.expected


def test_requests_are_rounded_up_by_a_part_of_themselves_at_most() -> None:
    exact, sixteenths, halves = (
        reserved_with(expandable_segments=True, roundup_power2_divisions=each)
        for each in ([], [16], [2])
    )
    assert exact.expected < sixteenths.expected <= halves.expected < exact.expected * 3 / 2
    assert sixteenths.expected < exact.expected * 17 / 16


def test_without_requests_the_bounds_take_in_what_the_allocator_is_asked_for() -> None:
    plain, rounded, whole = (
        reserved_with(compile=True, **each)
        for each in (
            {},
            {"roundup_power2_divisions": [1, 16]},
            {"max_split_size_bytes": 512 * 2**20},
        )
    )
    assert rounded.expected == whole.expected == plain.expected
    assert 17 / 16 * plain.high * 0.95 < rounded.high < 17 / 16 * plain.high
    assert 128 * GIB < whole.high < 131 * GIB


def padded(**lengths: Any) -> dict[str, Any]:
    return {"micro_batch_size": 2, "seq_length": 2048, "lengths": lengths}


def test_lengths_that_differ_leave_blocks_that_serve_no_longer_ones() -> None:
    alike = estimated(training=padded() | {"lengths": None}).stages[0]
    unknown, short, first = (
        estimated(training=padded(**told)).stages[0]
        for told in ({}, {"mean": 256}, {"group_by_length": True})
    )
    for differing in (unknown, short, first):
        assert differing.allocated_bytes == alike.allocated_bytes
        assert differing.reserved_bytes.low == alike.reserved_bytes.low
    assert unknown.reserved_bytes.expected > alike.reserved_bytes.high
    assert unknown.reserved_bytes.high > short.reserved_bytes.high > alike.reserved_bytes.high
    assert first.reserved_bytes.expected < 1.01 * alike.reserved_bytes.expected


def test_lengths_that_a_window_masks_follow_others_that_it_does_not() -> None:
    """A mask is a tensor more in every layer of a step that is as long as the window."""
    alike, differing = (
        estimated(
            model={"hf_id": "google/gemma-3-270m"},
            training={"micro_batch_size": 1, "lengths": lengths, "peft": {"method": "lora"}},
        ).stages[0]
        for lengths in (None, {"group_by_length": True})
    )
    assert alike.reserved_bytes.expected <= differing.reserved_bytes.expected
    assert differing.reserved_bytes.expected < 1.01 * alike.reserved_bytes.expected


def test_segments_that_grow_serve_every_length() -> None:
    alike, differing = (
        estimated(training=padded() | lengths, framework={"expandable_segments": True}).stages[0]
        for lengths in ({"lengths": None}, {})
    )
    assert differing.reserved_bytes == alike.reserved_bytes


def test_a_card_with_room_for_the_longest_has_room_for_all_lengths() -> None:
    alike = estimated(training=padded() | {"lengths": None}).stages[0].device_bytes
    stage = estimated(alike.high / GIB + 2, training=padded()).stages[0]
    assert stage.cache_releases == "once"
    assert alike.high < stage.device_bytes.high <= alike.high + 2 * GIB


@pytest.mark.parametrize("gpu_gib", [0, 80])
def test_without_requests_lengths_that_differ_have_a_bound(gpu_gib: int) -> None:
    """Of a model whose requests are not known, by a share of its activations."""
    alike, differing = (
        estimated(gpu_gib, training=padded() | lengths, framework={"compile": True}).stages[0]
        for lengths in ({"lengths": None}, {})
    )
    assert differing.reserved_basis == "ratio"
    assert differing.reserved_bytes.high > alike.reserved_bytes.high
    if gpu_gib:
        assert differing.device_bytes.high <= gpu_gib * GIB
