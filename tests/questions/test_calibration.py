"""What runs of a cluster took beyond their tensors, and what that makes of the next one there."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import pytest

from tests.accuracy import measured
from tests.accuracy.test_corpus import CORPUS, rows
from trainfit.estimator.needs import links_of, outside_of
from trainfit.estimator.results import Interval, Stage
from trainfit.questions.calibration import FittedCalibration, calibrated
from trainfit.questions.dimensions import from_package
from trainfit.questions.launches import RequestedJob, read_asked
from trainfit.questions.pricing import Pricing
from trainfit.questions.problems import Problem
from trainfit.questions.python import (
    QuestionError,
    compare,
    estimate,
    fit_check,
    reconcile,
    search,
)
from trainfit.resolve.plan import Plan
from trainfit.specs.calibration import Calibration
from trainfit.specs.reconcile import CalibrationRequest, ReconcileRequest

MIB, GIB = 2**20, 2**30
RUNS = Path(__file__).parents[1] / "data" / "reported_runs_fsdp1.jsonl"
LLAMA: dict[str, Any] = {
    "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
    "parallelism": {
        "num_gpus": 8,
        "tp": 2,
        "data_parallel_sharding_strategy": "optim_grads_params",
    },
    "training": {"seq_length": 8192},
    "framework": {"name": "megatron"},
    "gpu": "H100-80GB",
}
"""Its requests are in no known order: what is reserved is a ratio."""


def told(**counters: float) -> dict[str, Any]:
    """What a rank says in MiB by its counters."""
    figures = [
        {"counter": name, "bytes": round(size * MIB), "rank": 0, "step": 9}
        for name, size in counters.items()
    ]
    return {"measurements": figures}


def figures(allocated: float, reserved: float, device: float) -> dict[str, Any]:
    return told(
        **{
            "allocated_bytes.all.peak": allocated,
            "reserved_bytes.all.peak": reserved,
            "device_used": device,
        }
    )


def fitted(*runs: dict[str, Any], **beside: str) -> FittedCalibration | Problem:
    asked = [read_asked(each, ReconcileRequest) for each in runs]
    assert all(isinstance(each, RequestedJob) for each in asked)
    request = CalibrationRequest.model_validate({"runs": runs, **beside})
    return calibrated(request, [each for each in asked if isinstance(each, RequestedJob)])


def document(*runs: dict[str, Any]) -> dict[str, Any]:
    found = fitted(*runs)
    assert isinstance(found, FittedCalibration), found
    return json.loads(found.calibration.model_dump_json())  # type: ignore[no-any-return]


def stage_of(job: dict[str, Any]) -> Stage:
    return estimate(job).stages[0]


def beyond(stage: Stage) -> int:
    """The width of the interval of device bytes that tensors have no part in."""
    allocated, device = stage.allocated_bytes, stage.device_bytes
    return device.high - device.low - (allocated.high - allocated.low)


TWO = (
    LLAMA | {"run": figures(40_000, 41_000, 43_500)},
    LLAMA | {"run": figures(60_000, 62_000, 64_600)},
)


def test_what_lies_outside_is_what_the_card_holds_beside_what_is_reserved() -> None:
    (outside,) = document(*TWO)["outside"]
    assert outside["communicators"] == 4
    assert outside["runs"] == 2
    # 2,500 and 2,600 MiB were seen; half of both apart is added to either side.
    assert outside["bytes"] == {"low": 2_400 * MIB, "expected": 2_550 * MIB, "high": 2_700 * MIB}


def test_what_a_card_had_before_the_first_step_is_not_outside() -> None:
    """Of another rank, that was read while its model was made, with others on its card."""
    sizes = {"reserved_bytes.all.current": GIB, "device_used": 20 * GIB}
    before = [
        {"counter": name, "bytes": size, "rank": 1, "moment": "After Building Model"}
        for name, size in sizes.items()
    ]
    runs = [run | {"run": {"measurements": [*run["run"]["measurements"], *before]}} for run in TWO]
    assert document(*runs)["outside"] == document(*TWO)["outside"]


def test_a_calibrated_job_takes_it_and_says_what_it_would_be_without() -> None:
    bare = stage_of(LLAMA)
    stage = stage_of(LLAMA | {"calibration": document(*TWO)})
    assert stage.uncalibrated_device_bytes == bare.device_bytes
    assert bare.uncalibrated_device_bytes is None
    assert stage.allocated_bytes == bare.allocated_bytes
    assert stage.components[:-2] == bare.components[:-2]
    (outside,) = [e for e in stage.components if e.name == "context_and_communicators"]
    assert outside.bytes == 2_550 * MIB
    (slack,) = [e for e in stage.components if e.name == "allocator_slack"]
    assert slack.bytes == int(stage.allocated_bytes.expected * 0.0292)  # of 1/40 and 1/30
    assert beyond(stage) < beyond(bare)


def test_one_run_moves_what_is_expected_and_narrows_nothing() -> None:
    bare = stage_of(LLAMA)
    stage = stage_of(LLAMA | {"calibration": document(TWO[0])})
    assert stage.device_bytes.low == bare.device_bytes.low
    assert stage.device_bytes.high == bare.device_bytes.high
    assert stage.device_bytes.expected != bare.device_bytes.expected


def test_what_one_layout_says_of_another_is_as_wide_as_published_runs_are() -> None:
    """Four communicators were seen; a job with two has two fewer, by which published runs have
    taken 400 to 2,400 MiB, and no run with two has taken less than 800 or more than 3,200.
    """
    job = LLAMA | {"parallelism": {"num_gpus": 8}}
    stage = stage_of(job | {"calibration": document(*TWO)})
    low, high = max(800, 2_400 - 2 * 1_000), min(3_200, 2_700 - 2 * 150)
    assert beyond(stage) - beyond(stage_of(job)) == (high - low - (3_200 - 800)) * MIB


def test_what_other_layouts_show_beyond_published_runs_is_carried_whole() -> None:
    """Where runs with four communicators took more than published ones did, 8,900 to 9,100 MiB, one
    with two may."""
    two = [LLAMA | {"run": figures(40_000, 41_000, 41_000 + each)} for each in (9_000, 9_100)]
    job = LLAMA | {"parallelism": {"num_gpus": 8}}
    stage = stage_of(job | {"calibration": document(*two)})
    assert beyond(stage) - beyond(stage_of(job)) == (200 + 2 * (1_000 - 150) - 2_400) * MIB


def test_a_calibration_of_another_card_is_not_used() -> None:
    job = LLAMA | {"gpu": "A100-80GB"}
    other = estimate(job | {"calibration": document(*TWO)})
    assert other.stages == estimate(job).stages
    assert "calibration-unused" in {each.id for each in other.assumptions}


def test_an_allocator_that_a_job_leaves_open_is_that_of_the_cluster() -> None:
    """torchtitan's segments may grow or not; where runs cached blocks, so does the next."""

    def job(**framework: Any) -> dict[str, Any]:
        parts = {"model": {"hf_id": "Qwen/Qwen3-0.6B"}, "training": {"seq_length": 1024}}
        layout = {"parallelism": {"num_gpus": 8}, "gpu": "H100-80GB"}
        return parts | layout | {"framework": {"name": "torchtitan", **framework}}

    caches = job(expandable_segments=False)
    calibration = {"calibration": document(caches | {"run": figures(20_000, 21_000, 23_000)})}
    stage = stage_of(job() | calibration)
    assert stage == stage_of(caches | calibration)
    assert stage.reserved_bytes != stage_of(job()).reserved_bytes


