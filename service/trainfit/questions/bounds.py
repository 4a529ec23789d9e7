"""What is priced, within the bounds of the options of a launch that are not modelled."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, prod
from typing import Any, TypeVar

from pydantic import ValidationError

from trainfit.estimator.overhead import most_slack
from trainfit.estimator.results import Estimate, Needs
from trainfit.estimator.span import UnmodelledRange, reaching_estimate, reaching_needs
from trainfit.launch.account import Bounded
from trainfit.launch.overriding import merged, overridden
from trainfit.resolve.findings import Finding, RefusedError
from trainfit.resolve.gpu import gpu_of
from trainfit.specs.job import Job

MICRO_BATCH = "/training/micro_batch_size"
MICRO_BATCHES = "/training/num_microbatches"
SEVERAL = 2
"""Micro-batches, so that gradients of one wait while the next runs."""

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
    """The part of an estimate that decides, within the bounds of these options."""
    result = needs(job)
    return reaching_needs(result, _reach(job, options, needs)) if options else result


def _reach(
    job: Job, options: Sequence[Bounded], price: Callable[[Job], Result]
) -> UnmodelledRange[Result]:
    """All that moves a step one way goes together, since what one makes larger another may
    multiply; a phase apart from it has that, and over it what it is.
    """

    def ends(moving: Sequence[Bounded]) -> list[Result]:
        step: dict[str, Any] = _together([each for each in moving if not each.apart], job)
        phases: list[dict[str, Any]] = [_together([each], job) for each in moving if each.apart]
        patches = [step, *(merged(step, each) for each in phases)]
        return [_priced(job, patch, moving, price) for patch in patches if patch]

    lowering = [each for each in options if each.direction != "raises"]
    raising = [each for each in options if each.direction != "lowers"]
    return UnmodelledRange(
        ends(lowering),
        ends(raising),
        _most(lowering, job),
        _most(raising, job),
        most_slack(
            sum(each.bytes for each in raising if not each.outside),
            job.framework.expandable_segments,
        ),
    )


def _most(options: Sequence[Bounded], job: Job) -> int:
    """Bytes that they move the peak besides; of a share, of the memory of the job's GPU. Raises
    RefusedError where none is named.
    """
    memory = gpu_of(job.gpu).memory_bytes
    for option in options:
        if option.share and not memory:
            raise _refused(option, "no GPU is named")
    return sum(each.bytes + ceil(each.share * memory) for each in options)


def _together(options: Sequence[Bounded], job: Job) -> dict[str, Any]:
    """The fields of all options. Raises RefusedError where two give one another value."""
    patch: dict[str, Any] = {}
    samples = prod(option.samples for option in options)
    if samples > 1:
        _put(patch, MICRO_BATCH, job.training.micro_batch_size * samples)
        if job.training.global_batch_size is not None:  # which the larger one need not divide
            _put(patch, MICRO_BATCHES, SEVERAL)
    for option in options:
        for became in option.within:
            if _put(patch, became.pointer, became.value) not in (None, became.value):
                raise _refused(option, f"another option moves {became.pointer} as well")
    return patch


def _priced(
    job: Job, patch: Mapping[str, Any], options: Sequence[Bounded], price: Callable[[Job], Result]
) -> Result:
    """What the job needs with these fields. Raises RefusedError where it does not stand them."""
    try:
        return price(with_fields(job, patch))
    except ValidationError as error:
        raise _refused(options[0], str(error)) from None
    except RefusedError as refused:
        raise _refused(options[0], _messages(refused.findings)) from None


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
