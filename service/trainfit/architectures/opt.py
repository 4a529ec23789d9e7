"""OPT, XGLM and BioGPT: decoders of the fairseq line, LayerNorms and biases throughout."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    layer_count,
    layer_norm,
    multi_head_attention,
    plain_mlp,
    post_norm_layer,
    pre_norm_layer,
)
from trainfit.architectures.gpt2 import refuse_cross_attention
from trainfit.specs.architecture import Embedding, ModelSpec
from trainfit.specs.blocks import NamedWeight, Norm, Opaque

_OPT_125M = {
    "vocab_size": 50272,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "max_position_embeddings": 2048,
}
_XGLM_564M = {
    "vocab_size": 256008,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
}
_BIOGPT = {
    "vocab_size": 42384,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "max_position_embeddings": 1024,
}

_RESERVED_POSITIONS = 2
"""The first rows of the position table, which no token uses."""


def opt(config: Config) -> ModelSpec:
    config = config.with_defaults(_OPT_125M, ffn_dim="intermediate_size")
    hidden = config.int("hidden_size")
    bias = config.bool("enable_bias", True)
    affine = config.bool("layer_norm_elementwise_affine", True)
    norm = Norm(kind="layernorm", width=hidden, weight=affine, bias=affine)
    norm_first = config.bool("do_layer_norm_before", True)
    attention = multi_head_attention(config, qkv_bias=bias, out_bias=bias, rope=False)
    layer = (pre_norm_layer if norm_first else post_norm_layer)(
        norm, attention, plain_mlp(config, bias=bias)
    )
    ends_normed = norm_first and not config.bool("_remove_final_layer_norm", False)
    spec = decoder(
        config,
        [layer] * layer_count(config),
        tied=True,
        final_norm=norm if ends_normed else None,
        position_rows=config.int("max_position_embeddings") + _RESERVED_POSITIONS,
    )
    width = config.optional_int("word_embed_proj_dim")
    return spec if width is None or width == hidden else _projected(spec, width)


def _projected(spec: ModelSpec, width: int) -> ModelSpec:
    """Token embedding and output layer of their own width, between two projections."""
    hidden, head = spec.hidden_size, spec.output_layer
    embedding = Embedding(
        rows=spec.embedding.rows,
        width=width,
        position_rows=spec.embedding.position_rows,
        position_width=hidden,
    )
    projections = Opaque(
        name="embedding_projections",
        bucket="other",
        weights=(
            NamedWeight(name="project_in", shape=(hidden, width)),
            NamedWeight(name="project_out", shape=(width, hidden)),
        ),
    )
    return spec.model_copy(
        update={
            "embedding": embedding,
            "output_layer": head.model_copy(update={"width": width}),
            "extras": (projections,),
        }
    )


def xglm(config: Config) -> ModelSpec:
    """Sinusoidal positions."""
    config = config.with_defaults(
        _XGLM_564M,
        d_model="hidden_size",
        ffn_dim="intermediate_size",
        num_layers="num_hidden_layers",
        attention_heads="num_attention_heads",
    )
    refuse_cross_attention(config)
    norm = layer_norm(config.int("hidden_size"))
    attention = multi_head_attention(config, qkv_bias=True, out_bias=True, rope=False)
    layer = pre_norm_layer(norm, attention, plain_mlp(config, bias=True))
    return decoder(config, [layer] * layer_count(config), tied=True, final_norm=norm)


def biogpt(config: Config) -> ModelSpec:
    config = config.with_defaults(_BIOGPT)
    norm = layer_norm(config.int("hidden_size"))
    attention = multi_head_attention(config, qkv_bias=True, out_bias=True, rope=False)
    layer = pre_norm_layer(norm, attention, plain_mlp(config, bias=True))
    return decoder(
        config,
        [layer] * layer_count(config),
        tied=True,
        final_norm=norm,
        position_rows=config.int("max_position_embeddings") + _RESERVED_POSITIONS,
    )


PARSERS = {"biogpt": biogpt, "opt": opt, "xglm": xglm}
