"""Zamba 1 and 2: Mamba layers, some of which run a shared transformer block first.

The shared block reads the hidden state and the embedding side by side, 2h wide. Its weights are
counted where it runs first; later runs use them again.
"""

from collections.abc import Sequence
from itertools import chain

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import decoder, kv_heads, layer_count, rms
from trainfit.architectures.layer_patterns import named_layers
from trainfit.architectures.state_space import mamba2_mixer, mamba_mixer, time_step_rank
from trainfit.architectures.weights import linear, opaque, weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import (
    Attention,
    Layer,
    Mlp,
    NamedWeight,
    Norm,
    Opaque,
    Recurrence,
    Sublayer,
)

_ZAMBA = {
    "vocab_size": 32000,
    "hidden_size": 3712,
    "attention_hidden_size": None,
    "intermediate_size": 14848,
    "num_hidden_layers": 76,
    "num_attention_heads": 16,
    "attention_head_dim": None,
    "num_key_value_heads": 16,
    "n_mamba_heads": 2,
    "attn_layer_period": 6,
    "attn_layer_offset": 4,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_dt_rank": "auto",
    "mamba_conv_bias": True,
    "mamba_proj_bias": False,
}
_ZAMBA2 = {
    "vocab_size": 32000,
    "hidden_size": 2560,
    "attention_hidden_size": None,
    "num_hidden_layers": 54,
    "intermediate_size": None,
    "num_attention_heads": 32,
    "attention_head_dim": None,
    "num_key_value_heads": None,
    "mamba_d_state": 64,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_ngroups": 1,
    "n_mamba_heads": 8,
    "add_bias_linear": False,
    "num_mem_blocks": 1,
    "use_shared_attention_adapter": False,
    "adapter_rank": 128,
}
_ALIASES = {"layer_types": "layers_block_type", "head_dim": "attention_head_dim"}
_LAYER_TYPES = ("linear_attention", "hybrid")
_ZAMBA2_LAYERS = "M" + "MMMMMH" * 7 + "MMMMH" + "MMMH" + "MM"
"""Zamba 2's own pattern: M is Mamba alone, H runs a shared block first."""

_SharedBlock = tuple[Sublayer, ...]


def zamba(config: Config) -> ModelSpec:
    """One shared block, in the third layer and then every `attn_layer_period`."""
    config = config.with_defaults(_ZAMBA, **_ALIASES)
    period, offset = config.int("attn_layer_period"), config.int("attn_layer_offset")
    shares = _shares(
        config,
        [i == 2 or (i > 2 and (i - 3) % period == offset) for i in range(layer_count(config))],
    )
    mlp = Mlp(ffn=config.int("intermediate_size"))
    first, again = _shared_block(config, mlp), _shared_block(config, mlp, again=True)
    return _decoder(config, shares, _mamba(config), [first], again)


def zamba2(config: Config) -> ModelSpec:
    """`num_mem_blocks` shared blocks in turn, with low-rank adapters of its own for each run."""
    config = config.with_defaults(_ZAMBA2, **_ALIASES)
    layers, blocks = layer_count(config), config.int("num_mem_blocks")
    if config.get("layers_block_type") is None and layers != len(_ZAMBA2_LAYERS):
        raise config.error("layers_block_type", f"is needed where there are {layers} layers")
    shares = _shares(config, [kind == "H" for kind in _ZAMBA2_LAYERS.ljust(layers)[:layers]])
    runs = sum(shares)
    if "hybrid_layer_ids" in config and len(config.list("hybrid_layer_ids")) != runs:
        raise config.error("hybrid_layer_ids", f"must name the {runs} hybrid layers")
    mlp = Mlp(
        ffn=config.optional_int("intermediate_size") or 4 * config.int("hidden_size"),
        bias=config.bool("add_bias_linear"),
    )
    first = [
        _shared_block(config, mlp, adapters=len(range(block, runs, blocks)))
        for block in range(min(blocks, runs))
    ]
    return _decoder(config, shares, _mamba2(config), first, _shared_block(config, mlp, again=True))


def _shares(config: Config, default: Sequence[bool]) -> Sequence[bool]:
    """Which layers run a shared block: those that `layers_block_type` calls hybrid."""
    names = [_LAYER_TYPES[hybrid] for hybrid in default]
    given = named_layers(config, "layers_block_type", names, _LAYER_TYPES)
    return [name == "hybrid" for name in given]


