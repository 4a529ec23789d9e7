"""Losses as TRL's own trainers compute them: their code is run as it is, without what surrounds it.

TRL is in no lock: rows that need it are made where it is installed beside the oracle's own
environment, and `make oracle` leaves them out.
"""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import torch


def loss_of_trainer(run: Any, ids: Any) -> tuple[Any, Any]:
    """(loss, what the caller may keep) of a batch of samples, the chosen ones first. No sample is
    shorter than another, so that nothing has to be masked.
    """
    from trl import RewardTrainer

    trainer = stub(RewardTrainer, args=SimpleNamespace(center_rewards_coefficient=None))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return trainer.compute_loss(without_mask(run), inputs), None


def stub(kind: type, **given: Any) -> Any:
    """A trainer that nobody has set up, on one device."""
    trainer: Any = object.__new__(kind)
    alone = SimpleNamespace(device="cpu", gather=same, gather_for_metrics=same)
    settings = {
        "model": SimpleNamespace(training=True),
        "accelerator": alone,
        "_total_train_tokens": 0,
        "_tp_size": 1,
        "_metrics": {"train": defaultdict(list)},
    }
    trainer.__dict__.update(settings | given)
    return trainer


def same(value: Any) -> Any:
    return value


def without_mask(run: Any) -> Any:
    """The model, sent no mask."""

    def called(**inputs: Any) -> Any:
        return run(**{name: each for name, each in inputs.items() if name != "attention_mask"})

    return called
