"""What a run has left behind: texts that it printed."""

from typing import Annotated, Literal

from pydantic import Field

from trainfit.specs.part import Part

LogFormat = Literal[
    "axolotl",
    "dcgm",
    "deepspeed",
    "megatron",
    "megatron-bridge",
    "memory_stats",
    "memory_summary",
    "nanotron",
    "nvidia-smi",
    "out of memory",
    "primus",
    "torchtitan",
    "torchtune",
    "transformers",
    "verl",
]
MAX_TEXT_LENGTH = 8 * 1024**2
MAX_ARTIFACTS = 64


class Artifact(Part):
    """A log, or a part of one."""

    name: Annotated[str, Field(min_length=1, max_length=512)] = Field(
        ..., description="What measurements say that they are from."
    )
    text: Annotated[str, Field(max_length=MAX_TEXT_LENGTH)]
    format: LogFormat | None = Field(
        None, description="What alone is read of it. Unset: every format that a line has."
    )


class Artifacts(Part):
    """What is read for measurements."""

    artifacts: Annotated[tuple[Artifact, ...], Field(strict=False, max_length=MAX_ARTIFACTS)]