def _decoder(
    config: Config,
    shares: Sequence[bool],
    mixer: Recurrence,
    first: Sequence[_SharedBlock],
    again: _SharedBlock,
) -> ModelSpec:
    """Blocks take turns. Where embeddings are not tied, nothing is: each run has its own copy."""
    norm = rms(config.int("hidden_size"))
    alone = Sublayer(norms=(norm,), blocks=(mixer,))
    plain, rerun = Layer(sublayers=(alone,)), Layer(sublayers=(*again, alone))
    fresh = [Layer(sublayers=(*block, alone)) for block in first]
    runs = sum(shares)
    owned = runs if not config.bool("tie_word_embeddings", True) else len(fresh)
    turns = iter([fresh[run % len(fresh)] if run < owned else rerun for run in range(runs)])
    layers = [next(turns) if hybrid else plain for hybrid in shares]
    return decoder(config, layers, tied=True, final_norm=norm)


def _shared_block(
    config: Config, mlp: Mlp, *, again: bool = False, adapters: int = 0
) -> _SharedBlock:
    """Attention, feed-forward and the layer's own projection that leads into its mixer.

    The adapters of all runs of a block stand where it runs first.
    """
    hidden, heads = config.int("hidden_size"), config.int("num_attention_heads")
    width = config.optional_int("attention_hidden_size") or 2 * hidden
    attention = Attention(
        heads=heads,
        kv_heads=kv_heads(config, heads),
        head_dim=config.optional_int("attention_head_dim") or 2 * hidden // heads,
        input_size=width,
        rope=config.bool("use_mem_rope", False),
        reuses_weights=again,
    )
    feed_forward = mlp.model_copy(update={"reuses_weights": again})
    leading = opaque("linear", "other", *linear("linear", hidden, hidden))
    return (
        Sublayer(
            norms=(Norm(width=width, weight=not again),),
            blocks=(attention, *_attention_adapters(config, width, adapters)),
        ),
        Sublayer(
            norms=(Norm(width=hidden, weight=not again),),
            blocks=(feed_forward, *_mlp_adapters(config, mlp.ffn, adapters)),
        ),
        Sublayer(blocks=(leading,)),
    )


def _attention_adapters(config: Config, width: int, runs: int) -> tuple[Opaque, ...]:
    if not runs or not config.bool("use_shared_attention_adapter"):
        return ()
    rank = config.int("adapter_rank")
    pairs = [_adapter(name, runs, rank, width, width) for name in ("q", "k", "v")]
    return (opaque("attention_adapters", "attention", *chain(*pairs)),)


def _mlp_adapters(config: Config, ffn: int, runs: int) -> tuple[Opaque, ...]:
    if not runs:
        return ()
    rank, hidden = config.int("adapter_rank"), config.int("hidden_size")
    adapters = _adapter("gate_up", runs, rank, hidden, 2 * ffn)
    return (opaque("mlp_adapters", "dense_mlp", *adapters),)


def _adapter(name: str, runs: int, rank: int, inputs: int, out: int) -> tuple[NamedWeight, ...]:
    return (
        weight(f"{name}_adapter_down", runs, rank, inputs),
        weight(f"{name}_adapter_up", runs, out, rank),
    )


def _mamba(config: Config) -> Recurrence:
    """Mamba 1, whose heads share out the inner width without changing any shape's size."""
    hidden = config.int("hidden_size")
    inner = config.int("mamba_expand") * hidden
    if inner % config.int("n_mamba_heads"):
        raise config.error("n_mamba_heads", f"must divide the inner width {inner}")
    return mamba_mixer(
        hidden,
        inner=inner,
        state=config.int("mamba_d_state"),
        rank=time_step_rank(config, "mamba_dt_rank"),
        kernel=config.int("mamba_d_conv"),
        bias=config.bool("mamba_proj_bias"),
        conv_bias=config.bool("mamba_conv_bias"),
    )


def _mamba2(config: Config) -> Recurrence:
    """Mamba 2, its convolution biased whatever the config says."""
    hidden, bias = config.int("hidden_size"), config.bool("add_bias_linear")
    return mamba2_mixer(
        hidden,
        inner=config.int("mamba_expand") * hidden,
        heads=config.int("n_mamba_heads"),
        groups=config.int("mamba_ngroups"),
        state=config.int("mamba_d_state"),
        kernel=config.int("mamba_d_conv"),
        in_bias=bias,
        out_bias=bias,
        conv_bias=True,
    )


PARSERS = {"zamba": zamba, "zamba2": zamba2}
