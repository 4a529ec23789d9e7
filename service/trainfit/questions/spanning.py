"""What is priced, within the bounds of all that its launch leaves open."""

from collections.abc import Callable

from trainfit.estimator.results import Estimate
from trainfit.launch.reading import LaunchReading
from trainfit.questions.bounds import bounded_estimate
from trainfit.questions.releases import estimated
from trainfit.specs.job import Job


def spanning(
    reading: LaunchReading | None, price: Callable[[Job], Estimate]
) -> Callable[[Job], Estimate]:
    """What prices a job, spanning the releases that its launch can be of, and what options do that
    nobody models.
    """
    if reading is None:
        return price
    read = reading.launch
    return lambda job: bounded_estimate(
        job, read.account.bounded, lambda each: estimated(each, read.variants, price)
    )
