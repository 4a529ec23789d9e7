"""From a job and a card to the verdict that is sent: one path, for HTTP and the terminal."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any

from trainfit import __version__
from trainfit.decisions.fit_check import FitCheck, NotModelled, fit_check
from trainfit.decisions.quantities import plain
from trainfit.decisions.room import room_on
from trainfit.decisions.search.enough import enough_gpus
from trainfit.decisions.suggestions import OFFERED
from trainfit.decisions.verdict import Verdict, standing
from trainfit.estimator.results import Estimate
from trainfit.launch.reading import LaunchReading, ReadLaunch
from trainfit.questions.answers import Sent, html_table, stages_table
from trainfit.questions.digest import catalogue_version, normalised, request_digest
from trainfit.questions.dimensions import Find, from_package
from trainfit.questions.estimate import fields_of
from trainfit.questions.open_facts import asked_for, same_verdict, shown, tried, with_open_facts
from trainfit.questions.pricing import Pricing
from trainfit.questions.spanning import spanning
from trainfit.specs.job import AS_JOB, Job
from trainfit.specs.policy import FitCheckOptions, FitCheckRequest

SUGGESTING_WORK = 1_000_000
"""Work for changes that would help, about a second: a job with a long pipeline is offered
those of the first that there are.
"""

Changes = tuple[Callable[[Job], Estimate], Callable[[Job], Estimate]]
"""What prices changes that are offered, and what prices those that may be."""


@dataclass(frozen=True, slots=True)
class FitCheckAnswer(FitCheck, Sent):
    """A verdict with what it is a function of. Equal digests have equal answers.

    `request_digest` is a SHA-256 of the policy and the question about the normalised `job`,
    the source of its model and both versions; `job` is the request with every default in its
    place. `launch` tells how it was read, where a launch stood in its place.
    """

    estimator_version: str
    catalogue_version: str
    request_digest: str
    job: Annotated[dict[str, Any], AS_JOB]
    launch: ReadLaunch | None

    def _repr_html_(self) -> str:
        """The verdict and the stages, for a notebook."""
        caption = plain(self.verdict)
        if self.estimate is None:
            rows = [[each.pointer, each.message] for each in self.not_modelled]
            return html_table(caption, ["where", "not modelled"], rows)
        return stages_table(caption, self.estimate)


def check_fit(
    request: FitCheckRequest,
    find: Find = from_package,
    pricing: Pricing | None = None,
    reading: LaunchReading | None = None,
    *,
    changes: Changes | None = None,
) -> FitCheckAnswer:
    """The verdict on a job, as it is sent. Errors are those of `plan_of`; a job that is refused
    for nothing but what is not modelled is answered. `changes` prices changes to it in the place of
    `pricing`; other numbers of GPUs are not tried then.
    """
    pricing = pricing or Pricing(find, replay=request.replay)
    if reading is not None and reading.left_open is not None:
        return _whatever_is_open(request, reading, find, pricing, changes)
    return _check(request, find, pricing, reading, changes)


def _whatever_is_open(
    request: FitCheckRequest,
    reading: LaunchReading,
    find: Find,
    pricing: Pricing,
    changes: Changes | None,
) -> FitCheckAnswer:
    """The verdict that holds at every value of the facts that a launch leaves open; `unknown`,
    with what they decide, where there is none. Of all releases that a launch can be of, allocators
    are replayed of those that are at first sight what all together are; of none whose tensors alone
    do not fit, since an allocator reserves no less.
    """

    def decided(asked: FitCheckRequest, case: LaunchReading, replay: bool) -> tuple[Verdict, int]:
        room = room_on(asked.gpu, asked.policy)
        look = partial(pricing.estimate, replay=False)
        estimate = spanning(case, look)(asked)
        if replay and (together := room.verdict(estimate)) != "does_not_fit":

            def price(job: Job) -> Estimate:
                seen = look(job)
                return pricing.estimate(job) if room.verdict(seen) == together else seen

            estimate = spanning(case, price)(asked)
        verdict = standing(room.verdict(estimate), (each.direction for each in case.unread()))
        return verdict, estimate.binding.device_bytes.high

    cases = tried(request, reading, pricing.plan_of, decided)
    one = shown(cases)
    missing = [] if same_verdict(cases) else list(asked_for(reading.open, cases))
    answer = _check(one.request, find, pricing, one.reading, changes, missing)
    if missing or answer.estimate is None:
        return answer
    return replace(answer, estimate=with_open_facts(answer.estimate, reading.open, one.values))


def _check(
    request: FitCheckRequest,
    find: Find,
    pricing: Pricing,
    reading: LaunchReading | None,
    changes: Changes | None,
    missing: Sequence[NotModelled] = (),
) -> FitCheckAnswer:
    """The verdict on a job of which so much is not known."""
    suggesting, scouting = changes or (
        pricing.within(SUGGESTING_WORK),
        pricing.within(SUGGESTING_WORK, replay=False),
    )
    decision = fit_check(
        request,
        spanning(reading, pricing.estimate),
        [*missing, *_unread(reading)],
        suggesting=spanning(reading, suggesting),
        scouting=spanning(reading, scouting),
        time=pricing.step_time,
    )
    if changes is None and _wants_more_gpus(request, decision):
        assert decision.estimate is not None
        model = find(request.model).spec
        more = enough_gpus(request, decision.estimate, model, pricing.plan_of, pricing.memo)
        if more is not None:
            decision = replace(decision, suggestions=[more, *decision.suggestions][:OFFERED])
    plan = pricing.plan_of(request) if decision.estimate is not None else None
    document = normalised(request, plan)
    said = request.model_dump(mode="json", include=set(FitCheckOptions.model_fields))
    launch = reading.launch if reading is not None else None
    if launch is not None:
        said["launch"] = asdict(launch)
    source = plan.source if plan is not None else find(request.model).source
    return FitCheckAnswer(
        **fields_of(decision),
        estimator_version=__version__,
        catalogue_version=catalogue_version(),
        request_digest=request_digest("fit-check", document, said, source),
        job=document,
        launch=launch,
    )


def _wants_more_gpus(request: FitCheckRequest, decision: FitCheck) -> bool:
    """Whether nothing that is suggested would make it fit."""
    wrong = decision.verdict == "does_not_fit" and request.suggest
    modelled = decision.estimate is not None and not decision.not_modelled
    return wrong and modelled and all(each.verdict != "fits" for each in decision.suggestions)


def _unread(reading: LaunchReading | None) -> list[NotModelled]:
    """What a launch says and nobody models."""
    if reading is None:
        return []
    return [
        NotModelled(f"/launch{each.place.pointer}", each.message, each.place.line, each.direction)
        for each in reading.unread()
    ]
