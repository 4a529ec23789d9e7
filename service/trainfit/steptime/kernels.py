"""Seconds of kernels on one GPU: products, attention, what only moves memory.

A product takes the longer of its arithmetic and its memory; arithmetic reaches less of the peak
where a side of it is short, as tiles and waves are left half empty.
"""

from trainfit.catalog.speed import GpuSpeed
from trainfit.estimator.demands import Attention, Product

SHORT_SIDE = 128
"""Elements of a side at which a product takes as long again for what its tiles leave empty."""
BF16 = 2
BYTE = 1
CAST = 2 * BF16 + BYTE
"""Bytes that casting an element to fp8 moves: it is read for its scale, and again, and written."""
BACKWARD_OF_ATTENTION = 2.5
"""Products of attention's backward to those of its forward: five to two (2205.14135)."""
SCORE_PASSES = 5
"""Times that unfused attention reads or writes its scores, one way; in backward, as often again."""


def product_seconds(product: Product, gpu: GpuSpeed, *, fp8: bool, ep: int) -> float:
    """One product, of forward or of backward, with the cast of what it reads where that is fp8."""
    rows, inputs, features, experts, _, narrow = product
    matrices = max(1.0, experts / ep)
    narrow = narrow and fp8 and gpu.fp8_flops is not None and gpu.reach.fp8 is not None
    if narrow:
        assert gpu.fp8_flops is not None
        assert gpu.reach.fp8 is not None
        peak, width = gpu.fp8_flops * gpu.reach.fp8, BYTE
    else:
        peak, width = gpu.bf16_flops * gpu.reach.bf16, BF16
    short = 1 + SHORT_SIDE * (matrices / rows + 1 / inputs + 1 / features)
    arithmetic = 2 * rows * inputs * features * short / peak
    moved = width * (rows * inputs + matrices * inputs * features) + BF16 * rows * features
    cast = moved_seconds(CAST * rows * inputs, gpu) if narrow else 0.0
    return max(arithmetic, moved_seconds(moved, gpu)) + cast


def attention_seconds(attention: Attention, gpu: GpuSpeed) -> float:
    """Attention's forward. Unfused, its scores go to memory and back, those of later keys too."""
    queries, heads, widths, keys, _, score_bytes = attention
    if not score_bytes:
        flops = 2 * queries * heads * widths * attention.span
        return flops / (gpu.bf16_flops * gpu.reach.attention)
    flops = 2 * queries * heads * widths * keys
    scores = score_bytes * queries * heads * keys
    moved = moved_seconds(SCORE_PASSES * scores, gpu)
    return flops / (gpu.bf16_flops * gpu.reach.bf16) + moved


def moved_seconds(size: float, gpu: GpuSpeed) -> float:
    """So many bytes read or written."""
    return size / (gpu.memory_bytes_per_second * gpu.reach.memory)


def model_flops(product: Product) -> int:
    """Of a product's forward and backward, once each."""
    return 2 * product.rows * product.inputs * product.features * (1 + product.gradients)


def attention_flops(attention: Attention) -> float:
    """The same of attention, without what causality leaves out."""
    return 6 * attention.queries * attention.heads * attention.widths * attention.span
