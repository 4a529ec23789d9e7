"""Random jobs that hold together: a model and a layout that divides it."""

from typing import Any

from hypothesis import strategies as st

from trainfit.questions.estimate import plan_of
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.specs.job import Job


@st.composite
def models(draw: st.DrawFn) -> dict[str, Any]:
    """A small GPT in Megatron's names: dense or with experts, grouped-query or latent attention."""
    heads = draw(st.sampled_from([8, 16, 24]))
    spec: dict[str, Any] = {
        "num_layers": draw(st.sampled_from([4, 8, 12])),
        "hidden_size": heads * draw(st.sampled_from([16, 32])),
        "num_attention_heads": heads,
        "num_query_groups": draw(st.sampled_from([1, 2, 4, 8])),
        "vocab_size": draw(st.integers(100, 5000)),
        "ffn_hidden_size": 8 * draw(st.integers(1, 60)),
        "normalization": draw(st.sampled_from(["LayerNorm", "RMSNorm"])),
        "swiglu": draw(st.booleans()),
        "add_bias_linear": draw(st.booleans()),
        "qk_layernorm": draw(st.booleans()),
        "position_embedding_type": draw(st.sampled_from(["rope", "learned_absolute"])),
        "max_position_embeddings": draw(st.integers(4096, 8192)),
        "untie_embeddings_and_output_weights": draw(st.booleans()),
        "mtp_num_layers": draw(st.sampled_from([0, 1, 2])),
    }
    if draw(st.booleans()):
        spec |= {
            "multi_latent_attention": True,
            "q_lora_rank": draw(st.sampled_from([None, 24])),
            "kv_lora_rank": 32,
            "qk_head_dim": 16,
            "qk_pos_emb_head_dim": 8,
            "v_head_dim": 16,
        }
    if draw(st.booleans()):
        spec |= {
            "num_moe_experts": draw(st.sampled_from([8, 16])),
            "moe_router_topk": draw(st.integers(1, 4)),
            "moe_ffn_hidden_size": 8 * draw(st.integers(1, 30)),
            "moe_layer_freq": draw(st.sampled_from([1, 2])),
            "moe_shared_expert_intermediate_size": draw(st.sampled_from([None, 64])),
        }
    return spec


@st.composite
def layouts(draw: st.DrawFn, *, experts: bool) -> dict[str, Any]:
    """Sizes that divide every model of `models`."""
    tp = draw(st.sampled_from([1, 2, 4, 8]))
    pp = draw(st.sampled_from([1, 2, 4]))
    layout: dict[str, Any] = {
        "tp": tp,
        "pp": pp,
        "cp": draw(st.sampled_from([1, 2])),
        "data_parallel_sharding_strategy": draw(st.sampled_from(["optim", "no_shard"])),
    }
    if experts:
        layout |= {
            "ep": draw(st.sampled_from([1, 2, 8])),
            "etp": draw(st.sampled_from([1, tp])),
        }
    dense, expert = tp * layout["cp"], layout.get("ep", 1) * layout.get("etp", tp)
    layout["num_gpus"] = pp * dense * expert * draw(st.sampled_from([1, 2, 3]))
    return layout


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    spec = draw(models())
    parallelism = draw(layouts(experts="num_moe_experts" in spec))
    block = {"granularity": "full", "method": "block", "num_layers": 1}
    if spec["mtp_num_layers"]:
        block = {"granularity": "full"}
    training = {
        "micro_batch_size": draw(st.sampled_from([1, 2])),
        "seq_length": draw(st.sampled_from([512, 1024])),
        "num_microbatches": draw(st.sampled_from([None, 1, 3, 16])),
        "precision": draw(st.sampled_from(["bf16", "fp8"])),
        "recompute": draw(
            st.sampled_from(
                [
                    {},
                    {"granularity": "full", "method": "uniform", "num_layers": 1},
                    block,
                    {"granularity": "selective", "modules": ["core_attn", "layernorm"]},
                    {"granularity": "selective", "modules": ["mla_up_proj", "moe_act", "mlp"]},
                    {"granularity": "selective", "modules": ["moe", "shared_experts"]},
                ]
            )
        ),
    }
    return Job.model_validate(
        {"model": {"spec": spec}, "parallelism": parallelism, "training": training}
    )


@st.composite
def plans(draw: st.DrawFn) -> MegatronPlan:
    return megatron_plan(draw(jobs()))


def megatron_plan(job: Job) -> MegatronPlan:
    plan = plan_of(job)
    assert isinstance(plan, MegatronPlan)
    return plan
