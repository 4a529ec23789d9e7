"""What eager attention keeps and borrows for each score, followed operation by operation."""

from __future__ import annotations

import pytest

from trainfit.estimator.frameworks.pytorch.ledger import PytorchLedger
from trainfit.estimator.ledger import Lifetime
from trainfit.questions.estimate import plan_of
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.job import Job

SEQUENCE, HEADS, WIDTH = 512, 4, 64
SCORES = HEADS * SEQUENCE * SEQUENCE


def bytes_of_a_score(precision: str, dropout: float) -> dict[Lifetime, int]:
    """By lifetime, without what is as long as the sequence is. Of what is borrowed, that which is
    kept and not there at the same moment is taken off.
    """
    half = {"params": precision, "compute": precision, "gradients": precision}
    job = Job.model_validate(
        {
            "model": {
                "spec": {
                    "num_layers": 1,
                    "hidden_size": WIDTH,
                    "num_attention_heads": HEADS,
                    "vocab_size": 128,
                    "position_embedding_type": "none",
                }
            },
            "training": {
                "seq_length": SEQUENCE,
                "precision": half,
                "attention": {"backend": "eager", "dropout": dropout},
            },
            "framework": {"name": "transformers"},
        }
    )
    plan = plan_of(job)
    assert isinstance(plan, PytorchPlan)
    operations = [each for group in PytorchLedger(plan).kinds[0] for each in group]
    (attention,) = [each for each in operations if each.name == "core_attention"]
    found = dict.fromkeys(Lifetime, 0)
    for tensor in attention.tensors:
        if tensor.bytes >= SCORES // 4:
            whole, rest = divmod(tensor.bytes, SCORES)
            assert rest == 0
            found[tensor.lifetime] += whole
    found[Lifetime.FORWARD] -= attention.forward.absent // SCORES
    found[Lifetime.BACKWARD] -= attention.backward.absent // SCORES
    return found


@pytest.mark.parametrize(
    ("precision", "dropout", "kept", "forward", "backward"),
    [
        # The softmax and the narrowed one; at most the scores, their copy and the softmax; the
        # softmax, its gradient and that of the scores.
        ("bf16", 0.0, 4 + 2, 2 + 4 + 4, 4 + 4 + 4),
        # The kernel reads the scores as they are: they, the softmax and the narrowed one; the
        # gradient of the scores is narrow.
        ("fp16", 0.0, 4 + 2, 2 + 4 + 2, 4 + 4 + 2),
        # Nothing is converted.
        ("fp32", 0.0, 4, 4 + 4, 4 + 4 + 4),
        # The mask and the dropped scores in the narrowed one's place.
        ("bf16", 0.1, 4 + 1 + 2, 2 + 4 + 4, 4 + 4 + 4),
        ("fp16", 0.1, 4 + 1 + 2, 4 + 2 + 1 + 2, 4 + 4 + 2),
        # The mask, the dropped scores and two gradients beside the softmax.
        ("fp32", 0.1, 4 + 1 + 4, 4 + 1 + 4, 4 + 1 + 4 + 4),
    ],
)
def test_every_conversion_is_counted(
    precision: str, dropout: float, kept: int, forward: int, backward: int
) -> None:
    found = bytes_of_a_score(precision, dropout)
    assert found[Lifetime.SAVED] == kept
    assert found[Lifetime.SAVED] + found[Lifetime.FORWARD] == forward
    assert found[Lifetime.SAVED] + found[Lifetime.BACKWARD] == backward
