"""Experts whose linears have biases, as GPT-OSS' have, under Megatron."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.run import run_of
from trainfit.questions.estimate import plan_of
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.specs.job import Job

TOKENS, TOP_K, HIDDEN = 1024, 2, 256


def highest(*, bias: bool, **framework: Any) -> list[dict[str, int]]:
    """Bytes by tensor that adding biases of experts borrows, forward and backward."""
    job = {
        "model": {
            "spec": {
                "num_layers": 1,
                "hidden_size": HIDDEN,
                "num_attention_heads": 8,
                "ffn_hidden_size": 512,
                "vocab_size": 1024,
                "position_embedding_type": "rope",
                "add_bias_linear": bias,
                "activation_func": "swiglu",
                "num_moe_experts": 4,
                "moe_router_topk": TOP_K,
            }
        },
        "training": {"seq_length": TOKENS, "precision": "bf16"},
        "framework": {"name": "megatron"} | framework,
    }
    plan = plan_of(Job.model_validate(job))
    assert isinstance(plan, MegatronPlan)
    ledger = MegatronLedger(run_of(plan))
    return [
        {row.tensor.name: row.tensor.bytes for row in operation.tensors}
        for sublayer in plan.model.layer_kinds[0].sublayers
        for group in ledger.sublayer(sublayer)
        for operation in group
        if operation.name.startswith("experts_bias")
    ]


def test_biases_are_added_to_the_rows_of_one_expert_after_the_other_and_joined() -> None:
    rows = TOKENS * TOP_K * HIDDEN
    joining = highest(bias=True)[-2]
    assert set(joining) == {"rows with bias", "joined rows"}
    assert len(set(joining.values())) == 1
    assert joining["joined rows"] in (2 * rows, 4 * rows)


@pytest.mark.parametrize(
    "job", [{"bias": False}, {"bias": True, "use_transformer_engine_op_fuser": True}]
)
def test_fused_operations_add_them_within_the_product(job: Any) -> None:
    assert highest(**job) == []
