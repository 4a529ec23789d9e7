"""One run, as all that it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from trainfit.launch.draft import Draft
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.releases import Releases
from trainfit.launch.transformers.source import TrainerSource

Kind = Literal[
    "trainer",
    "sft",
    "dpo",
    "grpo",
    "kto",
    "orpo",
    "reward",
    "pairs",
    "own_pairs",
    "own_kto",
    "alone",
    "cached",
    "rewards",
    "values",
    "policy",
    "actor",
    "other",
    "script",
]
"""Whose loop trains: Trainer's own, one of TRL's (CPO is as ORPO), another of its kind, or that of
a script: of pairs beside a reference model, which is its own base where it adapts one
(`own_pairs`), of single samples beside one (`own_kto`), of pairs `alone`, of pairs whose
reference is `cached` before, of rewards, of `values` beside logits, of a `policy` that another
engine generates with, or of one whose log-probabilities are OpenRLHF's `actor`'s.
"""

IN_PAIRS: tuple[Kind, ...] = (
    "dpo",
    "orpo",
    "reward",
    "pairs",
    "own_pairs",
    "alone",
    "cached",
    "rewards",
    "values",
)
"""Loops whose micro-batch is counted in pairs of samples."""


class Trainer(NamedTuple):
    """The loop, and what names it, if anything does."""

    kind: Kind
    named: Setting | None = None


@dataclass(frozen=True, slots=True)
class TrainerRun:
    """A run as its three sources tell of it; `deepspeed` is None where it has no such config."""

    draft: Draft
    program: TrainingProgram
    trainer: Trainer
    arguments: TrainerSource
    accelerate: TrainerSource
    deepspeed: TrainerSource | None
    releases: Releases
    mixed: tuple[str, Setting | None] | None = None
    """The mixed precision of a tool that has switches of its own, and what says so."""
    known: bool = False
    """Whether its script is one whose source is known."""


def is_trl(run: TrainerRun) -> bool:
    """Whether the defaults are those of TRL's configs."""
    return of_trl(run.trainer)


def of_trl(trainer: Trainer) -> bool:
    """Whether a loop is TRL's."""
    return trainer.kind in ("sft", "dpo", "grpo", "kto", "orpo", "reward")


def need(draft: Draft, pointer: str, message: str, setting: Setting | None = None) -> None:
    """Complain where nothing sets this field, and say how it is given."""
    draft.require(pointer, f"{message}; give {pointer} in overrides", setting)
