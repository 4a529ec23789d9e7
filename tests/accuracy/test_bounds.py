"""How close the estimates of real runs are to what was measured."""

from statistics import median

import pytest

from tests.accuracy import measured
from tests.accuracy.outcomes import GIB, Memory
from tests.accuracy.schemas import all_outcomes
from tests.accuracy.test_corpus import CORPUS, rows
from trainfit.estimator.overhead import MEASURED_PYTORCH_RUNS, MEASURED_STAGES

Errors = dict[str, Memory]

DROPLESS = "mlm-gpt3_mcore_te_tp2_pp2_ep4_etp1_memory_speed-h100"
"""Routing of this run is not balanced: its peak grows by 2.4 GiB more after the first step than
the optimizer's moments take.
"""


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
    """All within 6 %, half of them within 1 %, but for graphs: `max_allocated` counts nothing that
    their private pool holds once they are captured, and the ledger counts what it takes."""
    rows = dict(complete["mlm completed"])
    assert len(rows) >= 25
    graphs = [rows.pop(name) for name in list(rows) if name.endswith("attn_cudagraph-h100")]
    assert all(memory.error_ratio > 0 for memory in graphs)
    assert median(errors(rows)) <= 0.01
    assert max(errors(rows)) <= 0.06
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
