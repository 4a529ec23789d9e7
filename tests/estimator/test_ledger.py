"""The ledger against figures that were worked out by hand or read off real runs."""

from typing import Any

import pytest

from tests.estimator.jobs import megatron_plan
from trainfit.estimator.blocks.moe.transformer_engine import with_least_ep
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.peak import chunk_activations
from trainfit.estimator.placement import place
from trainfit.estimator.run import run_of
from trainfit.estimator.segment import Segment
from trainfit.questions.estimate import answer
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
    plan = megatron_plan(job(spec, training))
    ledger = MegatronLedger(run_of(plan))
    chunk = place(plan)[0][0].content
    only = chunk._replace(
        kinds=chunk.kinds[layer : layer + 1],
        embedding=False,
        final_norm=False,
        output_layer=False,
    )
    return chunk_activations(ledger, only).saved / ledger.sizes.n


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
    plan = megatron_plan(job(LLAMA_70B, training, tp=8))
    ledger = MegatronLedger(run_of(plan))
    chunk = place(plan)[0][0].content._replace(
        embedding=False, final_norm=False, output_layer=False
    )
    act = 2 * 8192 * 4096 // 8
    assert chunk_activations(ledger, chunk).saved == 12 * act


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


@pytest.mark.parametrize(
    ("modules", "offloaded"),
    [
        (["attn_norm"], 2 * 5120),
        (["mlp_norm"], 2 * 5120),
        (["core_attn"], 2 * 128 * (2 * 192 + 128)),
        (["core_attn", "attn_proj"], 2 * 128 * (2 * 192 + 128 + 128)),
        (["expert_fc1"], 2 * 6 * 5120),
        (["moe_act"], 2 * 6 * 2 * 1536),
    ],
)
def test_offloaded_modules_keep_nothing_on_the_card(modules: list[str], offloaded: int) -> None:
    everything = saved_per_token(DEEPSEEK_V2, 1)
    assert everything - saved_per_token(DEEPSEEK_V2, 1, {"offload_modules": modules}) == offloaded


def test_offloaded_unfused_attention_keeps_no_scores() -> None:
    """What autograd saves inside core attention goes to the host: q, k, v, and the softmax."""
    unfused: dict[str, Any] = {"attention": {"backend": "unfused"}}
    offloads = unfused | {"offload_modules": ["core_attn"]}
    kept = saved_per_token(DEEPSEEK_V2, 1, unfused) - saved_per_token(DEEPSEEK_V2, 1, offloads)
    assert kept == 2 * 128 * (2 * 192 + 128) + 2 * 128 * 4096


def test_what_recompute_drops_is_offloaded_where_core_attention_is() -> None:
    """Autograd saved queries, keys and values before the recomputed projection dropped them."""
    policy = {"recompute": {"granularity": "selective", "modules": ["mla_up_proj"]}}
    both: dict[str, Any] = policy | {"offload_modules": ["core_attn"]}
    assert saved_per_token(DEEPSEEK_V2, 1, both) == saved_per_token(DEEPSEEK_V2, 1, policy)


def test_what_is_offloaded_comes_back_a_layer_ahead() -> None:
    """While core attention runs backward, the scores of the next layer are on the card too."""

    def layer(**training: Any) -> Segment:
        given = {"attention": {"backend": "unfused"}, **training}
        asked = job(DEEPSEEK_V2, given, num_gpus=8, ep=8)
        return MegatronLedger(run_of(megatron_plan(asked))).layer_segments[1]

    whole, offloaded = layer(), layer(offload_modules=["core_attn"])
    left = whole.saved - offloaded.saved
    assert left > 2 * 128 * 4096**2
    assert offloaded.backward.operation == whole.backward.operation == "core_attention"
    assert offloaded.backward.total == whole.backward.total + left


def test_linears_keep_half_of_their_input_in_fp8() -> None:
    """Both norm outputs and the activation's output at one byte; a copy of attention's output."""
    halves = 2 * 8192 + 28672
    copies = 64 * 128
    kept = saved_per_token(LLAMA_70B, 0) - saved_per_token(LLAMA_70B, 0, {"precision": "fp8"})
    assert kept == halves - copies


