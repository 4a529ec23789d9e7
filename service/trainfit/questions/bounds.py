"""What is priced, within the bounds of the options of a launch that are not modelled."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from trainfit.estimator.results import Direction, Estimate, Needs
from trainfit.estimator.span import Reach, reaching_estimate, reaching_needs
from trainfit.launch.account import Bounded
from trainfit.launch.overriding import overridden
from trainfit.resolve.findings import Finding, RefusedError
from trainfit.specs.job import Job

Result = TypeVar("Result", Estimate, Needs)
AnyJob = TypeVar("AnyJob", bound=Job)


def bounded_estimate(
    job: Job, options: Sequence[Bounded], estimate: Callable[[Job], Estimate]
) -> Estimate:
    """The estimate of a job, with bounds that hold whatever these options do. Raises what
    `estimate` does, and RefusedError where the job does not stand what bounds an option.
    """
    result = estimate(job)
    if not options:
        return result
    named = [each.where for each in options]
    return reaching_estimate(result, _reach(job, options, estimate), named)


def bounded_needs(job: Job, options: Sequence[Bounded], needs: Callable[[Job], Needs]) -> Needs:
    """The same of the part of an estimate that decides."""
    result = needs(job)
    return reaching_needs(result, _reach(job, options, needs)) if options else result


def _reach(job: Job, options: Sequence[Bounded], price: Callable[[Job], Result]) -> Reach[Result]:
    """All that lowers the peak goes together, and so does all that raises it: what one makes
    larger another may multiply.
    """
    lowering = [each for each in options if each.direction != "raises"]
    raising = [each for each in options if each.direction != "lowers"]
    return Reach(
        _at_the_end(job, lowering, price, "lowers"),
        _at_the_end(job, raising, price, "raises"),
        sum(each.bytes for each in lowering),
        sum(each.bytes for each in raising),
    )


def _at_the_end(
    job: Job,
    options: Sequence[Bounded],
    price: Callable[[Job], Result],
    direction: Direction,
) -> Result | None:
    """What the job needs where all options have moved it as far as they can."""
    fields = [(each, became.pointer, became.value) for each in options for became in each.within]
    if not fields:
        return None
    patch: dict[str, Any] = {}
    for option, pointer, value in fields:
        if _put(patch, pointer, value) not in (None, value):
            raise _refused(option, f"another option {direction} the peak by the same field")
    try:
        return price(with_fields(job, patch))
    except ValidationError as error:
        raise _refused(fields[0][0], str(error)) from None
    except RefusedError as refused:
        raise _refused(fields[0][0], _messages(refused.findings)) from None


def with_fields(job: AnyJob, patch: Mapping[str, Any]) -> AnyJob:
    """The job with these fields, and without those that cannot stand beside them."""
    document = job.model_dump(
        mode="json", exclude_unset=True, include={"model", "parallelism", "training", "framework"}
    )
    changed, _ = overridden(document, patch)
    given = {name: getattr(job, name) for name in job.model_fields_set}
    return type(job).model_validate(given | changed)


def _put(patch: dict[str, Any], pointer: str, value: Any) -> Any:
    """Set a field of a patch, and tell what was there."""
    *parents, name = pointer.strip("/").split("/")
    for parent in parents:
        patch = patch.setdefault(parent, {})
    before = patch.get(name)
    patch[name] = value
    return before


def _refused(option: Bounded, why: str) -> RefusedError:
    """What bounds this option cannot be priced, so that nothing bounds it."""
    message = f"{option.where}: {option.why}; what bounds it is not known: {why}"
    return RefusedError((Finding("", "not_modelled", message),))


def _messages(findings: Iterable[Finding]) -> str:
    return "; ".join(each.message for each in findings)
