"""Hyper-connections: several residual streams, mixed before and after each block."""

from trainfit.architectures.weights import opaque, weight
from trainfit.specs.blocks import Bucket, Opaque


def hyper_connection(
    bucket: Bucket, hidden: int, streams: int, *, mixes: int, scales: int
) -> Opaque:
    """What mixes the streams around one block: `mixes` coefficients from all of them together."""
    return opaque(
        "hyper_connection",
        bucket,
        weight("fn", mixes, streams * hidden),
        weight("base", mixes),
        weight("scale", scales),
    )


def hyper_head(hidden: int, streams: int) -> Opaque:
    """What joins the streams before the final norm."""
    return opaque(
        "hyper_head",
        "other",
        weight("hc_fn", streams, streams * hidden),
        weight("hc_base", streams),
        weight("hc_scale", 1),
    )
