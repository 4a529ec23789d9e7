"""Policies and preferences under Megatron: tensors of their losses, and what lies beside."""

from __future__ import annotations

from typing import Any

import pytest

from tests.estimator.trace.test_megatron import EXPERTS, plan
from trainfit.estimator.estimate import estimate
from trainfit.estimator.results import Component
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.megatron.plan import MegatronPlan

ROWS, TOKENS = 65_536, 1024
LOGITS = TOKENS * ROWS
"""Elements, of so large a vocabulary that a step is at its highest over them."""


def policy(by: str = "verl", rows: int = ROWS, samples: int = 1, **loss: Any) -> MegatronPlan:
    loss = {"objective": "policy", "log_probs_by": by} | loss
    return plan({"vocab_size": rows}, training={"loss": loss, "micro_batch_size": samples})


def allocated(of: MegatronPlan) -> int:
    (stage,) = estimate(of, replay=False).stages
    return stage.allocated_bytes.expected


def test_logits_and_their_gradients_are_there_as_often_as_the_actor_makes_them() -> None:
    plain, own = allocated(plan({"vocab_size": ROWS})), allocated(policy())
    # Softmax in fp32 and logits in bf16; a softmax and its gradient over the temperature, in fp32.
    assert own - plain == (8 - 6) * LOGITS
    # Logits, the softmax of the entropy, and that of a copy.
    assert allocated(policy(entropy="whole")) - own == (12 - 8) * LOGITS
    assert allocated(policy("verl-fused")) < plain


@pytest.mark.parametrize(
    ("by", "entropy", "tp", "bytes_of_a_logit"),
    [
        # Logits in fp32, and a softmax that their gradient takes the place of.
        ("slime", "none", 1, 8),
        # Both kept, and the gradient of the entropy.
        ("slime", "whole", 1, 12),
        # Logits, those over the temperature, and the softmax of these.
        ("slime-divided", "none", 1, 12),
        # Logits, and two of what makes a softmax of them.
        ("nemo-rl", "none", 2, 12),
        # The log-softmax, and two gradients.
        ("ms-swift", "none", 1, 12),
        # Logits, their exponentials, and both of what makes a log-softmax of them.
        ("ms-swift", "none", 2, 16),
    ],
)
def test_each_actor_makes_its_own_tensors_of_logits(
    by: str, entropy: str, tp: int, bytes_of_a_logit: int
) -> None:
    def of(kind: str, entropy: str) -> int:
        loss = {"objective": "policy", "log_probs_by": kind, "entropy": entropy}
        model, layout = {"vocab_size": ROWS}, {"tp": tp}
        return allocated(plan(model, parallelism=layout, training={"loss": loss}))

    # Of verl's a softmax and its gradient over the temperature, 8 bytes of each logit.
    assert of(by, entropy) - of("verl", "none") == (bytes_of_a_logit - 8) * LOGITS // tp


def test_preferences_are_learnt_from_the_models_own_loss_beside_a_reference() -> None:
    def of(**loss: str) -> int:
        return allocated(plan({"vocab_size": ROWS}, training={"loss": loss}))

    learnt = {"objective": "preference", "log_probs_by": "ms-swift"}
    assert of(**learnt) == of()
    (stage,) = estimate(plan({"vocab_size": ROWS}), replay=False).stages
    (weights,) = [each for each in stage.components if each.name == "weights"]
    assert of(**learnt, reference="copy") - of() == weights.bytes


def test_a_head_in_one_has_room_for_as_many_gradients_whatever_the_rows() -> None:
    """verl's utils/kernel/kernels.py (efficient_entropy_backward): _d_logits has 9,504 columns, and
    of the last ones, if they are fewer, there is a copy. That of 512 rows is as large as what is
    added to the input gradient of a model of this width, part after part.
    """

    def of_a_token(rows: int) -> int:
        one, two = (allocated(policy("verl-fused", rows, samples)) for samples in (1, 2))
        return (two - one) // TOKENS

    few, even = of_a_token(512), of_a_token(4 * 9504)
    assert few == even
    assert of_a_token(4 * 9504 + 2048) - even == 2 * (2048 - 512)


def test_a_reference_has_its_weights_on_every_rank() -> None:
    def of(reference: str) -> tuple[int, Component]:
        loss = {"objective": "policy", "log_probs_by": "verl", "reference": reference}
        (stage,) = estimate(plan(EXPERTS, training={"loss": loss}), replay=False).stages
        (weights,) = [each for each in stage.components if each.name == "weights"]
        return stage.allocated_bytes.expected, weights

    (alone, own), (beside, both) = of("none"), of("copy")
    assert beside - alone == both.bytes - own.bytes == own.bytes > 0
    assert both.expert_bytes == 2 * (own.expert_bytes or 0) > 0


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ({"log_probs_by": "trl-grpo-1.0"}, "trl-grpo-1.0 does not run"),
        ({"reference": "base"}, "a model of its own"),
        ({"entropy": "remade"}, "an entropy is whole"),
        ({"log_probs_by": "ms-swift", "entropy": "whole"}, "an entropy is none"),
        ({"cross_entropy": "te_fused"}, "the plain cross entropy"),
        ({"objective": "next_token", "entropy": "whole"}, "only the loss of an actor"),
    ],
)
def test_what_no_actor_does_is_refused(loss: dict[str, Any], message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        policy(**loss)
