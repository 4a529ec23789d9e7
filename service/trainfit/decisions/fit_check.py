"""Whether a job fits its card, by how much, what would help, and what the most is that fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainfit.decisions.limits import Largest, largest
from trainfit.decisions.room import Room, room_on
from trainfit.decisions.suggestions import Suggestion, Time, suggestions
from trainfit.decisions.verdict import Verdict, standing
from trainfit.estimator.results import Binding, Direction, Estimate, Interval
from trainfit.estimator.span import uncalibrated
from trainfit.resolve.findings import RefusedError
from trainfit.specs.job import Job
from trainfit.specs.policy import FitCheckRequest, Override, Policy


@dataclass(frozen=True, slots=True)
class StageMargin:
    """Usable bytes less what a stage needs on the device: by its high, expected and low bound.

    It is negative where memory is missing.
    """

    pp_rank: int
    margin_bytes: Interval


@dataclass(frozen=True, slots=True)
class AppliedPolicy:
    """What the caller asked for, as it was applied. `overridden` are the overrides that let this
    verdict pass.
    """

    headroom_bytes: int
    reserved_other_bytes: int
    allow: list[Override]
    overridden: list[Override]


@dataclass(frozen=True, slots=True)
class NotModelled:
    """Something that changes memory and is not counted, and where the job or the launch asks for
    it. `line` counts from 1 where the pointer leads to a file. `direction` is that in which it
    moves the peak, nobody knows how far.
    """

    pointer: str
    message: str
    line: int | None = None
    direction: Direction = "either"


@dataclass(frozen=True, slots=True)
class FitCheck:
    """A verdict with everything it rests on. `passes` is the verdict under the caller's policy;
    `uncalibrated_verdict` what it would be by published runs alone, where a calibration of the
    cluster was used.

    Without an estimate, where an option is not modelled, there are no stages and no binding.
    """

    verdict: Verdict
    uncalibrated_verdict: Verdict | None
    passes: bool
    capacity_bytes: int
    usable_bytes: int
    policy: AppliedPolicy
    binding: Binding | None
    stages: list[StageMargin]
    not_modelled: list[NotModelled]
    suggestions: list[Suggestion]
    limits: Largest
    estimate: Estimate | None


def fit_check(
    request: FitCheckRequest,
    price: Callable[[Job], Estimate],
    unread: Sequence[NotModelled] = (),
    suggesting: Callable[[Job], Estimate] | None = None,
    scouting: Callable[[Job], Estimate] | None = None,
    time: Time | None = None,
) -> FitCheck:
    """The verdict on a job. `price` estimates a job or raises RefusedError, which propagates
    unless all that is wrong is that something is not modelled. Of a job that leaves out what is
    `unread`, only that is certain which this cannot change. `suggesting` prices suggestions, and
    `scouting` what may become one, where they are given; `time` tells how long each takes.
    """
    room = room_on(request.gpu, request.policy)
    try:
        estimate = price(request)
    except RefusedError as refused:
        if any(finding.code != "not_modelled" for finding in refused.findings):
            raise
        missing = [NotModelled(each.pointer, each.message) for each in refused.findings]
        return _answer(request, room, "unknown", [*unread, *missing])
    directions = [each.direction for each in unread]
    verdict = standing(room.verdict(estimate), directions)
    bare = uncalibrated(estimate)
    helpful: list[Suggestion] = []
    if request.suggest and not unread and verdict in ("tight", "does_not_fit"):
        pricing = suggesting or price
        helpful = suggestions(request, estimate, pricing, scouting or pricing, room, time)
    return _answer(
        request,
        room,
        verdict,
        [
            *unread,
            *(NotModelled("/model", warning, direction="raises") for warning in estimate.warnings),
        ],
        estimate,
        helpful,
        largest(request, estimate, price, room),
        standing(room.verdict(bare), directions) if bare is not None else None,
    )


def _answer(
    request: FitCheckRequest,
    room: Room,
    verdict: Verdict,
    missing: list[NotModelled],
    estimate: Estimate | None = None,
    helpful: list[Suggestion] | None = None,
    limits: Largest | None = None,
    bare: Verdict | None = None,
) -> FitCheck:
    policy = _applied(request.policy, room, verdict)
    stages = estimate.stages if estimate is not None else []
    return FitCheck(
        verdict=verdict,
        uncalibrated_verdict=bare,
        passes=verdict == "fits" or bool(policy.overridden),
        capacity_bytes=room.capacity_bytes,
        usable_bytes=room.usable_bytes,
        policy=policy,
        binding=estimate.binding if estimate is not None else None,
        stages=[StageMargin(each.pp_rank, room.margin(each.device_bytes)) for each in stages],
        not_modelled=missing,
        suggestions=helpful or [],
        limits=limits or Largest(None, None),
        estimate=estimate,
    )


def _applied(policy: Policy, room: Room, verdict: Verdict) -> AppliedPolicy:
    return AppliedPolicy(
        headroom_bytes=room.headroom_bytes,
        reserved_other_bytes=room.reserved_other_bytes,
        allow=list(policy.allow),
        overridden=[override for override in policy.allow if override.verdict == verdict],
    )
