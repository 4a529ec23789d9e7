"""How close the estimates of real runs are to what was measured."""

from itertools import combinations
from statistics import median

import pytest

from tests.accuracy import measured
from tests.accuracy.outcomes import GIB, Memory
from tests.accuracy.schemas import all_outcomes
from tests.accuracy.test_corpus import CORPUS, DATA, rows
from trainfit.estimator.overhead import (
    MEASURED_PYTORCH_RUNS,
    MEASURED_STAGES,
    OWN_REPLAYS_PERMILLE,
    PLAIN_PERMILLE,
)

Errors = dict[str, Memory]

DROPLESS = "mlm-gpt3_mcore_te_tp2_pp2_ep4_etp1_memory_speed-h100"
"""Routing of this run is not balanced: its peak grows by 2.4 GiB more after the first step than
the optimizer's moments take.
"""


UNEVEN = "mlm-nemotron3_5_lightning_nightly_tp1_pp1_cp1_ep8_dgx_gb200-gb200"
"""Dropless, on eight ranks of experts: its second step took 144.93 GiB, and its last 161.15."""

OF_EARLIER_RELEASES = (
    "attn_cudagraph-h100",
    "frozen_resume_torch_dist_te_8experts2parallel_dist_optimizer-h100",
)
"""Ends of the names of runs whose releases kept less than later ones do."""


@pytest.fixture(scope="module")
def complete() -> dict[str, Errors]:
    """Priced rows by group, of runs whose configuration is known completely."""
    groups: dict[str, Errors] = {}
    for outcome in all_outcomes(CORPUS / "measured.jsonl"):
        if isinstance(outcome.figures, Memory) and not outcome.group.endswith("near"):
            groups.setdefault(outcome.group, {})[outcome.id] = outcome.figures
    return groups


def errors(figures: Errors) -> list[float]:
    return [abs(memory.error_ratio) for memory in figures.values()]


def test_b200(complete: dict[str, Errors]) -> None:
    found = errors(complete["simumax-b200"])
    assert len(found) == 10
    assert median(found) <= 0.001
    assert max(found) <= 0.005


def test_max_reserved_on_b200_lies_in_its_interval() -> None:
    checked = 0
    for row in rows(CORPUS / "measured.jsonl"):
        if not row["id"].startswith("simumax-b200"):
            continue
        for stage in measured.answered(measured.job_of(row)).stages:
            reserved = row["measured"]["per_stage"][f"stage{stage.pp_rank}"]["max_reserved_gib"]
            assert stage.reserved_bytes.low <= reserved * GIB <= stage.reserved_bytes.high
            checked += 1
    assert checked == 26


def test_what_two_replays_leave_open_of_a_third() -> None:
    """Nineteen stages and runs that are replayed reserved within 1.6 % of it, half of them within
    0.4; none lies further than that beyond any two others of its cluster and what is expected.
    """
    b200, h100 = reserved_over_replayed()
    assert (len(b200), len(h100)) == (10, 9)
    strays = [abs(ratio - 1) for ratio in b200 + h100]
    assert median(strays) <= 0.004
    assert max(strays) <= 0.016
    thirds = 0
    megatron, torchtitan = OWN_REPLAYS_PERMILLE["megatron"], OWN_REPLAYS_PERMILLE["torchtitan"]
    for cluster, beyond in ((b200, megatron / 1000), (h100, torchtitan / 1000)):
        for one, two in combinations(range(len(cluster)), 2):
            seen = cluster[one], cluster[two], 1.0
            for number, ratio in enumerate(cluster):
                if number not in (one, two):
                    assert min(seen) - beyond <= ratio <= max(seen) + beyond
                    thirds += 1
    assert thirds == 360 + 252


def reserved_over_replayed() -> tuple[list[float], list[float]]:
    """What stages on B200 and runs of torchtitan on H100 reserved, relative to their replays; those
    that repeat another with more micro-batches left out.
    """
    b200, h100 = [], []
    for row in rows(CORPUS / "measured.jsonl"):
        kind = measured.group(row)
        if kind not in ("simumax-b200", "titan") or not row["complete"]:
            continue
        if row.get("duplicate_measurement_of") is not None:
            continue
        for stage in measured.answered(measured.job_of(row)).stages:
            assert stage.reserved_basis == "replayed"
            per_stage = row["measured"].get("per_stage") or {}
            if kind == "titan":
                h100.append(row["measured"]["value_gib"] * GIB / stage.reserved_bytes.expected)
            elif figures := per_stage.get(f"stage{stage.pp_rank}"):
                b200.append(figures["max_reserved_gib"] * GIB / stage.reserved_bytes.expected)
    return b200, h100


