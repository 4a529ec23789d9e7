"""Recordings of the allocator are replayed to the last address, and told where they differ."""

from __future__ import annotations

import copy
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.accuracy.__main__ import main
from tests.accuracy.outcomes import Counts
from tests.accuracy.schemas import files_of, outcomes_of, outcomes_of_row, rows_of

Row = dict[str, Any]

FOLDER = Path(__file__).parent.parent / "data" / "corpus" / "allocator_traces"
FILES = sorted(FOLDER.glob("*.json.gz"))
MIB = 1 << 20


def differences(row: Row) -> dict[str, Any]:
    (outcome,) = outcomes_of_row(row, Path(), "file:1")
    assert isinstance(outcome.figures, Counts), outcome.reason
    return outcome.figures.differences


def recording(**changes: Any) -> Row:
    """Two tensors in one segment; the first goes, and a third takes its place."""
    row = {
        "id": "made-up",
        "torch": "2.6",
        "segments": [[0, 20 * MIB, "large", 0]],
        "live": [[0, 2 * MIB], [2 * MIB, 4 * MIB]],
        "events": [
            ["free", 0, 2 * MIB, 0],
            ["alloc", 0, 2 * MIB, 0],
            ["segment_alloc", 64 * MIB, 30 * MIB, 0],
            ["alloc", 64 * MIB, 30 * MIB, 0],
        ],
        "end": {"reserved": 50 * MIB, "allocated": 36 * MIB},
    }
    return row | changes


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.partition(".json")[0])
def test_every_request_gets_the_address_that_it_got(file: Path) -> None:
    (outcome,) = outcomes_of(file)
    assert outcome.group == "allocator_traces"
    assert isinstance(outcome.figures, Counts)
    assert outcome.figures.differences == {}


def test_a_recording_with_one_address_changed_differs_there() -> None:
    (row,) = rows_of(FOLDER / "small_forward_fp32_128.json.gz")
    number = next(n for n, event in enumerate(row["events"]) if n > 300 and event[0] == "alloc")
    changed = copy.deepcopy(row)
    changed["events"][number][1] += 512
    assert list(differences(changed)) == [
        f"event {number} (alloc of {row['events'][number][2]} bytes on stream 0)"
    ]


def test_a_made_up_recording_is_exact() -> None:
    assert differences(recording()) == {}


def test_a_segment_that_is_not_needed_is_a_difference() -> None:
    row = recording()
    row["events"][2:] = [["segment_alloc", 64 * MIB, 20 * MIB, 0], ["alloc", 64 * MIB, 2 * MIB, 0]]
    (difference,) = differences(row).values()
    assert difference == {"expected": 64 * MIB, "counted": 6 * MIB}


def test_what_is_held_at_the_end_is_compared() -> None:
    assert differences(recording(end={"reserved": 1, "allocated": 36 * MIB})) == {
        "reserved": {"expected": 1, "counted": 50 * MIB}
    }


def test_segments_that_are_given_back_are_compared() -> None:
    row = recording(
        segments=[[0, 20 * MIB, "large", 0], [30 * MIB, 30 * MIB, "large", 0]],
        events=[["segment_free", 30 * MIB, 30 * MIB, 0]],
        end={"reserved": 20 * MIB, "allocated": 6 * MIB},
    )
    assert differences(row) == {}
    row["segments"].append([90 * MIB, 40 * MIB, "large", 0])
    assert differences(row) == {
        "segments freed at the end": {"expected": [], "counted": [(90 * MIB, 40 * MIB)]}
    }


def test_what_is_freed_without_having_been_allocated_was_in_use_from_the_start() -> None:
    """A stream used it when the recording began. Were it free, the first request would get it."""
    row = recording(
        events=[
            ["alloc", 10 * MIB, 4 * MIB, 0],
            ["free", 6 * MIB, 4 * MIB, 0],
            ["alloc", 6 * MIB, 4 * MIB, 0],
        ],
        end={"reserved": 20 * MIB, "allocated": 14 * MIB},
    )
    assert differences(row) == {}


def test_a_free_of_what_is_free_already_is_told() -> None:
    row = recording(events=[["free", 0, 2 * MIB, 0], ["free", 0, 2 * MIB, 0]])
    assert differences(row) == {
        f"event 1 (free of {2 * MIB} bytes on stream 0)": {
            "expected": "a free",
            "counted": "nothing was allocated there",
        }
    }


@pytest.mark.parametrize(("behind", "served"), [(1, 7), (0, 6)])
def test_a_rest_that_was_not_split_off_belongs_to_its_tensor(behind: int, served: int) -> None:
    """A block can be larger than its tensor by up to 1 MiB, which no recording says: the first
    request that is served behind it does.
    """
    row = recording(
        events=[["alloc", (6 + behind) * MIB, 2 * MIB, 0]],
        end={"reserved": 20 * MIB, "allocated": (8 + behind) * MIB},
    )
    assert differences(row) == {}
    assert row["events"][0][1] == served * MIB


def test_an_event_of_another_kind_skips_the_recording() -> None:
    (outcome,) = outcomes_of_row(recording(events=[["segment_map", 0, 1, 0]]), Path(), "file:1")
    assert outcome.reason == "events of the kind segment_map are not replayed"


def test_a_folder_stands_for_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.json.gz").write_bytes(gzip.compress(json.dumps(recording()).encode()))
    (tmp_path / "two.json").write_text(json.dumps(recording(id="two", end={"reserved": 0})))
    (tmp_path / "notes.txt").write_text("no rows")
    assert [file.name for file in files_of(tmp_path)] == ["one.json.gz", "two.json"]
    monkeypatch.setattr(sys, "argv", ["accuracy", str(tmp_path)])
    assert main() == 0
    printed = capsys.readouterr().out
    assert f"differs: two: reserved {50 * MIB} for 0" in printed
