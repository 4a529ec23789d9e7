"""Which fields of a block its program follows: what it says, held to what it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from trainfit.estimator.frameworks.registry import framework_of
from trainfit.questions.estimate import answer, plan_of
from trainfit.resolve.plan import Plan
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import (
    Attention,
    Block,
    Experts,
    Indexer,
    LatentAttention,
    Makes,
    Mlp,
    Norm,
    making,
)
from trainfit.specs.job import Job

READ: set[str] = set()
"""Fields that were read of the blocks that record it."""
FULL: dict[str, Block] = {
    "attention": Attention(
        heads=4,
        kv_heads=2,
        head_dim=16,
        gate_width=64,
        q_norm=Norm(width=16),
        k_norm=Norm(width=16),
        sinks=True,
        q_lora_rank=16,
        out_lora_rank=16,
        query_experts=4,
    ),
    "mla": LatentAttention(
        heads=4,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_nope_head_dim=8,
        qk_rope_head_dim=8,
        v_head_dim=16,
        gate_width=64,
        sinks=True,
        indexer=Indexer(heads=2, head_dim=8),
    ),
    "mlp": Mlp(ffn=128, clamped=True),
    "moe": Experts(
        experts=4,
        top_k=2,
        ffn=64,
        clamped=True,
        latent=32,
        router_input=32,
        shared_ffn=64,
        shared_gate=True,
    ),
}
"""Of every kind of block one with all that makes activations."""


def recording(block: Block) -> Block:
    """The same block; what is read of it is noted."""

    class Recorded(type(block)):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> Any:
            READ.add(name)
            return super().__getattribute__(name)

    Recorded.__hash__ = lambda self: id(self)  # type: ignore[method-assign]
    fields = {name: getattr(block, name) for name in type(block).model_fields}
    return cast(Block, Recorded.model_construct(**fields))


def plan_with(block: Block, framework: dict[str, Any]) -> Plan:
    """A plan whose one layer has the block between a norm and the residual addition."""
    spec: dict[str, Any] = {
        "num_layers": 1,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "vocab_size": 128,
    }
    spec |= {"swiglu": True, "normalization": "RMSNorm", "add_bias_linear": False}
    spec |= {"position_embedding_type": "rope", "untie_embeddings_and_output_weights": True}
    job = {"model": {"spec": spec}, "training": {"seq_length": 64}, "framework": framework}
    plan = plan_of(Job.model_validate(job))
    (kind,) = plan.model.layer_kinds
    sublayer = kind.sublayers[0].model_copy(update={"blocks": (block,)})
    kinds = (kind.model_copy(update={"sublayers": (sublayer,)}),)
    model: ModelSpec = plan.model.model_copy(update={"layer_kinds": kinds})
    return replace(plan, model=model)


@pytest.mark.parametrize("kind", FULL)
@pytest.mark.parametrize(
    "framework",
    [
        {"name": "megatron", "gradient_accumulation_fusion": True},
        {"name": "transformers"},
        {"name": "torchtitan"},
    ],
    ids=lambda framework: str(framework["name"]),
)
def test_a_program_says_which_fields_it_reads(framework: dict[str, Any], kind: str) -> None:
    block = FULL[kind]
    makes = {name for name, _ in making(block)}
    plan = plan_with(recording(block), framework)
    READ.clear()
    framework_of(plan).ledger(plan)
    program = framework_of(plan).programs(plan)[kind]
    assert READ & makes == getattr(program, "HONOURS", frozenset())


@pytest.mark.parametrize("kind", FULL)
def test_every_field_that_makes_activations_is_tried(kind: str) -> None:
    fields = type(FULL[kind]).model_fields
    makes = {
        name
        for name, field in fields.items()
        if any(isinstance(each, Makes) for each in field.metadata)
    }
    assert {name for name, _ in making(FULL[kind])} == makes


def test_an_answer_names_what_its_programs_do_not_follow() -> None:
    spec: dict[str, Any] = {"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4}
    spec |= {
        "vocab_size": 128,
        "ffn_hidden_size": 128,
        "swiglu": True,
        "activation_func_clamp_value": 7.0,
    }
    spec |= {"position_embedding_type": "rope"}
    job = {"model": {"spec": spec}, "framework": {"name": "transformers"}}
    found = answer(Job.model_validate(job))
    assert "Activations of these parts are not counted in full: clamped gate." in found.warnings
    assert "weights-only-blocks" in {each.id for each in found.assumptions}
