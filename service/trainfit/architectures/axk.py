"""A.X K1 and K2: latent attention with DeepSeek's experts; K2 gates its norms and its attention."""

from collections.abc import Sequence

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import decoder, gated_mlp, layer_count, rms
from trainfit.architectures.experts import deepseek_experts
from trainfit.architectures.latent import latent_attention, lightning_indexer
from trainfit.architectures.layer_patterns import mlp_types
from trainfit.architectures.weights import linear, opaque, weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block, Bucket, Layer, Norm, Opaque, Sublayer

_K1 = {
    "vocab_size": 163840,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 64,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 192,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
}
_K2 = {
    "vocab_size": 163840,
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "moe_intermediate_size": 512,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "q_lora_rank": 384,
    "kv_lora_rank": 128,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "index_n_heads": 16,
    "index_head_dim": 128,
    "gated_norm_rank": 16,
}


def _mlp_types(config: Config) -> Sequence[str]:
    total = layer_count(config)
    first, every = config.int("first_k_dense_replace", 1), config.int("moe_layer_freq", 1)
    default = [
        "sparse" if index >= first and index % every == 0 else "dense" for index in range(total)
    ]
    return mlp_types(config, default)


def _decoder(
    config: Config, attend: Sublayer, feed_forwards: dict[str, Sublayer], norm: Norm
) -> ModelSpec:
    layers = {
        kind: Layer(sublayers=(attend, feed_forward))
        for kind, feed_forward in feed_forwards.items()
    }
    stack = [layers[each] for each in _mlp_types(config)]
    return decoder(config, stack, tied=False, final_norm=norm)


def axk1(config: Config) -> ModelSpec:
    """A norm follows the experts, none the dense feed-forward."""
    config = config.with_defaults(_K1, num_local_experts="n_routed_experts")
    norm = rms(config.int("hidden_size"))
    feed_forwards = {
        "dense": Sublayer(norms=(norm,), blocks=(gated_mlp(config),)),
        "sparse": Sublayer(norms=(norm,), blocks=(deepseek_experts(config),), post_norms=(norm,)),
    }
    attend = Sublayer(norms=(norm,), blocks=(latent_attention(config),))
    return _decoder(config, attend, feed_forwards, norm)


def _norm_gate(config: Config, bucket: Bucket) -> Opaque:
    """A low-rank gate on a norm's output."""
    hidden, rank = config.int("hidden_size"), config.int("gated_norm_rank")
    return opaque("norm_gate", bucket, *linear("fc1", rank, hidden), *linear("fc2", hidden, rank))


def _gated_attention(config: Config) -> tuple[Block, ...]:
    """Queries and an output gate grow from the query latent before and after its norm."""
    attention = latent_attention(config, indexer=lightning_indexer(config))
    queries = attention.qk_nope_head_dim + attention.qk_rope_head_dim
    width = attention.heads * (queries + 2 * attention.v_head_dim)
    gate = weight("q_gate_proj", width, config.int("q_lora_rank"))
    return attention, opaque("query_gate", "attention", gate)


def axk2(config: Config) -> ModelSpec:
    """The norms before attention and experts are gated; their gates are filed by module name."""
    config = config.with_defaults(_K2, num_local_experts="n_routed_experts")
    norm = rms(config.int("hidden_size"))
    feed_forwards = {
        "dense": Sublayer(norms=(norm,), blocks=(gated_mlp(config),)),
        "sparse": Sublayer(
            norms=(norm,), blocks=(deepseek_experts(config), _norm_gate(config, "attention"))
        ),
    }
    gate = _norm_gate(config, "dense_mlp")
    attend = Sublayer(norms=(norm,), blocks=(*_gated_attention(config), gate))
    return _decoder(config, attend, feed_forwards, norm)


PARSERS = {"axk1": axk1, "axk2": axk2}
