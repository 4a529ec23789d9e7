"""Weights by name and shape, for mixers that are described by what they are made of."""

from trainfit.specs.blocks import Bucket, NamedWeight, Opaque


def weight(name: str, *shape: int, bucket: Bucket | None = None) -> NamedWeight:
    return NamedWeight(name=name, shape=shape, bucket=bucket)


def linear(
    name: str, out: int, inputs: int, *, bias: bool = False, bucket: Bucket | None = None
) -> tuple[NamedWeight, ...]:
    """A projection [out, in] and its bias [out]."""
    matrix = weight(name, out, inputs, bucket=bucket)
    return (matrix, weight(f"{name}_bias", out, bucket=bucket)) if bias else (matrix,)


def depthwise_convolution(
    name: str, channels: int, kernel: int, *, bias: bool = False
) -> tuple[NamedWeight, ...]:
    """A convolution over the sequence, a filter [kernel] and a bias for each channel."""
    return linear(name, channels, kernel, bias=bias)


def opaque(name: str, bucket: Bucket, *weights: NamedWeight) -> Opaque:
    return Opaque(name=name, bucket=bucket, weights=weights)
