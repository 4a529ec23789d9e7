"""SARIF 2.1.0, for code scanning."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from trainfit import __version__
from trainfit.cli.gate.cases import Case, Gate, Outcome
from trainfit.cli.gate.words import Note, advice, notes
from trainfit.cli.job_files import readable

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of result. Its id never changes."""

    id: str
    name: str
    text: str


RULES: Mapping[Outcome, Rule] = {
    "does_not_fit": Rule("MEM001", "DoesNotFit", "Even the low bound exceeds the card's memory."),
    "tight": Rule("MEM002", "Tight", "The bounds of the estimate straddle the card's memory."),
    "unknown": Rule("MEM003", "NotModelled", "Something that changes memory is not modelled."),
    "invalid": Rule(
        "MEM004",
        "InvalidJob",
        "The job is invalid: a field is wrong, or fields contradict each other.",
    ),
    "unavailable": Rule("MEM005", "NotChecked", "Nobody could answer."),
}


def sarif(cases: Sequence[Case], gate: Gate) -> str:
    """The log of one run; jobs that fit leave no result."""
    driver = {
        "name": "trainfit",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [
            {"id": rule.id, "name": rule.name, "shortDescription": {"text": rule.text}}
            for rule in RULES.values()
        ],
    }
    results = [result for case in cases for result in _results(case, gate)]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _results(case: Case, gate: Gate) -> Iterator[dict[str, Any]]:
    if case.outcome == "fits":
        return
    rule = RULES[case.outcome]
    for ordinal, note in enumerate(notes(case)):
        head = f"{case.entry.name} on {case.gpu}: {note.text}"
        result: dict[str, Any] = {
            "ruleId": rule.id,
            "ruleIndex": list(RULES).index(case.outcome),
            "level": "error" if gate.fails(case) else "warning",
            "message": {"text": "\n".join([head, *advice(case)])},
            "locations": [_location(note)],
            "partialFingerprints": {"trainfit/v1": _fingerprint(case, rule, ordinal)},
        }
        if case.allowed is not None:
            accepted = {"kind": "external", "status": "accepted", "justification": case.allowed}
            result["suppressions"] = [accepted]
        yield result


def _location(note: Note) -> dict[str, Any]:
    path = note.path
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    artifact = {"uri": path.as_uri() if path.is_absolute() else quote(readable(path.as_posix()))}
    if not path.is_absolute():
        artifact["uriBaseId"] = "%SRCROOT%"
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": note.line}}}


def _fingerprint(case: Case, rule: Rule, ordinal: int) -> str:
    """The same as long as the same job, with this layout, has this result on this card."""
    decisive = case.entry.job.get("parallelism", case.entry.job.get("launch"))
    layout = json.dumps(decisive, sort_keys=True)
    parts = json.dumps([case.path, case.entry.name, layout, case.gpu, rule.id, ordinal])
    return hashlib.sha256(parts.encode()).hexdigest()
