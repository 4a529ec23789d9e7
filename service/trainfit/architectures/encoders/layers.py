"""Parameters of the layers that towers are made of, and the reading of their sizes."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Literal, NamedTuple

from trainfit.architectures.config import MISSING, Config
from trainfit.specs.blocks import Norm
from trainfit.specs.encoder import Encoder, Projection

MAX_SIZE = 4_194_304
"""No dimension of a tower is larger; the bound keeps counts small enough to compute with."""

DEPTH_AND_HEADS = {"num_hidden_layers": "depth", "num_attention_heads": "num_heads"}
"""The other names of two keys, in classes that go by `depth` and `num_heads`."""


class Tower(NamedTuple):
    """What a projector needs to know of a tower: the width of its features and its parameters.

    `frozen` are those of the parameters that the class never trains, `merger` those of a projector
    that stands in the tower. `encoder` is given where its activations are known.
    """

    width: int
    parameters: int
    frozen: int = 0
    merger: int = 0
    encoder: Encoder | None = None


def plain_encoder(sizes: Config, defaults: Mapping[str, int], **of_class: Any) -> Encoder | None:
    """A tower of layers of two layer norms, attention and two linears, if it has a layer at all;
    `defaults` and what is `of_class` are those of its class.
    """
    given = sizes.with_defaults(defaults)
    depth = count(given, "num_hidden_layers")
    if not depth:
        return None
    return Encoder(
        **{
            "num_layers": depth,
            "hidden_size": size(given, "hidden_size"),
            "ffn_hidden_size": size(given, "intermediate_size"),
            "heads": size(given, "num_attention_heads", 16),
            "norm": "layernorm",
            "gated": False,
            "activation": given.str("hidden_act", "gelu"),
            "patch_values": patch_pixels(given, 14),
            "patches_per_token": 1,
            **of_class,
        }
    )


def projected(encoder: Encoder | None, *steps: Projection, patches: int = 1) -> Encoder | None:
    """The tower behind which these steps make one token of the text from so many patches."""
    if encoder is None:
        return None
    return encoder.model_copy(update={"projector": steps, "patches_per_token": patches})


def linear_step(width: int, name: str = "", *, bias: bool = True) -> Projection:
    return Projection(kind="linear", width=width, name=name, bias=bias)


def two_linears(width: int, *, activation: str = "gelu", bias: bool = True) -> list[Projection]:
    """Both to the text's width, with an activation between."""
    between = Projection(kind="activation", width=width, activation=activation)
    first, second = (linear_step(width, f"linear_{each}", bias=bias) for each in (1, 2))
    return [first, between, second]


def norm_step(width: int, kind: Literal["rmsnorm", "layernorm"]) -> Projection:
    norm = Norm(kind=kind, width=width, bias=kind == "layernorm")
    return Projection(kind="norm", width=width, norm=norm)


def size(config: Config, key: str, default: Any = MISSING) -> int:
    """A dimension: an integer between 1 and MAX_SIZE."""
    return _bounded(config, key, config.int(key, default), 1)


def count(config: Config, key: str, default: Any = MISSING) -> int:
    """A number of layers or tokens, which may be none."""
    return _bounded(config, key, config.int(key, default), 0)


def sizes(config: Config, key: str, default: Any = MISSING) -> tuple[int, ...]:
    """A list of dimensions."""
    values = config.list(key, default)
    if len(values) > 64:
        raise config.error(key, "holds too many dimensions")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int):
            raise config.error(key, "must hold integers")
        _bounded(config, key, value, 1)
    return tuple(values)


def pair(config: Config, key: str, default: Any = MISSING) -> tuple[int, int]:
    """Two dimensions, the first one given first."""
    values = sizes(config, key, default)
    if len(values) != 2:
        raise config.error(key, "must be two numbers")
    return values[0], values[1]


def scaled(config: Config, width: int, key: str, default: float) -> int:
    """A hidden width that is given as a ratio to `width`."""
    ratio = config.float(key, default)
    if not 0 < ratio <= 1024:
        raise config.error(key, "must be a ratio between 0 and 1024")
    return int(width * ratio)


def plane(config: Config, key: str, default: int) -> tuple[int, int]:
    """Height and width, given as a pair or as one number for both."""
    if not isinstance(config.get(key), Sequence):
        side = size(config, key, default)
        return side, side
    return pair(config, key)


def frame_pixels(config: Config, patch: int) -> int:
    """Values in one patch of `temporal_patch_size` frames; `patch` is the class's default."""
    frames = size(config, "temporal_patch_size", 2) * size(config, "in_channels", 3)
    return frames * prod(plane(config, "patch_size", patch))


def patches(config: Config, image: int, patch: int) -> int:
    """Patches that a whole image is cut into; the arguments are the class's defaults."""
    height, width = plane(config, "image_size", image)
    rows, columns = plane(config, "patch_size", patch)
    return (height // rows) * (width // columns)


def patch_pixels(config: Config, patch: int) -> int:
    """Values in one patch of one frame."""
    return prod(plane(config, "patch_size", patch)) * size(config, "num_channels", 3)


def linear(inputs: int, outputs: int, *, bias: bool = True) -> int:
    return inputs * outputs + (outputs if bias else 0)


def convolution(inputs: int, outputs: int, *kernel: int, bias: bool = True) -> int:
    return linear(inputs * prod(kernel), outputs, bias=bias)


def layer_norm(width: int) -> int:
    return 2 * width


def attention(
    width: int,
    *,
    query: int | None = None,
    key_value: int | None = None,
    qkv_bias: bool = True,
    out_bias: bool = True,
) -> int:
    """Self-attention of `width`; `query` and `key_value` are all heads together."""
    inner = width if query is None else query
    shared = inner if key_value is None else key_value
    return (
        linear(width, inner, bias=qkv_bias)
        + 2 * linear(width, shared, bias=qkv_bias)
        + linear(inner, width, bias=out_bias)
    )


def mlp(
    width: int, ffn: int, outputs: int | None = None, *, gated: bool = False, bias: bool = True
) -> int:
    """Linear layers over a hidden width `ffn`, back to `width` or on to `outputs`."""
    inputs = 2 if gated else 1
    return inputs * linear(width, ffn, bias=bias) + linear(ffn, outputs or width, bias=bias)


def transformer_layer(width: int, ffn: int) -> int:
    """The layer that most towers share: layer norms, plain feed-forward, biases everywhere."""
    return 2 * layer_norm(width) + attention(width) + mlp(width, ffn)


def _bounded(config: Config, key: str, value: int, least: int) -> int:
    if not least <= value <= MAX_SIZE:
        raise config.error(key, f"must be between {least} and {MAX_SIZE}")
    return value
