"""SARIF 2.1.0, for code scanning.

GitHub's rules for what it shows are those of its page "SARIF support for code scanning".
"""

from __future__ import annotations

import hashlib
import json
import linecache
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from trainfit import __version__
from trainfit.cli.gate.cases import CheckedJob, Gate, Outcome
from trainfit.cli.gate.words import Note, advice, notes
from trainfit.cli.job_files import readable

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

MAX_RESULTS = 25_000
"""GitHub refuses a run that has more."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of result. Its id never changes. `help` is Markdown; as text it has no backticks."""

    id: str
    name: str
    text: str
    description: str
    help: str
    severity: Literal["error", "warning"]
    precision: Literal["very-high", "high", "medium"]

    def descriptor(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "shortDescription": {"text": self.text},
            "fullDescription": {"text": self.description},
            "help": {"text": self.help.replace("`", ""), "markdown": self.help},
            "defaultConfiguration": {"level": self.severity},
            "properties": {
                "tags": ["gpu-memory", "llm-training"],
                "precision": self.precision,
                "problem.severity": self.severity,
            },
        }


RULES: Mapping[Outcome, Rule] = {
    "does_not_fit": Rule(
        "MEM001",
        "DoesNotFit",
        "Even the low bound exceeds the card's memory.",
        "Some rank of the job needs more memory than its GPU has to give, by the low bound of the "
        "estimate already. The run would end for want of memory.",
        "The message names the stage that needs most, when, and for what most of all. Below stand "
        "changes that would help: each was priced, and says whether the job fits with it.\n\n"
        "`trainfit estimate` shows the memory of every stage, `trainfit search` finds layouts "
        "that fit.",
        "error",
        "high",
    ),
    "tight": Rule(
        "MEM002",
        "Tight",
        "The bounds of the estimate straddle the card's memory.",
        "The job fits by the low bound of the estimate, and by the high one it does not, or not "
        "with what is to stay free. The run may end for want of memory.",
        "Take one of the changes in the message, or measure a few steps. What is known to fit "
        "passes with a reason: `--allow tight=REASON`.",
        "warning",
        "medium",
    ),
    "unknown": Rule(
        "MEM003",
        "NotModelled",
        "Something that changes memory is not modelled.",
        "The job asks for something that changes what it needs, nobody knows how far. No verdict "
        "is given on a number that may be wrong.",
        "Leave it out to have the rest checked. What is known to change nothing is accepted by "
        "`--accept-unsupported KEY`, a job that is known to fit passes by `--allow "
        "unknown=REASON`.",
        "warning",
        "high",
    ),
    "invalid": Rule(
        "MEM004",
        "InvalidJob",
        "The job is invalid: a field is wrong, or fields contradict each other.",
        "The file cannot be read, or what it describes cannot be built: a layout that does not "
        "divide the GPUs, a field that does not exist, a value of the wrong kind.",
        "The message says what is wrong, and what would be right where that is known.",
        "error",
        "very-high",
    ),
    "unavailable": Rule(
        "MEM005",
        "NotChecked",
        "Nobody could answer.",
        "The model is not known here and was not looked up, or the service that was asked gave no "
        "answer. Nothing is known for or against the job.",
        "`--online` looks up models on the Hugging Face Hub; `trainfit models pull` keeps one for "
        "machines without a network. `--on-error pass` lets such jobs through.",
        "warning",
        "very-high",
    ),
}


def sarif(cases: Sequence[CheckedJob], gate: Gate) -> str:
    """The log of one run; jobs that fit leave no result."""
    driver = {
        "name": "trainfit",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [rule.descriptor() for rule in RULES.values()],
    }
    results = list(islice((each for case in cases for each in _results(case, gate)), MAX_RESULTS))
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _results(case: CheckedJob, gate: Gate) -> Iterator[dict[str, Any]]:
    if case.outcome == "fits":
        return
    rule = RULES[case.outcome]
    for ordinal, note in enumerate(notes(case)):
        head = f"{case.entry.name} on {case.gpu}: {note.text}"
        result: dict[str, Any] = {
            "ruleId": rule.id,
            "ruleIndex": list(RULES).index(case.outcome),
            "level": "error" if gate.fails(case) else "warning",
            "message": {"text": _message("\n".join([head, *advice(case)]))},
            "locations": [_location(note)],
            # The only name by which GitHub tells results apart; jobs on several cards share a line.
            "partialFingerprints": {"primaryLocationLineHash": _fingerprint(case, rule, ordinal)},
        }
        if case.allowed is not None:
            accepted = {"kind": "external", "status": "accepted", "justification": case.allowed}
            result["suppressions"] = [accepted]
        yield result


def _message(text: str) -> str:
    """Text that no viewer takes for a link, which is written [words](target)."""
    return text.replace("](", "] (")


def _location(note: Note) -> dict[str, Any]:
    path = note.path
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    artifact = {"uri": path.as_uri() if path.is_absolute() else quote(readable(path.as_posix()))}
    if not path.is_absolute():
        artifact["uriBaseId"] = "%SRCROOT%"
    return {"physicalLocation": {"artifactLocation": artifact, "region": _region(note)}}


def _region(note: Note) -> dict[str, int]:
    """The whole line. One that cannot be read again, as of a pipe, has a column."""
    text = linecache.getline(str(note.path), note.line) if note.path.is_file() else ""
    width = max(len(text.rstrip("\r\n")), 1)
    return {
        "startLine": note.line,
        "startColumn": 1,
        "endLine": note.line,
        "endColumn": width + 1,
    }


def _fingerprint(case: CheckedJob, rule: Rule, ordinal: int) -> str:
    """A fingerprint that stays while the same job, with this layout, has this result on this
    card.
    """
    decisive = case.entry.job.get("parallelism", case.entry.job.get("launch"))
    layout = json.dumps(decisive, sort_keys=True)
    parts = json.dumps([case.path, case.entry.name, layout, case.gpu, rule.id, ordinal])
    return hashlib.sha256(parts.encode()).hexdigest()
