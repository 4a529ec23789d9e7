"""An estimate as it is sent. What is only looked at in this process does without it."""

from dataclasses import dataclass
from typing import Annotated, Any

from trainfit.estimator.results import Estimate
from trainfit.launch.reading import ReadLaunch
from trainfit.questions.answers import Sent, stages_table
from trainfit.questions.summary import Summary, SummaryLines
from trainfit.specs.job import AS_JOB
from trainfit.steptime import Seconds, Step


@dataclass(frozen=True, slots=True)
class EstimateAnswer(Estimate, Sent):
    """An estimate with what it is a function of. Equal digests have equal answers.

    `request_digest` is a SHA-256 of the question about the normalised `job`, the source of its
    model and both versions; `job` is the request with every default in its place. `launch` tells
    how it was read, where a launch stood in its place.

    `step_seconds` is how long a step takes, and `step` what that is made of; both are null where
    `untimed` says why it is not known. `misaligned` names sizes that GPUs multiply slowly, which
    its time does not follow.

    `summary` has the line that Megatron logs, of the stage that needs most.
    """

    step_seconds: Seconds | None
    step: Step | None
    untimed: str | None
    misaligned: list[str]
    summary: SummaryLines

    catalogue_version: str
    request_digest: str
    job: Annotated[dict[str, Any], AS_JOB]
    launch: ReadLaunch | None

    def in_brief(self, summary: Summary) -> str:
        """The estimate in one line, or in one number."""
        if summary == "total":
            return str(self.binding.device_bytes.expected)
        return self.summary.mb if summary == "mb" else self.summary.gb

    def _repr_html_(self) -> str:
        """The stages, for a notebook."""
        return stages_table(self.model.name or self.model.model_type, self)
