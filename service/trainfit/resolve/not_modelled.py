"""Options that change memory and are not modelled: refused by name rather than guessed."""

from itertools import chain

from trainfit.resolve.findings import Findings
from trainfit.resolve.honoured import refused
from trainfit.resolve.registry import framework_of
from trainfit.specs.job import Job


def refuse_not_modelled(job: Job, findings: Findings) -> None:
    """A finding for every option of the job that the estimator cannot estimate."""
    for pointer, what in chain(refused(job), framework_of(job).not_modelled(job)):
        findings.add(pointer, "not_modelled", f"{what} changes memory and is not modelled yet")
    findings.refuse()