def test_megatrons_continuous_integration(complete: dict[str, Errors]) -> None:
    """The larger of 4 % and 0.1 GiB holds for 95 % of them."""
    rows = complete["mlm"]
    assert len(rows) >= 45
    assert median(errors(rows)) <= 0.01
    close = [
        abs(memory.expected_bytes - memory.measured_bytes)
        <= max(0.04 * memory.measured_bytes, 0.1 * GIB)
        for memory in rows.values()
    ]
    assert sum(close) >= 0.95 * len(close)


def test_tests_completed_from_megatrons_recipes(complete: dict[str, Errors]) -> None:
    """All within 6 %, half of them within 1 %. Where graphs of attention that writes its scores are
    captured at the peak, the release of TransformerEngine of that day took no second copy of their
    gradient, as later ones do; and what scatter_add added up was not kept, as it is since index_add
    does: those runs lie below their bounds. One more grew from 114.7 and 144.9 GiB in its first
    steps, both within 0.3 %, as its routing turned uneven, and stays within its bounds.
    """
    rows = dict(complete["mlm completed"])
    assert len(rows) >= 25
    uneven = rows.pop(UNEVEN)
    assert uneven.inside
    assert -0.1 <= uneven.error_ratio <= 0
    assert median(errors(rows)) <= 0.01
    assert max(errors(rows)) <= 0.06
    earlier = [rows.pop(name) for name in list(rows) if name.endswith(OF_EARLIER_RELEASES)]
    assert [memory.error_ratio > 0 for memory in earlier] == [True, True]
    assert all(memory.inside for memory in rows.values())


def test_dense_runs_with_transformer_engine(complete: dict[str, Errors]) -> None:
    dense = {
        name: memory
        for name, memory in complete["mlm"].items()
        if "experts" not in name and name != DROPLESS and "-gpt3_mcore_tp1" not in name
    }
    assert len(dense) >= 30
    assert median(errors(dense)) <= 0.006
    assert max(errors(dense)) <= 0.02


def test_runs_above_50_gib(complete: dict[str, Errors]) -> None:
    large = {
        name: memory
        for name, memory in complete["mlm"].items()
        if memory.measured_bytes > 50 * GIB and name != DROPLESS
    }
    assert len(large) == 6
    assert max(errors(large)) <= 0.015


def test_megatron_bridge(complete: dict[str, Errors]) -> None:
    assert len(complete["bridge"]) == 4
    assert max(errors(complete["bridge"])) <= 0.04


def test_torchtitan(complete: dict[str, Errors]) -> None:
    """Its logs give reserved bytes."""
    assert len(complete["titan"]) == 9
    assert median(errors(complete["titan"])) <= 0.04
    assert max(errors(complete["titan"])) <= 0.04


def test_torchtune(complete: dict[str, Errors]) -> None:
    assert len(complete["tune"]) == 5
    assert max(errors(complete["tune"])) <= 0.03


@pytest.mark.parametrize(
    ("groups", "count"),
    [
        (("simumax-b200", "mlm", "bridge"), MEASURED_STAGES),
        (("titan", "tune"), MEASURED_PYTORCH_RUNS),
    ],
)
def test_intervals_hold_and_are_narrow(
    complete: dict[str, Errors], groups: tuple[str, ...], count: int
) -> None:
    everything = [memory for group in groups for memory in complete[group].values()]
    assert len(everything) == count
    assert all(memory.inside for memory in everything)
    widths = [(each.high_bytes - each.low_bytes) / each.expected_bytes for each in everything]
    assert median(widths) < 0.2 if "titan" in groups else median(widths) < 0.08


def test_plain_modules_allocate_what_the_ledger_has() -> None:
    """Those of complete runs of Trainer's, within half of their bounds, which hold them all."""
    found = [
        outcome.figures
        for name in ("reported_runs_one_gpu.jsonl", "reported_runs_fsdp1.jsonl")
        for outcome in all_outcomes(DATA / name)
        if isinstance(outcome.figures, Memory)
        and outcome.id.endswith("#allocated")
        and not outcome.group.endswith("near")
    ]
    assert len(found) == 18
    assert max(abs(each.error_ratio) for each in found) <= PLAIN_PERMILLE / 2000
    assert all(each.inside for each in found)
