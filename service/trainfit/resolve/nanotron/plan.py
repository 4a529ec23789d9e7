"""The plan of a job of nanotron."""

from dataclasses import dataclass
from typing import Literal

from trainfit.resolve.plan import Plan
from trainfit.specs.framework import Nanotron


@dataclass(frozen=True, slots=True)
class NanotronStep:
    """How the arithmetic of one step is done. Weights and activations are bf16."""

    accumulates_in_fp32: bool
    """Gradients are added up in fp32, beside fp32 master weights; else all states are bf16."""
    optimizer: Literal["adam", "sgd"]
    recomputes_layers: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NanotronPlan(Plan):
    """A plan for nanotron."""

    framework: Nanotron
    step: NanotronStep

    @property
    def shares_states(self) -> bool:
        """ZeRO stage 1: data-parallel ranks share out master weights and moments."""
        return self.layout.optimizer_shards > 1

    @property
    def reduces_in_buckets(self) -> bool:
        """PyTorch's DDP reduces gradients, as it does unless ZeRO shares out what they are added up
        for in fp32. Source: trainer.py (_init_model).
        """
        return self.layout.dp > 1 and not (self.shares_states and self.step.accumulates_in_fp32)
