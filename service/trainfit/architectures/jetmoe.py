"""JetMoE: experts for feed-forwards and for the query and output projections of attention."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import decoder, layer_count, pre_norm_layer, rms
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.weights import opaque, weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention

_JETMOE = {
    "vocab_size": 32000,
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 12,
    "num_key_value_heads": 16,
    "kv_channels": 128,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}


def jetmoe(config: Config) -> ModelSpec:
    """Both mixtures add a bias to what their experts return."""
    config = config.with_defaults(_JETMOE, head_dim="kv_channels")
    hidden = config.int("hidden_size")
    experts = routed_experts(config, "num_local_experts", "intermediate_size")
    groups = config.int("num_key_value_heads")
    attention = Attention(
        heads=groups * experts.top_k,
        kv_heads=groups,
        head_dim=config.int("kv_channels"),
        query_experts=experts.experts,
    )
    norm = rms(hidden)
    bias = opaque("output_bias", "routed_experts", weight("output_bias", hidden))
    router = opaque("query_router", "router", weight("query_router", experts.experts, hidden))
    layer = pre_norm_layer(norm, (attention, router, bias), (experts, bias))
    return decoder(config, [layer] * layer_count(config), tied=True, final_norm=norm)


PARSERS = {"jetmoe": jetmoe}
