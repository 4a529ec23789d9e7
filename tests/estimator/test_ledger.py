"""The ledger against figures that were worked out by hand or read off real runs."""

from typing import Any

import pytest

from trainfit.answer import answer, plan_of
from trainfit.estimator.frameworks.megatron.chunks import Ledger
from trainfit.estimator.peak import price_chunk
from trainfit.estimator.placement import place
from trainfit.specs.job import Job

LLAMA_70B = {
    "num_layers": 12,
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_query_groups": 8,
    "ffn_hidden_size": 28672,
    "vocab_size": 128256,
    "normalization": "RMSNorm",
    "swiglu": True,
    "add_bias_linear": False,
    "position_embedding_type": "rope",
    "untie_embeddings_and_output_weights": True,
}
DEEPSEEK_V2 = {
    "num_layers": 4,
    "hidden_size": 5120,
    "num_attention_heads": 128,
    "ffn_hidden_size": 12288,
    "vocab_size": 102400,
    "normalization": "RMSNorm",
    "swiglu": True,
    "add_bias_linear": False,
    "qk_layernorm": True,
    "position_embedding_type": "rope",
    "untie_embeddings_and_output_weights": True,
    "multi_latent_attention": True,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_head_dim": 128,
    "qk_pos_emb_head_dim": 64,
    "v_head_dim": 128,
    "num_moe_experts": 160,
    "moe_router_topk": 6,
    "moe_ffn_hidden_size": 1536,
    "moe_shared_expert_intermediate_size": 3072,
    "moe_layer_freq": [0, 1, 1, 1],
}


def job(spec: dict[str, Any], training: dict[str, Any] | None = None, **parallelism: Any) -> Job:
    return Job.model_validate(
        {
            "model": {"spec": spec},
            "parallelism": parallelism,
            "training": {"loss": {"cross_entropy": "te_fused"}, **(training or {})},
        }
    )


PADDED = {"moe": {"expert_capacity_factor": 1.0, "pad_expert_input_to_capacity": True}}


def saved_per_token(
    spec: dict[str, Any], layer: int, training: dict[str, Any] | None = None
) -> float:
    """Bytes that one layer keeps for one token of one micro-batch."""
    plan = plan_of(job(spec, training))
    ledger = Ledger(plan)
    chunk = place(plan)[0][0].content
    only = chunk._replace(
        kinds=chunk.kinds[layer : layer + 1],
        embedding=False,
        final_norm=False,
        output_layer=False,
    )
    return price_chunk(ledger, only).saved / ledger.sizes.n


def test_llama_70b_layer() -> None:
    """8h + 8 for two norms, 4 a d + 4 g d + 4 a for attention, 6 f for SwiGLU."""
    assert saved_per_token(LLAMA_70B, 0) == 274_696


def test_deepseek_v2_dense_layer() -> None:
    assert saved_per_token(DEEPSEEK_V2, 0) == 287_248


def test_deepseek_v2_moe_layer() -> None:
    """With 154 rows for each of 160 experts, where 4096 x 6 tokens would make 153.6."""
    assert int(saved_per_token(DEEPSEEK_V2, 1, PADDED)) == 352_368


@pytest.mark.parametrize(
    ("modules", "dropped"),
    [
        (["mla_up_proj"], 2 * 128 * (2 * 192 + 128)),
        (["moe_act"], 2 * 6 * 1536),
        (["shared_experts"], 2 * 3 * 3072),
        (["layernorm"], 2 * 2 * 5120),
        (["core_attn"], 4 * 128),
        (["mlp"], 0),
        (["mla_up_proj", "moe_act"], 2 * 128 * (2 * 192 + 128) + 2 * 6 * 1536),
    ],
)
def test_selective_recompute_drops(modules: list[str], dropped: int) -> None:
    """Bytes per token of a layer with experts: q, k, v; fc2's input; both norms' outputs."""
    recompute = {"recompute": {"granularity": "selective", "modules": modules}}
    everything = saved_per_token(DEEPSEEK_V2, 1)
    assert everything - saved_per_token(DEEPSEEK_V2, 1, recompute) == dropped


def test_recomputing_experts_keeps_their_input_only() -> None:
    recompute = {"recompute": {"granularity": "selective", "modules": ["moe"]}}
    attention = saved_per_token(DEEPSEEK_V2, 1, recompute) - (4 * 5120 + 4)
    dense = saved_per_token(DEEPSEEK_V2, 0) - (4 * 5120 + 4) - 6 * 12288
    assert attention == dense


def test_full_recompute_keeps_the_input_of_every_layer() -> None:
    training = {"recompute": {"granularity": "full", "method": "uniform", "num_layers": 1}}
    plan = plan_of(job(LLAMA_70B, training, tp=8))
    ledger = Ledger(plan)
    chunk = place(plan)[0][0].content._replace(
        embedding=False, final_norm=False, output_layer=False
    )
    act = 2 * 8192 * 4096 // 8
    assert price_chunk(ledger, chunk).saved == 12 * act


def test_block_recompute_of_no_layer_is_none() -> None:
    training = {"recompute": {"granularity": "full", "method": "block", "num_layers": 0}}
    assert answer(job(LLAMA_70B, training)).stages == answer(job(LLAMA_70B)).stages


def test_states_of_bf16_with_the_distributed_optimizer() -> None:
    """6 + 12 / shards bytes per parameter; 18 where nothing is sharded."""
    sharded = answer(job(LLAMA_70B, num_gpus=8)).stages[0].components[:3]
    assert [c.bytes_per_parameter for c in sharded] == pytest.approx([2, 4, 12 / 8], rel=1e-6)
    whole = answer(job(LLAMA_70B, num_gpus=8, use_distributed_optimizer=False)).stages[0]
    assert [c.bytes_per_parameter for c in whole.components[:3]] == [2.0, 4.0, 12.0]


def test_experts_are_sharded_over_their_own_data_parallel_ranks() -> None:
    result = answer(job(DEEPSEEK_V2, num_gpus=64, ep=8, etp=1))
    assert result.parallelism.expert_dp == 8
    assert result.parallelism.dp == 64
    chunk = result.stages[0].chunks[0]
    dense = chunk.parameters - chunk.expert_parameters
    optimizer = result.stages[0].components[2].bytes
    assert optimizer == pytest.approx(12 * (dense / 64 + chunk.expert_parameters / 8), rel=1e-6)