@pytest.mark.parametrize(
    ("gpu", "gather", "bytes_per_linear_parameter"),
    [
        ("H100-80GB", False, 4),
        ("B200", False, 3),
        ("RTX 5090", False, 4),
        ("H100-80GB", True, 2),
        ("B200", True, 1),
    ],
)
def test_fp8_copies_of_weights(gpu: str, gather: bool, bytes_per_linear_parameter: int) -> None:
    """Beside bf16 weights or in their place; a B200 needs one layout where Hopper, and Blackwell of
    compute capability 12, need two.
    """
    precision = {"fp8_recipe": "tensorwise", "fp8_param_gather": gather}
    base = job(LLAMA_70B, {"precision": precision}).model_dump(exclude_unset=True)
    stage = answer(Job.model_validate(base | {"gpu": gpu})).stages[0]
    chunk = stage.chunks[0]
    others = chunk.embedding_parameters + chunk.output_layer_parameters + chunk.norm_parameters
    linear = chunk.parameters - others
    assert stage.components[0].bytes == 2 * others + bytes_per_linear_parameter * linear


@pytest.mark.parametrize(
    ("recipe", "block_bytes", "elements"), [("blockwise", 4, 128 * 128), ("mxfp8", 1, 32)]
)
def test_fp8_weights_have_scales(recipe: str, block_bytes: int, elements: int) -> None:
    """Both layouts of a block have a scale: of 128 x 128 elements in fp32, or of 32 in a byte."""
    precision = {"fp8_recipe": recipe, "fp8_param_gather": True}
    stage = answer(job(LLAMA_70B, {"precision": precision})).stages[0]
    chunk = stage.chunks[0]
    others = chunk.embedding_parameters + chunk.output_layer_parameters + chunk.norm_parameters
    linear = chunk.parameters - others
    scales = 2 * block_bytes * linear // elements
    assert stage.components[0].bytes == 2 * others + 2 * linear + scales


@pytest.mark.parametrize(
    ("recipe", "bytes_per_parameter"),
    [(None, 2), ("delayed", 2), ("tensorwise", 4), ("blockwise", 4), ("mxfp8", 4)],
)
def test_megatron_holds_the_master_weights_of_fp8(
    recipe: str | None, bytes_per_parameter: int
) -> None:
    """A precision-aware optimizer keeps 16 bits of them beside bf16 weights, but in fp8 by any
    recipe other than delayed scaling Megatron keeps them in fp32, gathered in fp8 or not.
    """
    optimizer = {"precision_aware": True, "exp_avg_dtype": "bf16", "exp_avg_sq_dtype": "bf16"}
    for gather in (False, True) if recipe else (False,):
        precision = {"fp8_recipe": recipe, "fp8_param_gather": gather}
        stage = answer(job(LLAMA_70B, {"precision": precision, "optimizer": optimizer})).stages[0]
        parameters = stage.chunks[0].parameters
        assert stage.components[2].bytes == (4 + bytes_per_parameter) * parameters


def test_fp8_with_a_precision_aware_optimizer_copies_narrow_gradients_for_the_step() -> None:
    """It steps the master weights, whose gradients are of their type."""
    precision = {"gradients": "bf16", "fp8_recipe": "tensorwise"}
    training = {"precision": precision, "seq_length": 64, "optimizer": {"precision_aware": True}}
    stage = answer(job(LLAMA_70B, training)).stages[0]
    assert stage.peak.moment == "optimizer_step"
    assert stage.components[4].bytes > 4 * stage.chunks[0].parameters


def test_fp8_with_gathered_weights_needs_more_than_bf16_with_a_precision_aware_optimizer() -> None:
    """As published for Qwen3-14B on 8 H20: 58 GiB by the card's tool against 52."""

    def device(precision: dict[str, object]) -> tuple[int, int]:
        optimizer = {"precision_aware": True, "exp_avg_dtype": "bf16", "exp_avg_sq_dtype": "bf16"}
        asked = {
            "model": {"hf_id": "Qwen/Qwen3-14B"},
            "parallelism": {"num_gpus": 8, "tp": 4, "sequence_parallel": True},
            "training": {
                "micro_batch_size": 1,
                "global_batch_size": 16,
                "seq_length": 8192,
                "recompute": {"granularity": "selective"},
                "loss": {"cross_entropy": "native_fused"},
                "attention": {"backend": "flash"},
                "optimizer": optimizer,
                "precision": precision,
            },
            "framework": {"name": "megatron", "expandable_segments": True},
            "gpu": "H20-96GB",
        }
        needed = answer(Job.model_validate(asked)).binding.device_bytes
        return needed.low, needed.high

    narrow, wide = device({}), device({"fp8_recipe": "blockwise", "fp8_param_gather": True})
    assert wide[0] > narrow[0]
    assert narrow[0] <= 52 * 2**30 <= narrow[1]
    assert wide[0] <= 58 * 2**30 <= wide[1]


