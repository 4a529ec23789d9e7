"""xLSTM: matrix memories (mLSTM) with a gated feed-forward after each."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import decoder, layer_count, pre_norm_layer
from trainfit.architectures.weights import linear
from trainfit.specs.architecture import Embedding, ModelSpec
from trainfit.specs.blocks import Mlp, Norm, Recurrence

_XLSTM = {
    "vocab_size": 50304,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_heads": 8,
    "use_bias": False,
    "qk_dim_factor": 0.5,
    "v_dim_factor": 1.0,
    "ffn_proj_factor": 2.667,
    "ffn_round_up_to_multiple_of": 64,
}


def xlstm(config: Config) -> ModelSpec:
    """`num_blocks` wins over `num_hidden_layers`; the head is never tied to the embedding.

    `embedding_dim` is the embedding's width, the hidden size where it is null or absent.
    """
    config = config.with_defaults(_XLSTM)
    if config.get("num_blocks") is not None:
        config = config.with_defaults({}, num_blocks="num_hidden_layers")
    hidden, bias = config.int("hidden_size"), config.bool("use_bias")
    norm = Norm(width=hidden, bias=bias)
    layer = pre_norm_layer(norm, _memory(config), Mlp(ffn=_ffn(config), bias=bias))
    layers = [layer] * layer_count(config)
    spec = decoder(config, layers, tied=None, final_norm=Norm(width=hidden))
    width = config.optional_int("embedding_dim")
    if width is None:
        return spec
    return spec.model_copy(update={"embedding": Embedding(rows=spec.embedding.rows, width=width)})


def _memory(config: Config) -> Recurrence:
    """Queries, keys, values and an output gate; an input and a forget gate for each head.

    Source: transformers/models/xlstm/modeling_xlstm.py.
    """
    hidden, heads, bias = (
        config.int("hidden_size"),
        config.int("num_heads"),
        config.bool("use_bias"),
    )
    keys = int(hidden * config.float("qk_dim_factor"))
    values = int(hidden * config.float("v_dim_factor"))
    return Recurrence(
        flavour="mlstm",
        weights=(
            *linear("qkv_output_gate", 2 * keys + 2 * values, hidden, bias=bias),
            *linear("input_forget_gate", 2 * heads, hidden, bias=True),
            *linear("out_proj", hidden, values, bias=bias),
        ),
        norms=(Norm(kind="layernorm", width=values // heads * heads, bias=bias),),
        projected_width=2 * keys + 2 * values + 2 * heads,
        inner_width=values,
        bucket="other",
    )


def _ffn(config: Config) -> int:
    """f: `ffn_proj_factor` times h, rounded up to a multiple."""
    multiple = config.int("ffn_round_up_to_multiple_of")
    width = config.int("hidden_size") * config.float("ffn_proj_factor")
    return int((width + multiple - 1) // multiple) * multiple


PARSERS = {"xlstm": xlstm}
