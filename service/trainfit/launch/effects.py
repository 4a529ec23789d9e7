"""What a key that is not modelled can do to the memory of a run, and at most how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainfit.estimator.results import Direction


@dataclass(frozen=True, slots=True)
class Effect:
    """Why a key is not modelled, in which direction it can move the peak, and who says so.

    `within` are fields of a job, by pointer: at these values the peak is moved as far as the key
    can move it, with so many `samples` in the place of each of a micro-batch. They hold of another
    phase than a step where it is `apart`, as evaluation is. `bytes` is the most that it adds or
    takes on each GPU, as tensors unless it is another process that holds them, `outside` of this
    one, and `share` the most of its memory. With none of these, nothing is known of how far.
    """

    why: str
    direction: Direction = "either"
    source: str | None = None
    within: Mapping[str, Any] = field(default_factory=dict)
    bytes: int = 0
    share: float = 0.0
    samples: int = 1
    apart: bool = False
    outside: bool = False

    @property
    def is_bounded(self) -> bool:
        """Whether it is known how far the peak can move."""
        return bool(self.within) or self.bytes > 0 or self.share > 0 or self.samples > 1


def evaluation(samples: int, source: str) -> Effect:
    """What evaluation of so many samples at once does. Nothing is kept for backward, so that it
    needs less than a step on as many, whose layers are made again in backward; the logits are
    whole, even where training has a kernel that does without.
    """
    return Effect(
        f"evaluates {samples} samples at once: at most what a step on as many needs, with every "
        "layer made again",
        "raises",
        source,
        within={
            "/training/micro_batch_size": samples,
            "/training/num_microbatches": 1,
            "/training/recompute/granularity": "full",
            "/training/loss/cross_entropy": "unfused",
        },
        apart=True,
    )


def preference(source: str) -> Effect:
    """What a loss of preferences does without a second model. The policy runs on both samples of a
    pair; while what it keeps waits for backward, the same weights may run on both once more for the
    reference, and keep nothing.
    """
    return Effect(
        "a loss of preferences without a second model: at most what a step on two samples in the "
        "place of each needs",
        "raises",
        source,
        within={"/training/loss/cross_entropy": "unfused"},
        samples=2,
    )


SHARING = "/parallelism/data_parallel_sharding_strategy"
HELD_MORE = {
    "optim": "no_shard",
    "optim_grads": "no_shard",
    "optim_grads_params": "optim_grads",
}
"""What ZeRO shares out -> what holds more by at least the weights of a model that only runs
forward: whole ones beside states that are shared out, shared ones beside such weights. Of two ranks
or more."""