def test_megatron_fsdp_shards_gradients_and_weights() -> None:
    def bytes_of(strategy: str) -> list[int]:
        stage = answer(job(LLAMA_70B, num_gpus=8, data_parallel_sharding_strategy=strategy))
        return [component.bytes for component in stage.stages[0].components[:3]]

    weights, gradients, optimizer = bytes_of("optim")
    assert bytes_of("optim_grads") == [weights, gradients // 8, optimizer]
    assert bytes_of("optim_grads_params") == [weights // 8, gradients // 8, optimizer]
    assert bytes_of("no_shard") == [weights, gradients, 8 * optimizer]


def test_muon_keeps_one_moment_of_matrices() -> None:
    stage = answer(job(LLAMA_70B, {"optimizer": {"name": "muon"}})).stages[0]
    chunk = stage.chunks[0]
    others = chunk.embedding_parameters + chunk.output_layer_parameters + chunk.norm_parameters
    assert stage.components[2].bytes == 8 * (chunk.parameters - others) + 12 * others


def test_offloaded_optimizer_states_leave_the_card() -> None:
    training = {"optimizer": {"cpu_offload_fraction": 0.75}}
    kept = answer(job(LLAMA_70B, training)).stages[0].components[2].bytes
    assert 4 * kept == answer(job(LLAMA_70B)).stages[0].components[2].bytes


def test_mamba_2_convolves_again_in_backward() -> None:
    """It keeps of a token, in bf16, its input and what the norm makes of it, z, x, B, C and a time
    step for each of 16 heads, what the scan gives, that gated, and what its norm makes of it; and
    of both norms one number in fp32.
    """
    spec = {
        "num_layers": 2,
        "hidden_size": 512,
        "num_attention_heads": 8,
        "vocab_size": 5000,
        "hybrid_layer_pattern": "M-",
        "normalization": "RMSNorm",
        "position_embedding_type": "none",
    }
    ledger = MegatronLedger(run_of(megatron_plan(job(spec, {"seq_length": 1024}))))
    (mamba,) = [each.saved for each in ledger.layer_segments if each.name == "dense"][:1]
    inner, pairs, heads = 1024, 2 * 8 * 128, 16
    kept = 2 * 512 + (2 * inner + pairs + heads) + 3 * inner
    assert mamba == 1024 * (2 * kept + 2 * 4)


def test_narrow_gradients_are_copied_for_the_step() -> None:
    """A step that borrows more than the activations take is the peak."""
    training = {"precision": {"gradients": "bf16"}, "seq_length": 64}
    stage = answer(job(LLAMA_70B, training)).stages[0]
    assert stage.peak.moment == "optimizer_step"
    assert stage.components[4].bytes > 4 * stage.chunks[0].parameters
    aware = training | {"optimizer": {"precision_aware": True}}
    assert answer(job(LLAMA_70B, aware)).stages[0].peak.moment != "optimizer_step"


def test_deferred_gradients_keep_the_logit_gradients_of_every_microbatch() -> None:
    def last_stage(**framework: object) -> int:
        base = job(LLAMA_70B, {"num_microbatches": 8}, pp=2).model_dump(exclude_unset=True)
        named = {"framework": {"name": "megatron", **framework}}
        return answer(Job.model_validate(base | named)).stages[1].components[5].bytes

    one = 2 * 4096 * 128256 + 2 * 4096 * 8192
    at_once = last_stage()
    assert last_stage(defer_embedding_wgrad_compute=True) - at_once == 7 * one
    limited = last_stage(defer_embedding_wgrad_compute=True, wgrad_deferral_limit=2)
    assert limited - at_once == 2 * one


def test_the_loaders_mask_is_alive_while_the_last_stage_runs_forward() -> None:
    training = {"loss": {"cross_entropy": "unfused"}}
    base = job(LLAMA_70B, training).model_dump(exclude_unset=True)
    masked = base | {"framework": {"name": "megatron", "create_attention_mask_in_dataloader": True}}
    sizes = [
        answer(Job.model_validate(each)).stages[0].allocated_bytes.expected
        for each in (base, masked)
    ]
    assert sizes[1] - sizes[0] == 4096 * 4096


def test_recomputing_a_feed_forward_network_keeps_the_input_of_its_norm() -> None:
    """6 f for SwiGLU, and 2 h for the norm that is one module with fc1."""
    recompute = {"recompute": {"granularity": "selective", "modules": ["mlp"]}}
    kept = saved_per_token(LLAMA_70B, 0) - saved_per_token(LLAMA_70B, 0, recompute)
    assert kept == 6 * 28672 + 2 * 8192


def test_a_rerun_of_the_experts_holds_what_their_forward_held() -> None:
    """The backward of a layer whose experts are recomputed peaks no lower than their forward."""
    recompute = {"recompute": {"granularity": "selective", "modules": ["moe"]}}
    ledger = MegatronLedger(run_of(megatron_plan(job(DEEPSEEK_V2, recompute, num_gpus=8, ep=8))))
    everything = MegatronLedger(run_of(megatron_plan(job(DEEPSEEK_V2, num_gpus=8, ep=8))))
    layer, whole = (each.layer_segments[1] for each in (ledger, everything))
    assert layer.saved < whole.saved
    assert layer.backward.total >= whole.forward.total


@pytest.mark.parametrize(("precision", "copies"), [("bf16", 2 + 4), ("fp32", 4)])
def test_an_unfused_loss_works_on_logits_of_fp32_in_place(precision: str, copies: int) -> None:
    """`float()` copies what is not in fp32, and all behind it runs in place."""
    asked = job(LLAMA_70B, {"loss": {"cross_entropy": "unfused"}, "precision": precision})
    (segment,) = MegatronLedger(run_of(megatron_plan(asked))).heads()
    logits = 4096 * 128256
    assert copies <= segment.forward.total / logits < copies + 0.001


def test_weights_of_fp32_that_are_kept_in_fp8_have_a_master_beside_them() -> None:
    """Those of linears alone; other weights in fp32 are their own."""

    def states(**given: bool) -> tuple[int, ...]:
        precision = {"params": "fp32", "compute": "fp32", "fp8_recipe": "tensorwise", **given}
        asked = job(LLAMA_70B, {"precision": precision}, num_gpus=8)
        return tuple([c.bytes for c in answer(asked).stages[0].components[:3]])

    weights, gradients, optimizer = states(fp8_param_gather=False)
    gathered, same, with_master = states(fp8_param_gather=True)
    linears = (weights - gathered) // 4
    assert same == gradients
    assert with_master - optimizer == pytest.approx(4 * linears / 8, rel=1e-6)


def test_unfused_attention_repeats_keys_and_values_for_every_head() -> None:
    unfused = {"attention": {"backend": "unfused"}}
    scores = 2 * 64 * 4096
    logsumexp = 4 * 64
    more = saved_per_token(LLAMA_70B, 0, unfused) - saved_per_token(LLAMA_70B, 0)
    assert more == scores - logsumexp + 2 * 2 * (64 - 8) * 128


def test_weight_gradients_are_made_apart_without_fusion() -> None:
    base = job(LLAMA_70B, {"seq_length": 256}).model_dump(exclude_unset=True)
    apart = base | {"framework": {"name": "megatron", "gradient_accumulation_fusion": False}}
    fused, unfused = (
        MegatronLedger(run_of(megatron_plan(Job.model_validate(each)))).layer_segments[0]
        for each in (base, apart)
    )
    fc1 = 2 * 8192 * 2 * 28672
    assert unfused.backward.total > fc1
    assert unfused.backward.total > fused.backward.total
    assert unfused.saved == fused.saved


def test_only_measured_kinds_have_a_narrow_interval() -> None:
    def width(**parallelism: Any) -> float:
        stage = answer(job(LLAMA_70B, pp=2, **parallelism)).stages[0].allocated_bytes
        return (stage.high - stage.low) / stage.expected

    assert width() < 0.05
    assert width(pipeline_schedule="gpipe") > 0.19


@pytest.mark.parametrize("ep", [1, 2, 8, 80, 160])
@pytest.mark.parametrize("framework", [{}, {"gradient_accumulation_fusion": False}])
def test_layers_of_the_least_ep_leave_the_same_behind(ep: int, framework: dict[str, Any]) -> None:
    asked = job(DEEPSEEK_V2, num_gpus=160, ep=ep).model_dump(exclude_unset=True)
    asked["framework"] = {"name": "megatron", **framework}
    run = run_of(megatron_plan(Job.model_validate(asked)))
    least = with_least_ep(run)
    assert (least.ep < ep) == (not framework and 1 < ep < 160)
    assert MegatronLedger(least).layer_segments == MegatronLedger(run).layer_segments


def moe_saved_per_token(**changes: Any) -> float:
    spec = DEEPSEEK_V2 | changes
    return saved_per_token(spec, 1)


def test_the_gate_of_shared_experts_keeps_both_its_factors() -> None:
    """Their output [n', h] and one score a token."""
    gate = moe_saved_per_token(moe_shared_expert_gate=True) - moe_saved_per_token()
    assert gate == 2 * 5120 + 2


def test_experts_of_a_latent_are_dispatched_in_its_width() -> None:
    """Rows of fc1's input become narrower, and the second projection keeps what it reads."""
    latent = moe_saved_per_token(moe_latent_size=1024) - moe_saved_per_token()
    assert latent == 2 * 6 * (1024 - 5120) + 2 * 1024
