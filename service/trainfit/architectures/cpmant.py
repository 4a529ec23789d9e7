"""CPM-Ant: prompts in the token table, segments, and a table of relative positions."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import decoder, layer_count, pre_norm_layer, rms
from trainfit.specs.architecture import Embedding, ModelSpec
from trainfit.specs.blocks import Attention, Mlp, NamedWeight, Opaque

_CPM_ANT = {
    "vocab_size": 30720,
    "hidden_size": 4096,
    "dim_ff": 10240,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "dim_head": 128,
    "prompt_types": 32,
    "prompt_length": 32,
    "segment_types": 32,
    "position_bias_num_buckets": 512,
}


def cpmant(config: Config) -> ModelSpec:
    config = config.with_defaults(_CPM_ANT)
    hidden, heads = config.int("hidden_size"), config.int("num_attention_heads")
    segments = config.int("segment_types")
    attention = Attention(heads=heads, kv_heads=heads, head_dim=config.int("dim_head"), rope=False)
    layer = pre_norm_layer(rms(hidden), attention, Mlp(ffn=config.int("dim_ff")))
    positions = segments * segments + config.int("position_bias_num_buckets")
    tables = Opaque(
        name="segments_and_positions",
        bucket="other",
        weights=(
            NamedWeight(name="segment_embedding", shape=(segments, hidden)),
            NamedWeight(name="relative_attention_bias", shape=(positions, heads)),
        ),
    )
    spec = decoder(
        config,
        [layer] * layer_count(config),
        tied=None,
        final_norm=rms(hidden),
        extras=(tables,),
    )
    prompts = config.int("prompt_types") * config.int("prompt_length")
    rows = spec.embedding.rows + prompts
    return spec.model_copy(update={"embedding": Embedding(rows=rows, width=hidden)})


PARSERS = {"cpmant": cpmant}
