"""What a framework says of a job's plan. Each framework has a room beside this file with a module
`framework` that does; the registry has a line for each.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from trainfit.resolve.findings import Findings
from trainfit.resolve.plan import ModelSource, Plan, TargetGpu
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.job import Job
from trainfit.specs.parallelism import PipelineSchedule, ShardingStrategy

SplitLayers = Callable[[ModelSpec, int], tuple[int, ...] | None]
"""Layers of each of so many virtual stages of a model; None where they are shared out evenly."""


@dataclass(frozen=True, slots=True)
class Conventions:
    """What a framework does where a job leaves its layout open, or other frameworks do otherwise.

    `etp` is that of a model without experts, `etp_of_experts` of one with them. Layers are shared
    out evenly unless a `split` says otherwise.
    """

    sharding: ShardingStrategy
    etp: int = 1
    etp_of_experts: int = 1
    schedule: PipelineSchedule = "1f1b"
    """Of stages of one chunk."""
    shares_sequence: bool = True
    """Tensor-parallel ranks share out the sequence between the blocks."""
    trains_experts_whole: bool = False
    """Experts are trained with a sequence that tensor-parallel ranks have whole."""
    repeats_kv: bool = False
    """Several ranks have the same key and value heads where there are fewer heads than ranks."""
    divides_embedding: bool = True
    """Tensor-parallel ranks share the vocabulary of the embedding."""
    accumulates: bool = False
    """Gradients of several micro-batches are meant even where there is no pipeline."""
    split: SplitLayers | None = None


class FrameworkResolver(Protocol):
    """A framework, to whoever resolves a job of it."""

    def conventions(self, job: Job) -> Conventions: ...

    def not_modelled(self, job: Job) -> Iterator[tuple[str, str]]:
        """Pointers to what changes memory and has no model, with its name: besides the fields that
        say themselves which frameworks honour them.
        """

    def plan(
        self, job: Job, model: ModelSpec, source: ModelSource, gpu: TargetGpu, findings: Findings
    ) -> Plan:
        """The Plan of a job; what is inconsistent is added to the findings, and refused."""