def test_every_question_takes_it() -> None:
    job = LLAMA | {"calibration": document(*TWO)}
    stage = stage_of(job)
    checked = fit_check(job)
    assert checked.estimate is not None
    assert checked.estimate.stages == [stage]
    (compared,) = compare({"a": job}).jobs
    assert compared.comparison is not None
    assert compared.comparison.stages[0].device_bytes == stage.device_bytes
    assert compared.comparison.stages[0].uncalibrated_device_bytes is not None
    assert reconcile(job, "").estimate.stages == [stage]


def test_a_verdict_stands_beside_the_uncalibrated_one() -> None:
    """On a card of which so much is kept free that only the narrower interval fits."""
    short = LLAMA | {"training": {"seq_length": 1024}}
    job = short | {"calibration": document(*TWO)}
    needs, bare = stage_of(job).device_bytes, stage_of(short).device_bytes
    room = fit_check(short).usable_bytes
    policy = {"headroom_bytes": room - (needs.high + bare.high) // 2}
    found = fit_check(job, policy=policy)
    assert (found.verdict, found.uncalibrated_verdict) == ("fits", "tight")
    assert fit_check(short).uncalibrated_verdict is None


def test_a_launch_takes_it_among_its_overrides() -> None:
    flags = "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096"
    flags += " --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 8 --bf16"
    argv = f"torchrun --nproc-per-node 8 pretrain_gpt.py {flags} --vocab-size 32000"
    launch = {"argv": argv, "gpu": "H100-80GB", "overrides": {"calibration": document(*TWO)}}
    assert stage_of({"launch": launch}).uncalibrated_device_bytes is not None


def test_an_error_of_a_full_memory_tells_it_at_one_moment() -> None:
    text = (
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 "
        "has a total capacity of 79.11 GiB of which 1.00 GiB is free. Process 1 has 78.00 GiB "
        "memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 6.00 GiB "
        "is reserved by PyTorch but unallocated."
    )
    found = fitted(LLAMA | {"run": {"artifacts": [{"name": "log", "text": text}]}})
    assert isinstance(found, FittedCalibration)
    ((rank,),) = found.runs
    assert rank.rank == 3
    assert rank.outside_low_bytes is not None
    assert rank.outside_high_bytes is not None
    assert rank.outside_low_bytes < 2 * GIB < rank.outside_high_bytes
    assert rank.outside_high_bytes - rank.outside_low_bytes < GIB // 10


def test_a_document_that_was_altered_is_refused() -> None:
    altered = document(*TWO)
    altered["outside"][0]["bytes"]["high"] += 1
    with pytest.raises(QuestionError, match="digest") as refused:
        estimate(LLAMA | {"calibration": altered})
    assert refused.value.errors[0].pointer == "/calibration"


@pytest.mark.parametrize(
    ("runs", "pointer"),
    [
        ([LLAMA | {"run": told(**{"allocated_bytes.all.peak": 1})}], "/runs"),
        ([TWO[0], TWO[1] | {"gpu": "A100-80GB"}], "/runs/1"),
        (
            [TWO[0], TWO[1] | {"parallelism": {"num_gpus": 8, "tp": 3}}],
            "/runs/1/parallelism/num_gpus",
        ),
    ],
)
def test_runs_that_make_no_calibration_are_refused(runs: list[Any], pointer: str) -> None:
    found = fitted(*runs)
    assert isinstance(found, Problem)
    assert found.errors[0].pointer == pointer


class Full(NamedTuple):
    """What an error says that a process has, and PyTorch of that: allocated, and not."""

    used: str
    allocated: str
    unallocated: str

    def text(self) -> str:
        return (
            f"CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 79.25 "
            f"GiB of which 1.00 MiB is free. Including non-PyTorch memory, this process has "
            f"{self.used} memory in use. Of the allocated memory {self.allocated} is allocated by "
            f"PyTorch, and {self.unallocated} is reserved by PyTorch but unallocated."
        )


ON_ONE_CARD = [
    Full("764.00 MiB", "165.30 MiB", "4.70 MiB"),
    Full("994.00 MiB", "352.57 MiB", "47.43 MiB"),
    Full("1.04 GiB", "346.66 MiB", "127.34 MiB"),
    Full("904.00 MiB", "279.21 MiB", "30.79 MiB"),
    Full("1.05 GiB", "424.04 MiB", "57.96 MiB"),
    Full("1.77 GiB", "902.21 MiB", "315.79 MiB"),
    Full("1.77 GiB", "814.32 MiB", "403.68 MiB"),
]
"""Seven public runs on one card of 31.36 GiB, each of them out of memory: 594 MiB lay outside."""
ON_FOUR_CARDS = [Full("76.22 GiB", "75.13 GiB", "18.76 MiB")] * 4
"""Four ranks of a public run of NeMo on H100."""


@pytest.mark.parametrize(
    ("job", "errors"),
    [
        (
            {
                "model": {"hf_id": "meta-llama/Llama-3.2-1B"},
                "parallelism": {"num_gpus": 1},
                "training": {"seq_length": 1024, "micro_batch_size": 1},
                "framework": {"name": "transformers"},
                "gpu": "RTX 5090",
            },
            ON_ONE_CARD,
        ),
        (
            {
                "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
                "parallelism": {"num_gpus": 4},
                "training": {"seq_length": 4096},
                "framework": {"name": "megatron"},
                "gpu": "H100-80GB",
            },
            ON_FOUR_CARDS,
        ),
    ],
    ids=["one card", "four cards"],
)
def test_two_errors_of_a_cluster_tell_what_lies_outside_in_its_others(
    job: dict[str, Any], errors: list[Full]
) -> None:
    """An error tells what is reserved and what the process has beside it, to the last digit that is
    printed: any two runs leave less than 5 % of the device open beyond the tensors, and all others
    are within.
    """
    runs = [job | {"run": {"artifacts": [{"name": "log", "text": e.text()}]}} for e in errors]
    shown = fitted(*runs)
    assert isinstance(shown, FittedCalibration)
    told = [ranks[0] for ranks in shown.runs]
    bare = stage_of(job)
    for one, two in combinations(range(len(runs)), 2):
        calibration = document(runs[one], runs[two])
        bounds = calibration["outside"][0]["bytes"]
        for each in told:
            assert each.outside_low_bytes is not None
            assert each.outside_high_bytes is not None
            assert each.outside_low_bytes <= bounds["high"]
            assert each.outside_high_bytes >= bounds["low"]
        stage = stage_of(job | {"calibration": calibration})
        assert beyond(stage) < 0.05 * stage.device_bytes.expected
        assert beyond(stage) < beyond(bare) - 400 * MIB


class Reported(NamedTuple):
    """A run that told what was allocated and what the card held, its plan and what is expected of
    it, and what it trained.
    """

    ask: dict[str, Any]
    plan: Plan
    stage: Stage
    device_bytes: int
    trained: str


@cache
def clusters_of_reported_runs() -> list[list[Reported]]:
    """Public runs on A100, by suite and number of GPUs."""
    found: dict[tuple[str, int], list[Reported]] = defaultdict(list)
    for row in map(json.loads, RUNS.read_text("utf-8").splitlines()):
        measured = row["measured"]
        allocated, device = measured["max_allocated_gib"], measured["device_gib"]
        said = told(**{"allocated_bytes.all.peak": 1024 * allocated, "device_used": 1024 * device})
        answer = estimate(row["ask"])
        if answer.stages[0].cache_releases == "none":
            trained = "bnb" if "bnb" in row["id"] else "lora" if "lora" in row["id"] else "full"
            cluster = row["id"].split("-")[1], answer.parallelism.num_gpus
            ask, size = row["ask"] | {"run": said}, round(device * GIB)
            found[cluster].append(Reported(ask, plan_of_run(ask), answer.stages[0], size, trained))
    return list(found.values())


def plan_of_run(ask: dict[str, Any]) -> Plan:
    asked = read_asked(ask, ReconcileRequest)
    assert isinstance(asked, RequestedJob)
    plan = asked.answered(lambda job, _: Pricing(from_package).plan_of(job))
    assert not isinstance(plan, Problem)
    return plan


def calibrated_device(run: Reported, calibration: dict[str, Any]) -> Interval:
    """What is expected of its card with a calibration: what lies outside PyTorch is another."""
    seen = replace(run.plan, calibration=Calibration.model_validate(calibration))
    outside, published, bare = outside_of(seen), outside_of(run.plan), run.stage.device_bytes
    return Interval(
        bare.low - published.low + outside.low,
        bare.expected - published.expected + outside.expected,
        bare.high - published.high + outside.high,
    )


def test_calibrated_bounds_hold_for_the_other_runs_of_a_cluster() -> None:
    """What these runs reserved is replayed, and by how much that is off goes with what was trained.
    So two of a kind narrow the bounds of others of theirs, and of no others; all lie within, and
    what is expected is nearer.
    """
    clusters = clusters_of_reported_runs()
    assert sorted(map(len, clusters)) == [1, 7, 7, 10]
    narrower, off, off_before = [], [], []
    for cluster in clusters:
        for one, two in combinations(range(len(cluster)), 2):
            kinds = {cluster[one].trained, cluster[two].trained}
            calibration = document(cluster[one].ask, cluster[two].ask)
            for number, run in enumerate(cluster):
                if number in (one, two):
                    continue
                bare, found = run.stage.device_bytes, calibrated_device(run, calibration)
                measured = run.device_bytes
                assert found.low <= measured <= found.high
                if kinds == {run.trained}:
                    narrower.append((found.high - found.low) / (bare.high - bare.low))
                off.append(abs(found.expected - measured) / measured)
                off_before.append(abs(bare.expected - measured) / measured)
    assert median(narrower) < 0.9
    assert mean(off) < 0.9 * mean(off_before)


def test_how_far_cards_of_third_runs_lie_beyond_two_others_that_train_the_same() -> None:
    """And beyond what is expected, whatever the tensors' bounds are: bounds that hold all have that
    much on either side of the two.
    """
    beyond: dict[str, list[float]] = defaultdict(list)
    for cluster in clusters_of_reported_runs():
        strays = [run.device_bytes / run.stage.device_bytes.expected - 1 for run in cluster]
        for one, two in combinations(range(len(cluster)), 2):
            seen = strays[one], strays[two], 0.0
            for number, run in enumerate(cluster):
                alike = {cluster[one].trained, cluster[two].trained} == {run.trained}
                if number not in (one, two) and alike:
                    stray = strays[number]
                    beyond[run.trained].append(max(0.0, min(seen) - stray, stray - max(seen)))
    assert {name: len(found) for name, found in beyond.items()} == {
        "full": 3,
        "lora": 24,
        "bnb": 15,
    }
    assert max(beyond["lora"]) <= 0.02
    assert max(beyond["bnb"]) <= 0.025
    assert max(beyond["full"]) <= 0.033


def test_what_a_replay_is_off_by_is_carried_to_what_trains_the_same() -> None:
    """A run of adapters narrows nothing of one that trains all, even by two."""
    runs = [
        each for cluster in clusters_of_reported_runs() for each in cluster if len(cluster) == 10
    ]
    one, two, other = [each for each in runs if each.trained == "lora"][:3]
    (full, *_) = [each for each in runs if each.trained == "full"]
    calibration = document(one.ask, two.ask)
    (outside,) = calibration["outside"]
    assert (outside["replayed"], outside["runs"]) == ("adapters", 2)
    found, bare = calibrated_device(other, calibration), other.stage.device_bytes
    assert found.high - found.low < bare.high - bare.low
    found, bare = calibrated_device(full, calibration), full.stage.device_bytes
    assert (found.low, found.high) == (bare.low, bare.high)
    assert found.expected != bare.expected
    launch = other.ask["launch"]
    overrides = launch.get("overrides", {}) | {"calibration": calibration}
    job = {"launch": launch | {"overrides": overrides}}
    assert stage_of(job).device_bytes == calibrated_device(other, calibration)


class Replayed(NamedTuple):
    """A run that told what its stages reserved, and of which group its figures are."""

    group: str
    job: dict[str, Any]
    reserved_bytes: dict[int, int]

    def told(self, outside_bytes: int) -> dict[str, Any]:
        """The run as if each rank had told what lies outside PyTorch, too."""
        (num_gpus, pp) = (self.job["parallelism"].get(name, 1) for name in ("num_gpus", "pp"))
        figures = [
            {"counter": counter, "bytes": size, "rank": stage * num_gpus // pp, "step": 9}
            for stage, reserved in self.reserved_bytes.items()
            for counter, size in (
                ("reserved_bytes.all.peak", reserved),
                ("device_used", reserved + outside_bytes),
            )
        ]
        return self.job | {"run": {"measurements": figures}}


@cache
def replayed_runs() -> list[Replayed]:
    """Complete runs on B200 and H100, but for those that repeat another."""
    found = []
    for row in rows(CORPUS / "measured.jsonl"):
        group = measured.group(row)
        if group not in ("simumax-b200", "titan") or not row["complete"]:
            continue
        if row.get("duplicate_measurement_of") is None:
            job = measured.job_of(row).model_dump(mode="json", exclude_unset=True)
            one = {"stage0": {"max_reserved_gib": row["measured"]["value_gib"]}}
            sizes = {
                int(name.removeprefix("stage")): round(each["max_reserved_gib"] * GIB)
                for name, each in (row["measured"].get("per_stage") or one).items()
            }
            found.append(Replayed(group, job, sizes))
    return found


def alike() -> list[list[Replayed]]:
    """Runs of one cluster, allocator and number of communicators, where they are three or more."""
    found: dict[tuple[Any, ...], list[Replayed]] = defaultdict(list)
    for run in replayed_runs():
        plan = plan_of_run(run.told(GIB))
        communicators, exchange = links_of(plan)
        key = run.group, plan.framework.expandable_segments, communicators, exchange
        found[key].append(run)
    return [each for each in found.values() if len(each) > 2]


def test_two_that_tell_what_they_reserve_leave_less_than_5_percent_of_others_open() -> None:
    """Where three runs have as many communicators, and what lies outside is told like 2,500 MiB in
    each, as errors tell it: any two leave 3.6 to 4.8 % of the device of a third, and it is within.
    They leave more where ranks of a stage differ by what share of the states they have.
    """
    b200, h100 = alike()
    assert (len(b200), len(h100)) == (3, 5)
    widths = []
    for cluster in (b200, h100):
        for one, two in combinations(range(len(cluster)), 2):
            calibration = document(cluster[one].told(2500 * MIB), cluster[two].told(2520 * MIB))
            assert calibration["replays"][0]["runs"] == 2
            for number, run in enumerate(cluster):
                if number in (one, two):
                    continue
                stages = estimate(run.job | {"calibration": calibration}).stages
                for rank, reserved in run.reserved_bytes.items():
                    stage = stages[rank]
                    assert stage.reserved_bytes.low <= reserved <= stage.reserved_bytes.high
                    device, bare = stage.device_bytes, stage.uncalibrated_device_bytes
                    assert bare is not None
                    assert device.low <= reserved + 2510 * MIB <= device.high
                    assert device.high - device.low < bare.high - bare.low
                    assert stage.allocated_bytes.high <= stage.reserved_bytes.high
                    widths.append((device.high - device.low) / device.expected)
    narrow = [each for each in widths if each < 0.05]
    assert (len(narrow), len(widths)) == (33, 34)
    assert max(narrow) < 0.048
    assert max(widths) < 0.058


def test_what_runs_reserve_says_nothing_where_they_are_not_alike() -> None:
    """Of one run, of adapters, of experts that take whatever is routed to them, or of another
    framework, bounds of what is reserved stay.
    """
    (_, h100) = alike()
    one, two, other = h100[:3]
    calibration = document(one.told(GIB), two.told(GIB))
    (replays,) = calibration["replays"]
    assert replays["trains"] == "all"
    bare, found = stage_of(other.job), stage_of(other.job | {"calibration": calibration})
    assert found.reserved_bytes.low > bare.reserved_bytes.low
    assert found.reserved_bytes.expected == bare.reserved_bytes.expected
    experts = other.job | {"model": {"hf_id": "Qwen/Qwen3-30B-A3B"}}
    adapters = other.job | {"training": {**other.job["training"], "peft": {"method": "lora"}}}
    for job, by in (
        (other.job, document(one.told(GIB))),
        (experts, calibration),
        (adapters, calibration),
    ):
        assert stage_of(job | {"calibration": by}).reserved_bytes == stage_of(job).reserved_bytes


def test_a_run_that_was_not_what_is_expected_says_nothing_of_replays() -> None:
    (_, h100) = alike()
    one, two, *_ = h100
    double = {rank: 2 * size for rank, size in two.reserved_bytes.items()}
    (replays,) = document(one.told(GIB), two._replace(reserved_bytes=double).told(GIB))["replays"]
    assert replays["runs"] == 1


TIMED: dict[str, Any] = {
    "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
    "parallelism": {"num_gpus": 8, "tp": 2},
    "training": {"seq_length": 8192, "global_batch_size": 64},
    "gpu": "H100-80GB",
}


def run_of(job: dict[str, Any], slower: float) -> dict[str, Any]:
    """A job with the log of a run that took so much longer than expected; its start took more."""
    found = estimate(job).step_seconds
    assert found is not None
    lines = [
        f" [2026-11-23 10:00:0{step}] iteration {step}/ 9 | consumed samples: {64 * step} | "
        f"elapsed time per iteration (ms): {1e3 * seconds:.1f} | learning rate: 1E-4 |"
        for step, seconds in enumerate([9 * found.expected, *[slower * found.expected] * 5], 1)
    ]
    return job | {"run": {"artifacts": [{"name": "log", "text": "\n".join(lines)}]}}


def test_own_runs_of_a_model_tell_how_long_its_next_steps_take() -> None:
    calibration = document(run_of(TIMED, 1.2), run_of(TIMED, 1.3))
    [paces] = calibration["paces"]
    assert (paces["runs"], paces["fp8_recipe"], paces["beyond_node"]) == (2, None, False)
    assert paces["seconds_ratio"]["expected"] == pytest.approx(1.25, abs=1e-3)
    other = TIMED | {"parallelism": {"num_gpus": 8, "tp": 1, "pp": 2}}
    bare, found = estimate(other), estimate(other | {"calibration": calibration})
    assert bare.step_seconds is not None
    assert found.step_seconds is not None
    assert found.step is not None
    assert found.step_seconds.expected == pytest.approx(1.25 * bare.step_seconds.expected, rel=1e-3)
    assert found.step_seconds.low < found.step_seconds.expected < found.step_seconds.high
    assert found.step.basis == "calibrated"
    assert found.step.uncalibrated_seconds == bare.step_seconds
    parts = found.step.parts
    assert sum(getattr(parts, name) for name in type(parts).__slots__) == pytest.approx(
        found.step_seconds.expected
    )


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"hf_id": "meta-llama/Llama-3.2-3B"}},
        {"training": {**TIMED["training"], "precision": "fp8"}},
        {"parallelism": {"num_gpus": 16, "tp": 2}},
        {"gpu": "H200"},
    ],
    ids=["model", "precision", "network", "card"],
)
def test_what_runs_say_of_time_is_not_carried_further(change: dict[str, Any]) -> None:
    calibration = document(run_of(TIMED, 1.3))
    bare, found = estimate(TIMED | change), estimate(TIMED | change | {"calibration": calibration})
    assert found.step_seconds == bare.step_seconds
    assert found.step is not None
    assert found.step.basis == "known_stack"


def test_a_search_is_told_the_time_of_own_runs() -> None:
    calibration = document(run_of(TIMED, 0.7))
    job = {**TIMED, "parallelism": {"num_gpus": 8}}
    bare, found = search(job, best=3), search(job | {"calibration": calibration}, best=3)
    assert [each.job["parallelism"] for each in found.best] == [
        each.job["parallelism"] for each in bare.best
    ]
    for one, other in zip(bare.best, found.best, strict=True):
        assert one.step_seconds is not None
        assert other.step_seconds is not None
        assert other.step_seconds.expected == pytest.approx(
            0.7 * one.step_seconds.expected, rel=1e-3
        )
