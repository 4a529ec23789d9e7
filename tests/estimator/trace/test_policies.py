"""A loss over what a policy has generated: what it asks for, and what of it decides."""

from __future__ import annotations

from typing import Any

import pytest

from tests.estimator.trace.test_references import LAYER, narrowed_when_made, plan, recorded
from trainfit.estimator.blocks.head.policy import BY
from trainfit.estimator.estimate import estimate
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.steptime import Untimed, step_time

WAYS = [*BY, "trl-1.15", "verl", "verl-0.9", "verl-padded", "verl-fused"]
SAMPLES, LENGTH, ROWS = 2, 512, 32_000


def policy(by: str, kept: int | None = 384, gpus: int = 1, **training: Any) -> PytorchPlan:
    loss = {"objective": "policy", "log_probs_by": by, "logits_to_keep": kept}
    loss |= training.pop("loss", {})
    parallelism = training.pop("parallelism", None)
    return plan("trl-1.15", "none", {"loss": loss, **training}, gpus, parallelism)


def allocated(of: PytorchPlan) -> int:
    stage, *_ = estimate(of, replay=False).stages
    return stage.allocated_bytes.expected


@pytest.mark.parametrize("recompute", [{}, {"recompute": {"granularity": "full"}}])
@pytest.mark.parametrize("precision", ["bf16-pure", "fp32", "autocast-bf16"])
@pytest.mark.parametrize("by", WAYS)
def test_as_much_is_asked_for_as_the_ledger_says(
    by: str, precision: str, recompute: dict[str, Any]
) -> None:
    training = {"precision": precision, **recompute}
    made, expected = recorded(policy(by, micro_batch_size=4, **training))
    assert made.peak_bytes == expected


def test_verls_actor_has_autocast_around_its_loss_as_well() -> None:
    """TRL leaves it to the model: what that has narrowed is gone when logits are looked at."""
    training: dict[str, Any] = {"precision": "autocast-bf16"}
    training |= {"recompute": {"granularity": "full"}}
    head = 2 * ROWS * 1024
    of_trl, _ = recorded(policy("trl-grpo-1.0", **training))
    of_verl, _ = recorded(policy("verl-0.9", **training))
    assert narrowed_when_made(of_trl, "logits in fp32") == head
    assert narrowed_when_made(of_verl, "logits over the temperature") == head + 2 * 3 * LAYER


@pytest.mark.parametrize(
    "training",
    [
        {"recompute": {"granularity": "full"}},
        {"num_microbatches": 2},
        {"peft": {"method": "lora", "r": 16}, "loss": {"reference": "base"}},
        {"loss": {"reference": "copy"}},
    ],
)
@pytest.mark.parametrize("gpus", [1, 4])
def test_so_it_is_however_a_step_runs(gpus: int, training: dict[str, Any]) -> None:
    made, expected = recorded(policy("trl-grpo-1.0", gpus=gpus, **training))
    assert made.peak_bytes == expected


def test_logits_are_of_what_was_generated_and_of_the_token_before() -> None:
    """Of each token four gradients [V] in bf16 are there at once, and its label."""
    many, few = (allocated(policy("trl-grpo-1.0", kept)) for kept in (500, 400))
    assert many - few == SAMPLES * 100 * (4 * 2 * ROWS + 8)


def test_without_a_number_all_tokens_but_the_first_were() -> None:
    unset, all_of_them = (allocated(policy("trl-grpo-1.0", kept)) for kept in (None, LENGTH))
    assert unset == all_of_them > allocated(policy("trl-grpo-1.0", LENGTH - 100))


def test_a_reference_takes_its_weights_and_nothing_else() -> None:
    """It runs before the step."""
    alone = policy("trl-grpo-0.23")
    beside = policy("trl-grpo-0.23", loss={"reference": "copy"})
    (stage,) = estimate(alone, replay=False).stages
    weights = next(each.bytes for each in stage.components if each.name == "weights")
    assert allocated(beside) - allocated(alone) == weights


def test_what_is_generated_between_has_no_time() -> None:
    timed = step_time(policy("trl-grpo-1.0"))
    assert isinstance(timed, Untimed)
    assert "generated" in timed.reason


