"""Falcon: attention and MLP side by side, with one key and value head or a few."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    layer_count,
    layer_norm,
    multi_head_attention,
    parallel_layer,
    pre_norm_layer,
)
from trainfit.architectures.gpt2 import four_times_hidden
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Layer, Mlp, Norm

_FALCON_7B = {
    "vocab_size": 65024,
    "hidden_size": 4544,
    "num_hidden_layers": 32,
    "num_attention_heads": 71,
    "multi_query": True,
    "parallel_attn": True,
}


def _attention(config: Config, *, new: bool, bias: bool) -> Attention:
    """`num_kv_heads` is read in the new architecture only."""
    groups = None
    if new:
        groups = config.optional_int("num_kv_heads")
    elif config.bool("multi_query", False):
        groups = 1
    return multi_head_attention(
        config,
        groups=groups,
        qkv_bias=bias,
        out_bias=bias,
        rope=not config.bool("alibi", False),
    )


def _layer(config: Config, norm: Norm, attention: Attention, mlp: Mlp, *, new: bool) -> Layer:
    """In parallel behind one norm, or in the new architecture behind one each."""
    if not config.bool("parallel_attn", False):
        return pre_norm_layer(norm, attention, mlp)
    norms = config.optional_int("num_ln_in_parallel_attn")
    if norms is None and new:
        norms = 2
    return parallel_layer((norm, norm) if norms == 2 else (norm,), attention, mlp)


def falcon(config: Config) -> ModelSpec:
    config = config.with_defaults(_FALCON_7B, n_embed="hidden_size")
    new = config.bool("new_decoder_architecture", False)
    bias = config.bool("bias", False)
    norm = layer_norm(config.int("hidden_size"))
    mlp = Mlp(ffn=four_times_hidden(config, "ffn_hidden_size"), gated=False, bias=bias)
    layer = _layer(config, norm, _attention(config, new=new, bias=bias), mlp, new=new)
    return decoder(config, [layer] * layer_count(config), tied=True, final_norm=norm)


PARSERS = {"falcon": falcon}
