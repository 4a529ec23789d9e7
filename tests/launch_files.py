"""Count the public launch files that end with a verdict, and rank what stands in the way of others.

A row of the list names a file by its repository and path, and the facts that its user has at hand.
The texts are public and no part of this repository: they lie under REPOSITORY/PATH, with + for the
slash of a repository, in a folder `launch_texts` beside the list or above it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

from trainfit.questions.python import QuestionError, fit_check

TEXTS = "launch_texts"
EVERYBODYS: Mapping[str, Any] = {
    "/parallelism/num_gpus": 8,
    "/training/seq_length": 4096,
    "/model/spec/vocab_size": 32_000,
}
"""What anybody knows of a run of one's own, and is told where an answer asks for it."""
CARD = "H100-80GB"
VERDICTS = ("fits", "tight", "does_not_fit")
Row = Mapping[str, Any]


class Outcome(NamedTuple):
    """What became of one launch: a verdict, `unknown` or `refused`, why, and the CPU time."""

    result: str
    reasons: tuple[str, ...]
    seconds: float

    @property
    def decided(self) -> bool:
        return self.result in VERDICTS


class Counted(NamedTuple):
    """A row whose texts are there: alone, with the facts of the list, and with what the answer to
    that asks of everybody.
    """

    row: Row
    alone: Outcome
    with_facts: Outcome
    told: Outcome


def counted(rows: Iterable[Row], texts: Path) -> Iterator[Counted]:
    """Each row whose texts are there."""
    for row in rows:
        folder = texts / row["source"].partition(":")[0].replace("/", "+")
        paths = [folder / path for path in row["files"]]
        if not all(path.is_file() for path in paths):
            continue
        files = [
            {"path": name, "content": path.read_text("utf-8", errors="replace")}
            for name, path in zip(row["files"], paths, strict=True)
        ]
        facts = row["facts"]
        given = {
            "files": [*files, *facts.get("extra", [])],
            "argv": facts.get("argv"),
            "env": facts.get("env", {}),
            "overrides": facts.get("ov", {}),
        }
        with_facts = outcome(given)
        yield Counted(row, outcome({"files": files}), with_facts, told(given, with_facts))


def outcome(launch: Mapping[str, Any]) -> Outcome:
    """What is answered about a launch on the card."""
    started = time.process_time()
    try:
        answer = fit_check({"launch": {**launch, "gpu": CARD}}, suggest=False)
        result: str = answer.verdict
        reasons = tuple(each.message for each in answer.not_modelled)
    except QuestionError as error:
        result = "refused"
        reasons = tuple(each.message for each in error.errors) or (error.problem.detail,)
    if result in VERDICTS:
        reasons = ()
    return Outcome(result, reasons, time.process_time() - started)


def told(launch: Mapping[str, Any], answered: Outcome) -> Outcome:
    """What is answered once the launch says what answers ask of everybody."""
    overrides = deepcopy(dict(launch.get("overrides", {})))
    left = dict(EVERYBODYS)
    while not answered.decided:
        asked = {each for each in left if any(each in why for why in answered.reasons)}
        if not asked:
            break
        for pointer in asked:
            *parents, name = pointer.strip("/").split("/")
            part = overrides
            for parent in parents:
                part = part.setdefault(parent, {})
            part[name] = left.pop(pointer)
        answered = outcome({**launch, "overrides": overrides})
    return answered


def reason(message: str) -> str:
    """What a message complains of, without the file and the line."""
    place, colon, rest = message.partition(": ")
    return rest if colon and " " not in place else message


def ranked(outcomes: Iterable[Outcome]) -> list[tuple[int, int, str]]:
    """How many files each reason stands in the way of, and of how many alone; the most first."""
    all_of: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    for each in outcomes:
        reasons = {reason(message) for message in each.reasons}
        all_of.update(reasons)
        alone.update(reasons if len(reasons) == 1 else ())
    return [(count, alone[why], why) for why, count in all_of.most_common()]


def report(found: Sequence[Counted], listed: int) -> str:
    """The shares, the families and the reasons, as text."""
    lines = [f"{listed} listed, {len(found)} had"]
    for name, outcomes in (
        ("alone", [each.alone for each in found]),
        ("with facts", [each.with_facts for each in found]),
        ("told what it asks", [each.told for each in found]),
    ):
        decided = sum(each.decided for each in outcomes)
        results = Counter(each.result for each in outcomes)
        share = f"{decided} of {len(found)} ({decided / max(1, len(found)):.1%}), of all listed"
        lines.append(f"{name}: {share} {decided / listed:.1%}; {dict(results)}")
    families = Counter(each.row["family"] for each in found)
    lines += ["", "family              n  alone  with facts  told"]
    for family, count in families.most_common():
        of_it = [each for each in found if each.row["family"] == family]
        alone = sum(each.alone.decided for each in of_it)
        with_facts = sum(each.with_facts.decided for each in of_it)
        asked = sum(each.told.decided for each in of_it)
        lines.append(f"{family:18} {count:2}  {alone:5}  {with_facts:10}  {asked:4}")
    lines += ["", "told what it asks, in the way of (alone in the way of):"]
    for count, alone, why in ranked(each.told for each in found):
        lines.append(f"{count:4} ({alone:2})  {why[:160]}")
    times = sorted(each.with_facts.seconds for each in found)
    if times:
        lines += ["", f"seconds: median {times[len(times) // 2]:.3f}, worst {times[-1]:.3f}"]
    return "\n".join(lines)


def as_json(found: Sequence[Counted]) -> list[dict[str, Any]]:
    """A row for each file."""
    return [
        {
            "family": each.row["family"],
            "source": each.row["source"],
            "alone": each.alone._asdict(),
            "with_facts": each.with_facts._asdict(),
            "told": each.told._asdict(),
        }
        for each in found
    ]


def texts_of(listing: Path) -> Path:
    """The folder of texts that is nearest to the list."""
    folders = [folder / TEXTS for folder in listing.resolve().parents]
    return next((folder for folder in folders if folder.is_dir()), folders[0])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.launch_files", description=__doc__)
    parser.add_argument("listing", type=Path, help="the list, as JSON lines")
    parser.add_argument("--texts", type=Path, help="where the texts lie")
    parser.add_argument("--json", action="store_true", help="print a JSON list of the files")
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.listing.read_text("utf-8").splitlines()]
    found = list(counted(rows, options.texts or texts_of(options.listing)))
    if options.json:
        json.dump(as_json(found), sys.stdout, indent=1)
        print()
    else:
        print(report(found, len(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