@pytest.mark.parametrize(
    ("loss", "field"),
    [
        ({"objective": "policy", "log_probs_by": "trl-0.12"}, "log_probs_by"),
        ({"objective": "preference", "log_probs_by": "trl-grpo-1.0"}, "log_probs_by"),
        ({"objective": "policy", "reference": "base"}, "reference"),
        ({"objective": "policy", "cross_entropy": "liger"}, "cross_entropy"),
    ],
)
def test_what_does_not_hold_together_is_refused(loss: dict[str, Any], field: str) -> None:
    with pytest.raises(RefusedError) as refused:
        plan("trl-1.15", "none", {"loss": loss})
    assert f"/training/loss/{field}" in [each.pointer for each in refused.value.findings]


@pytest.mark.parametrize("entropy", ["none", "compiled", "whole", "remade"])
@pytest.mark.parametrize("by", ["verl", "verl-0.9", "verl-padded"])
def test_an_entropy_is_asked_for_as_the_ledger_says(by: str, entropy: str) -> None:
    kind = "whole" if (by, entropy) == ("verl-padded", "compiled") else entropy
    made, expected = recorded(policy(by, loss={"entropy": kind}))
    assert made.peak_bytes == expected


def test_an_actor_divides_in_place_until_its_logits_are_copied() -> None:
    """In backward four tensors [n, V] in bf16 are there at once, of which two would be enough; an
    entropy of its own adds one to these, and nothing to those.
    """
    whole = 8 * LENGTH * ROWS * 2
    again: dict[str, Any] = {"recompute": {"granularity": "full"}}
    bytes_of = {
        (by, entropy): allocated(
            policy(by, None, micro_batch_size=8, loss={"entropy": entropy}, **again)
        )
        for by in ("verl", "verl-0.9")
        for entropy in ("none", "compiled")
    }
    before, since = (bytes_of[by, "none"] for by in ("verl", "verl-0.9"))
    assert before - since == pytest.approx(2 * whole, rel=0.01)
    assert bytes_of["verl", "compiled"] == before
    assert bytes_of["verl-0.9", "compiled"] - since == pytest.approx(whole, rel=0.01)


def test_an_answer_that_a_loop_holds_is_there_when_the_last_gradients_are_made() -> None:
    """Logits in fp32, of which OpenRLHF's loop lets go when the optimizer has stepped."""
    again: dict[str, Any] = {"recompute": {"granularity": "full"}}
    held, gone = (
        allocated(policy(by, seq_length=256, **again))
        - allocated(policy(by, seq_length=128, **again))
        for by in ("openrlhf", "verl-0.9")
    )
    assert held - gone == SAMPLES * 128 * ROWS * 4


def test_ranks_share_the_logits_of_packed_samples_only() -> None:
    """Where samples are packed, ranks of a sequence have a part of the logits each."""
    layout: dict[str, Any] = {"cp": 2, "cp_comm_type": "a2a"}
    layout["data_parallel_sharding_strategy"] = "optim_grads_params"
    assert allocated(policy("verl", None, 2, parallelism=layout)) < allocated(
        policy("verl", None, 2)
    )
    with pytest.raises(RefusedError, match="cp > 1 beside a loss over log-probabilities"):
        policy("verl-padded", gpus=2, parallelism=layout)


@pytest.mark.parametrize(
    ("by", "entropy", "message"),
    [
        ("trl-grpo-1.0", "whole", "verl's or OpenRLHF's alone"),
        ("openrlhf", "whole", "is compiled"),
        ("verl-padded", "compiled", "not compiled"),
        ("verl-fused", "remade", "a few tokens at a time"),
    ],
)
def test_an_entropy_that_nobody_computes_is_refused(by: str, entropy: str, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        policy(by, loss={"entropy": entropy})


def scored(by: str, tokens: int, **loss: Any) -> PytorchPlan:
    return policy(by, recompute={"granularity": "full"}, loss={"scored_tokens": tokens, **loss})


@pytest.mark.parametrize("by", ["verl", "verl-padded", "verl-fused"])
def test_samples_are_scored_without_gradients(by: str) -> None:
    """As many as a micro-batch has need less than its update, of many more the logits are whole."""
    here = SAMPLES * LENGTH
    plain = allocated(scored(by, here))
    assert allocated(scored(by, 2 * here)) >= plain
    many = allocated(scored(by, 64 * here))
    if by != "verl-fused":
        assert many > 64 * here * ROWS * 2
    beside = allocated(scored(by, 64 * here, scored_beside_optimizer=False))
    assert beside < many


def test_only_a_policy_scores_samples() -> None:
    with pytest.raises(RefusedError, match="scored before a step"):
        policy("trl-1.15", loss={"objective": "next_token", "scored_tokens": 8})
