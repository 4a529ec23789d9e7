"""What is priced, for every release that a launch can be of."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from trainfit.estimator.results import Estimate, Needs
from trainfit.estimator.span import spanned_estimate, spanned_needs
from trainfit.launch.variants import Variant
from trainfit.resolve.findings import RefusedError
from trainfit.specs.job import Job

Result = TypeVar("Result", Estimate, Needs)


def estimated(
    job: Job, variants: Sequence[Variant], estimate: Callable[[Job], Estimate]
) -> Estimate:
    """The estimate of a job, with bounds that span its variants. Raises what `estimate` does."""
    result = estimate(job)
    return spanned_estimate(result, _each(job, variants, estimate)) if variants else result


def needed(job: Job, variants: Sequence[Variant], needs: Callable[[Job], Needs]) -> Needs:
    """The part of an estimate that decides, with bounds that span the variants of a job."""
    result = needs(job)
    return spanned_needs(result, [*_each(job, variants, needs).values()]) if variants else result


def _each(
    job: Job, variants: Sequence[Variant], price: Callable[[Job], Result]
) -> Mapping[str, Result]:
    """Each variant by its releases. One that contradicts itself is none that runs."""
    found = {}
    for variant in variants:
        try:
            found[variant.releases] = price(variant.of(job))
        except RefusedError as refused:
            if any(finding.code == "not_modelled" for finding in refused.findings):
                raise
    return found
