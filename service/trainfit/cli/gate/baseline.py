"""What the same files came to before a change, as `--format json` wrote it then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.files import read_text
from trainfit.cli.gate.cases import CheckedJob, Outcome
from trainfit.documents.document import FileError
from trainfit.estimator.results import Interval


@dataclass(frozen=True, slots=True)
class _Binding:
    device_bytes: Interval


@dataclass(frozen=True, slots=True)
class _FitCheck:
    binding: _Binding | None


@dataclass(frozen=True, slots=True)
class Was:
    """A job on a card, then: as much of it as any release writes."""

    path: str
    name: str
    gpu: str
    outcome: Outcome
    fit_check: _FitCheck | None

    @property
    def needs(self) -> Interval | None:
        """What the stage that needed most took on the device."""
        binding = None if self.fit_check is None else self.fit_check.binding
        return None if binding is None else binding.device_bytes


@dataclass(frozen=True, slots=True)
class Baseline:
    """The report of an earlier run."""

    checks: list[Was]

    def paired(
        self, cases: Sequence[CheckedJob]
    ) -> tuple[list[tuple[CheckedJob, Was | None]], list[Was]]:
        """Each case with what it was, and what there is no longer. Jobs are the same by file, name
        and card; what is left over, on another card, by file and name.
        """
        found: dict[int, Was] = {}
        left = list(self.checks)
        for key in (_on_this_card, _on_any_card):
            waiting: defaultdict[tuple[str, ...], list[Was]] = defaultdict(list)
            for was in left:
                waiting[key(was.path, was.name, was.gpu)].append(was)
            for index, case in enumerate(cases):
                same = waiting[key(case.path, case.entry.name, case.gpu)]
                if index not in found and same:
                    found[index] = same.pop(0)
            left = [was for rest in waiting.values() for was in rest]
        return [(case, found.get(index)) for index, case in enumerate(cases)], left


def _on_this_card(path: str, name: str, gpu: str) -> tuple[str, ...]:
    return path, name, gpu


def _on_any_card(path: str, name: str, _: str) -> tuple[str, ...]:
    return path, name


def read_baseline(path: Path) -> Baseline:
    """A report in JSON. Raises RefusedCommandError where it is none."""
    try:
        return _BASELINE.validate_json(read_text(path))
    except FileError as error:
        raise RefusedCommandError(f"trainfit: --baseline: {path}: {error}") from None
    except ValidationError:
        words = "is no report of trainfit fit-check --format json"
        raise RefusedCommandError(f"trainfit: --baseline: {path}: {words}") from None


_BASELINE: TypeAdapter[Baseline] = TypeAdapter(Baseline)
