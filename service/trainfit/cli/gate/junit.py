"""JUnit XML, which GitLab and Jenkins show: one test case for each job on each card."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from trainfit.cli.gate.cases import CheckedJob, Gate
from trainfit.cli.gate.words import WORDS, advice, notes
from trainfit.cli.job_files import readable

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(cases: Sequence[CheckedJob], gate: Gate) -> str:
    """The report. What is unknown is skipped: nothing was found against it, nor for it."""
    found = [_case(case, gate) for case in cases]
    counts = {
        kind: str(sum(case.find(tag) is not None for case in found))
        for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    suite = {"name": "trainfit fit-check", "tests": str(len(found)), **counts}
    root = ElementTree.Element("testsuites")
    ElementTree.SubElement(root, "testsuite", suite).extend(found)
    ElementTree.indent(root)
    return ElementTree.tostring(root, "unicode", xml_declaration=False)


def _case(case: CheckedJob, gate: Gate) -> ElementTree.Element:
    told_at = notes(case)
    about = {
        "classname": case.path,
        "name": f"{case.entry.name} on {case.gpu}",
        "file": readable(told_at[0].path.as_posix()),
        "line": str(told_at[0].line),
    }
    made = ElementTree.Element("testcase", {key: _text(value) for key, value in about.items()})
    why = [note.text for note in told_at]
    if case.allowed is not None:
        why.append(f"allowed: {case.allowed}")
    details = _text("\n".join([*why, *advice(case)]))
    tag = _tag(case, gate)
    outcome = ElementTree.SubElement(made, tag)
    if tag != "system-out":
        outcome.set("message", _text(f"{WORDS[case.outcome]}: {why[0]}"))
    if tag in ("failure", "error"):
        outcome.set("type", case.outcome)
    outcome.text = details
    return made


def _tag(case: CheckedJob, gate: Gate) -> str:
    if case.outcome == "unknown":
        return "skipped"
    if case.outcome == "unavailable":
        return "error" if gate.fails(case) else "skipped"
    if gate.fails(case):
        return "error" if case.outcome == "invalid" else "failure"
    return "system-out"


def _text(text: str) -> str:
    """Without the characters that XML cannot carry."""
    return NOT_XML.sub("\ufffd", text)
