"""Which kind of ground truth a row is, by its keys, and how such a row is priced."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tests.accuracy import (
    allocator_traces,
    measured,
    megatron_stage_parameters,
    parameter_counts,
    peer_megatron_lm,
    reported_runs,
    runs,
    throughput,
    torch_steps,
)
from tests.accuracy.megatron_rows import model_and_layout
from tests.accuracy.outcomes import Figures, NotStatedError, Outcome, UnusableRowError
from trainfit.architectures.config import ConfigError
from trainfit.questions.dimensions import UnknownModelError
from trainfit.resolve.findings import RefusedError

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Schema:
    """A kind of row: what tells it apart, the group it belongs to and how it is priced.

    `price` returns figures by suffix of the row's id, one for most rows.
    """

    matches: Callable[[Row], bool]
    group: Callable[[Row], str]
    price: Callable[[Row, Path], Mapping[str, Figures]]


def _has(*keys: str) -> Callable[[Row], bool]:
    return lambda row: all(key in row for key in keys)


SCHEMAS = (
    Schema(_has("spec", "measured"), torch_steps.group, torch_steps.price),
    Schema(
        lambda row: "stages" in (row.get("outputs") or {}),
        megatron_stage_parameters.group,
        megatron_stage_parameters.price,
    ),
    Schema(
        lambda row: "parameters" in (row.get("outputs") or {}),
        peer_megatron_lm.group,
        peer_megatron_lm.price,
    ),
    Schema(_has("hf_id", "status"), parameter_counts.group, parameter_counts.price),
    Schema(_has("ask", "measured"), reported_runs.group, reported_runs.price),
    Schema(_has("family", "measured"), throughput.group, throughput.price),
    Schema(_has("measured", "model", "training"), measured.group, measured.price),
    Schema(_has("fits", "model", "training"), runs.group, runs.price),
    Schema(
        _has("segments", "live", "events", "end"), allocator_traces.group, allocator_traces.price
    ),
)


SUFFIXES = (".json", ".jsonl", ".json.gz", ".jsonl.gz")


def files_of(path: Path) -> list[Path]:
    """A file itself, or the files of rows that lie in a folder."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES))


def outcomes_of(file: Path) -> Iterator[Outcome]:
    """What becomes of every row of a file: one JSON object a line, or one document."""
    for line, row in enumerate(rows_of(file), start=1):
        yield from outcomes_of_row(row, file.parent, f"{file.name}:{line}")


@cache
def all_outcomes(file: Path) -> tuple[Outcome, ...]:
    """The same, found once: tests of several things look at the rows of one file."""
    return tuple(outcomes_of(file))


def rows_of(file: Path) -> Iterator[Any]:
    """The rows of a file, which may be compressed. A line that is no JSON comes as its text."""
    content = file.read_bytes()
    text = (gzip.decompress(content) if file.suffix == ".gz" else content).decode("utf-8")
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        for line in text.splitlines():
            if line.strip():
                yield _parsed(line)
    else:
        yield from document if isinstance(document, list) else (document,)


def outcomes_of_row(row: Any, folder: Path, place: str) -> list[Outcome]:
    """What becomes of one row. Whatever breaks on it is told as its reason, never raised."""
    if not isinstance(row, dict):
        return [Outcome(place, "unknown", reason="not a JSON object")]
    schema = next((schema for schema in SCHEMAS if schema.matches(row)), None)
    if schema is None:
        return [Outcome(place, "unknown", reason="its keys are those of no schema")]
    name, group = place, "unknown"
    try:
        name, group = row_id(row), schema.group(row)
        figures = schema.price(row, folder)
    except UnusableRowError as error:
        stated = not isinstance(error, NotStatedError)
        return [Outcome(name, group, reason=str(error), stated=stated)]
    except (ConfigError, RefusedError, UnknownModelError) as error:
        return [Outcome(name, group, reason=f"refused: {_words(error)}")]
    except ValidationError as error:
        return [Outcome(name, group, reason=f"no valid job: {_invalid(error)}")]
    except Exception as error:
        reason = f"error: {type(error).__name__}: {error}"
        return [Outcome(name, group, reason=reason, failed=True)]
    return [Outcome(name + suffix, group, each) for suffix, each in figures.items()]


def row_id(row: Row) -> str:
    """A row's `id`, else its `hf_id`, its `spec.name`, or its model and layout."""
    for name in (row.get("id"), row.get("hf_id"), row.get("spec", {}).get("name")):
        if name is not None:
            return str(name)
    return model_and_layout(row)


def _words(error: Exception) -> str:
    if isinstance(error, RefusedError):
        return "; ".join(f"{found.pointer}: {found.message}" for found in error.findings)
    return str(error)


def _invalid(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)
    return "; ".join(f"/{'/'.join(str(key) for key in e['loc'])}: {e['msg']}" for e in found)


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return line
