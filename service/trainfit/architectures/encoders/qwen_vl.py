"""The image towers of Qwen-VL: patches of two frames, merged two by two into the text's width."""

from typing import Literal

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    DEPTH_AND_HEADS,
    Tower,
    attention,
    count,
    frame_pixels,
    layer_norm,
    linear,
    linear_step,
    mlp,
    norm_step,
    scaled,
    size,
    transformer_layer,
)
from trainfit.specs.encoder import Encoder, Projection

QWEN3_LINEARS = "linear_fc1", "linear_fc2"


def qwen2_vl_vision(config: Config) -> Tower:
    """Here `hidden_size` is the text's width and `embed_dim` the tower's own."""
    sizes = config.with_defaults({}, **DEPTH_AND_HEADS)
    width = size(sizes, "embed_dim", 1280)
    ffn = scaled(sizes, width, "mlp_ratio", 4)
    text = size(sizes, "hidden_size", 3584)
    merged = _merged(sizes, width)
    merger = layer_norm(width) + mlp(merged, merged, text)
    parameters = (
        linear(frame_pixels(sizes, 14), width, bias=False)
        + count(sizes, "depth", 32) * transformer_layer(width, ffn)
        + merger
    )
    encoder = _encoder(
        sizes, width, ffn, patch=14, text=text, activation=sizes.str("hidden_act", "quick_gelu")
    )
    return Tower(text, parameters, merger=merger, encoder=encoder)


def qwen2_5_vl_vision(config: Config) -> Tower:
    sizes = config.with_defaults({}, **DEPTH_AND_HEADS)
    width = size(sizes, "hidden_size", 3584)
    return _gated_tower(sizes, attention(width))


def exaone4_5_vision(config: Config) -> Tower:
    """The tower of Qwen2.5-VL with grouped keys and values."""
    sizes = config.with_defaults({}, **DEPTH_AND_HEADS)
    width = size(sizes, "hidden_size", 3584)
    head = width // size(sizes, "num_heads", 16)
    grouped = head * size(sizes, "num_key_value_heads", 8)
    return _gated_tower(sizes, attention(width, key_value=grouped))


def qwen3_vl_vision(config: Config) -> Tower:
    """With a merger more for every layer whose features enter the text layers (DeepStack)."""
    sizes = config.with_defaults({}, **DEPTH_AND_HEADS)
    deep = len(sizes.list("deepstack_visual_indexes", (8, 16, 24)))
    _, text, merged = _qwen3_widths(sizes)
    deep_merger = layer_norm(merged) + mlp(merged, merged, text)
    parameters = _qwen3_tower(sizes) + deep * deep_merger
    encoder = _qwen3_encoder(sizes, deep)
    return Tower(text, parameters, merger=_qwen3_merger(sizes), encoder=encoder)


def qwen3_5_vision(config: Config) -> Tower:
    """The tower of Qwen3-VL without DeepStack."""
    sizes = config.with_defaults({}, **DEPTH_AND_HEADS)
    text, parameters = size(sizes, "out_hidden_size", 3584), _qwen3_tower(sizes)
    return Tower(text, parameters, merger=_qwen3_merger(sizes), encoder=_qwen3_encoder(sizes))


def _gated_tower(sizes: Config, attention_parameters: int) -> Tower:
    width = size(sizes, "hidden_size", 3584)
    text = size(sizes, "out_hidden_size", 3584)
    merged = _merged(sizes, width)
    ffn = size(sizes, "intermediate_size", 3420)
    layer = 2 * width + attention_parameters + mlp(width, ffn, gated=True)
    merger = width + mlp(merged, merged, text)
    parameters = (
        linear(frame_pixels(sizes, 14), width, bias=False)
        + count(sizes, "depth", 32) * layer
        + merger
    )
    activation = sizes.str("hidden_act", "silu")
    encoder = _encoder(sizes, width, ffn, patch=14, text=text, activation=activation, gated=True)
    return Tower(text, parameters, merger=merger, encoder=encoder)


def _encoder(
    sizes: Config,
    width: int,
    ffn: int,
    *,
    patch: int,
    text: int,
    activation: str,
    gated: bool = False,
    deep: int = 0,
    linears: tuple[str, str] = ("fc1", "fc2"),
    merging: tuple[str, str] = ("0", "2"),
    of_megatron: bool = False,
) -> Encoder | None:
    """The tower, if it has a layer at all. Those with gated networks have norms without bias.
    Products of the merger are `merging`.
    """
    depth, side = count(sizes, "depth", 32), size(sizes, "spatial_merge_size", 2)
    if not depth:
        return None
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm" if gated else "layernorm"
    merged = width * side**2
    return Encoder(
        num_layers=depth,
        hidden_size=width,
        ffn_hidden_size=ffn,
        patches_per_token=side**2,
        heads=size(sizes, "num_heads", 16),
        norm=norm,
        gated=gated,
        activation=activation,
        patch_values=frame_pixels(sizes, patch),
        packed_qkv=True,
        linears=("proj", *linears),
        rotary=True,
        projector=(
            norm_step(width, norm),
            Projection(kind="merge", width=merged),
            linear_step(merged, merging[0]),
            Projection(kind="activation", width=merged),
            linear_step(text, merging[1]),
        ),
        deep_mergers=deep,
        of_megatron=of_megatron,
    )


def _qwen3_encoder(sizes: Config, deep: int = 0) -> Encoder | None:
    depths = sizes.with_defaults({"depth": 27})
    width, text, _ = _qwen3_widths(sizes)
    return _encoder(
        depths,
        width,
        size(sizes, "intermediate_size", 4304),
        patch=16,
        text=text,
        activation=sizes.str("hidden_act", "gelu_pytorch_tanh"),
        deep=deep,
        linears=QWEN3_LINEARS,
        merging=QWEN3_LINEARS,
        of_megatron=True,
    )


def _qwen3_tower(sizes: Config) -> int:
    width, _, _ = _qwen3_widths(sizes)
    return (
        linear(frame_pixels(sizes, 16), width)
        + size(sizes, "num_position_embeddings", 2304) * width
        + count(sizes, "depth", 27)
        * transformer_layer(width, size(sizes, "intermediate_size", 4304))
        + _qwen3_merger(sizes)
    )


def _qwen3_merger(sizes: Config) -> int:
    width, text, merged = _qwen3_widths(sizes)
    return layer_norm(width) + mlp(merged, merged, text)


def _qwen3_widths(sizes: Config) -> tuple[int, int, int]:
    """The tower's width, the text's, and that of merged patches."""
    width = size(sizes, "hidden_size", 1152)
    return width, size(sizes, "out_hidden_size", 3584), _merged(sizes, width)


def _merged(sizes: Config, width: int) -> int:
    return int(width * size(sizes, "spatial_merge_size", 2) ** 2)
