"""A verdict on a launch that leaves facts open: the one that it has whatever they are, if any."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from pydantic import ValidationError

from trainfit.decisions.fit_check import NotModelled
from trainfit.decisions.quantities import plain
from trainfit.decisions.verdict import Verdict
from trainfit.estimator.assumptions import OPEN_FACTS
from trainfit.estimator.results import Assumption, Estimate
from trainfit.launch.open_facts import LONGEST, RUN, SEQ_LENGTH, SHORTEST, OpenFact, Values
from trainfit.launch.reading import LaunchReading
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.plan import Plan
from trainfit.specs.policy import FitCheckOptions, FitCheckRequest

Decide: TypeAlias = Callable[[FitCheckRequest, LaunchReading, bool], tuple[Verdict, int]]
"""The verdict on a case and the most bytes that it may need on a GPU, its allocator replayed or
not.
"""


class TriedFacts(NamedTuple):
    """A value for each open fact, the launch with it, the verdict on that, the most bytes that it
    may need on a GPU, and whether its allocator was replayed.
    """

    values: Values
    request: FitCheckRequest
    reading: LaunchReading
    verdict: Verdict
    bytes: int
    replayed: bool


def tried(
    request: FitCheckRequest,
    reading: LaunchReading,
    plan_of: Callable[[FitCheckRequest], Plan],
    decide: Decide,
) -> list[TriedFacts]:
    """Each case that is consistent. Of several facts none any more once verdicts differ, and of
    lengths the ends, since a longer sample needs no less. Allocators are replayed where a verdict
    turns on it. Raises RefusedError of the last where none is consistent.
    """
    cases = _looked_at(request, reading, plan_of, decide)
    if same_verdict(cases) is None:
        return [
            _replayed(case, decide) if _is_an_end(cases, number) else case
            for number, case in enumerate(cases)
        ]
    one = shown(cases)
    if _replayed(one, decide).verdict == one.verdict:
        return cases
    return [_replayed(case, decide) for case in cases]


def _looked_at(
    request: FitCheckRequest,
    reading: LaunchReading,
    plan_of: Callable[[FitCheckRequest], Plan],
    decide: Decide,
) -> list[TriedFacts]:
    """Each case by a first look at it, and what is tight at that with its allocator replayed."""
    # A command about a job in its own words does without the tables of all formats.
    from trainfit.launch.read import read_cases

    assert reading.left_open is not None
    found: list[TriedFacts] = []
    refused: Exception | None = None
    several = len(reading.open) > 1
    positions: int | None = None

    def lies_between(values: Values) -> bool:
        length = values.get(SEQ_LENGTH)
        return several and length is not None and SHORTEST < length < (positions or LONGEST)

    for values, case in read_cases(reading.left_open, reading.open, lies_between):
        try:
            asked = _asked(request, case)
            positions = plan_of(asked).model.max_position_embeddings
            if _is_too_long(values, positions):
                continue
            seen = TriedFacts(values, asked, case, *decide(asked, case, False), replayed=False)
            found.append(_replayed(seen, decide) if seen.verdict == "tight" else seen)
        except (RefusedError, ValidationError) as error:
            refused = error
        if several and found and found[-1].verdict != found[0].verdict:
            break
    if not found and refused is not None:
        raise refused
    return found


def _replayed(case: TriedFacts, decide: Decide) -> TriedFacts:
    """The case as its allocator decides it."""
    if case.replayed:
        return case
    verdict, most = decide(case.request, case.reading, True)
    return case._replace(verdict=verdict, bytes=most, replayed=True)


def _is_an_end(cases: Sequence[TriedFacts], number: int) -> bool:
    """Whether a case stands beside one that ends otherwise."""
    beside = cases[max(0, number - 1) : number + 2]
    return any(each.verdict != cases[number].verdict for each in beside)


def shown(cases: Sequence[TriedFacts]) -> TriedFacts:
    """The case whose figures stand for all: of what fits the one that needs most, else the last. Of
    runs, whose order says nothing, the one that needs most.
    """
    if RUN in cases[0].values:
        return max(cases, key=lambda each: each.bytes)
    return cases[0] if cases[0].verdict == "fits" else cases[-1]


def same_verdict(cases: Sequence[TriedFacts]) -> Verdict | None:
    """The verdict that all have; None where they differ."""
    verdicts = {each.verdict for each in cases}
    return cases[0].verdict if len(verdicts) == 1 else None


def with_open_facts(estimate: Estimate, facts: Sequence[OpenFact], values: Values) -> Estimate:
    """The estimate of one case, with the assumption that names it."""
    of_it = " and ".join(fact.said(f"{values[fact.pointer]:,}") for fact in facts)
    assumption = Assumption(OPEN_FACTS.id, f"{OPEN_FACTS.text} Here: {of_it}.")
    return replace(estimate, assumptions=[*estimate.assumptions, assumption])


def asked_for(facts: Sequence[OpenFact], cases: Sequence[TriedFacts]) -> Iterator[NotModelled]:
    """Each open fact, how it is given, and what is known meanwhile."""
    for fact in facts:
        meanwhile = f": {_ranges(fact, cases)}" if len(facts) == 1 else ""
        yield NotModelled(f"/launch{fact.place}", f"{fact.asks}{meanwhile}")


def _ranges(fact: OpenFact, cases: Sequence[TriedFacts]) -> str:
    """Each verdict with the values that have it, in a row."""
    runs: list[tuple[Verdict, list[int]]] = []
    for each in cases:
        value = each.values[fact.pointer]
        if runs and runs[-1][0] == each.verdict:
            runs[-1][1].append(value)
        else:
            runs.append((each.verdict, [value]))
    said = []
    for verdict, values in runs:
        span = f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"
        said.append(f"{plain(verdict)} with {fact.said(span)}")
    return ", ".join(said)


def _asked(request: FitCheckRequest, case: LaunchReading) -> FitCheckRequest:
    """The question about a case."""
    options: Mapping[str, object] = {
        name: getattr(request, name)
        for name in (*FitCheckOptions.model_fields, "estimator_version")
        if name in request.model_fields_set and name not in case.job
    }
    return FitCheckRequest.model_validate({**case.job, **options})


def _is_too_long(values: Values, positions: int | None) -> bool:
    """Whether a length that is tried is more than the model has positions for, and not the first
    that is.
    """
    length = values.get(SEQ_LENGTH)
    return length is not None and positions is not None and length >= 2 * positions
