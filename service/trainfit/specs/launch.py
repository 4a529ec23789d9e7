"""A launch as its files and its command line say it, in place of a job."""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, WithJsonSchema, model_validator

from trainfit.specs.gpu import JobGpu
from trainfit.specs.job import EstimatorVersion, Job
from trainfit.specs.part import Part
from trainfit.specs.policy import FitCheckOptions, FitCheckRequest

LaunchFormat = Literal[
    "megatron",
    "megatron_yaml",
    "megatron_bridge",
    "deepspeed",
    "accelerate",
    "transformers",
    "llama_factory",
    "axolotl",
    "torchtitan",
    "torchtune",
    "nanotron",
    "litgpt",
    "lingua",
    "automodel",
    "llm_foundry",
    "verl",
    "primus",
    "nemo",
    "nemo_rl",
]
"""Whose keys a launch is written in."""

MAX_FILES = 16
MAX_FILE_LENGTH = 262_144
MAX_WORDS = 4096

Word = Annotated[str, Field(max_length=65_536)]


class LaunchFile(Part):
    """A file that a launch reads, or the script that starts it."""

    path: Annotated[str, Field(min_length=1, max_length=512)] = Field(
        ..., description="Where others refer to it; nothing is read from there."
    )
    content: Annotated[str, Field(max_length=MAX_FILE_LENGTH)]


class Launch(Part):
    """Launch files, a command line, or both. Nothing is run, and no other file is read."""

    format: LaunchFormat | None = Field(None, description="Unset: what the launch looks like.")
    framework_version: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        None,
        description="Release whose names and defaults hold: core_v0.13.0 of Megatron-LM, 4.48.1 of "
        "transformers, or transformers==4.48.1 trl==0.13.0. Unset: the latest that is known; where "
        "the launch has keys that only earlier ones have, all that have them.",
    )
    files: Annotated[tuple[LaunchFile, ...], Field(strict=False, max_length=MAX_FILES)] = ()
    argv: Word | Annotated[tuple[Word, ...], Field(strict=False, max_length=MAX_WORDS)] | None = (
        Field(None, description="A command line, as one text or in words.")
    )
    env: Annotated[dict[str, Word], Field(max_length=256)] = Field(
        default_factory=dict, description="Environment variables that the launch is given."
    )
    overrides: dict[str, Any] = Field(
        default_factory=dict,
        description="A part of a job that is merged over what is read (RFC 7396).",
    )
    gpu: JobGpu | None = Field(
        None, description="Catalogue name or alias, or an object that says name or memory_bytes."
    )
    accept_unsupported: Annotated[tuple[str, ...], Field(strict=False, max_length=256)] = Field(
        (),
        description="Keys that are not modelled and that the caller takes to change nothing; * "
        "stands for all. Without, a verdict is unknown.",
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.files and self.argv is None:
            raise ValueError("give files, argv or both")
        paths = [file.path for file in self.files]
        if len(set(paths)) < len(paths):
            raise ValueError("two files have the same path")
        return self


class LaunchedJob(Part):
    """A launch in the place of a job."""

    launch: Launch
    estimator_version: EstimatorVersion = None


class LaunchedFitCheck(FitCheckOptions, LaunchedJob):
    """A launch in the place of a job and its GPU, and the policy."""


def which(kind: type[Job], launched: type[LaunchedJob]) -> Discriminator:
    """Tells a job from a launch in its place by what there is."""

    def tag(value: Any) -> str:
        launch = isinstance(value, launched) or (isinstance(value, dict) and "launch" in value)
        return (launched if launch else kind).__name__

    return Discriminator(tag)


JobOrLaunch = Annotated[
    Annotated[Job, Tag("Job")] | Annotated[LaunchedJob, Tag("LaunchedJob")],
    which(Job, LaunchedJob),
]
FitCheckOrLaunch = Annotated[
    Annotated[FitCheckRequest, Tag("FitCheckRequest")]
    | Annotated[LaunchedFitCheck, Tag("LaunchedFitCheck")],
    which(FitCheckRequest, LaunchedFitCheck),
]
"""A question about a job, or about a launch in its place."""
AS_LAUNCH = WithJsonSchema({"allOf": [{"$ref": "#/components/schemas/Launch"}]})
"""Describes a value that is a Launch in JSON, but not read as one."""


LaunchTarget = Literal["megatron-args", "torchtitan", "deepspeed", "accelerate"]
"""In whose keys a job can be written."""


class ToLaunch(Part):
    """A job that is to be written in the keys of its framework."""

    job: Job
    to: LaunchTarget = Field(..., description="Whose keys.")
