"""Seconds of kernels on one GPU: products, attention, what only moves memory.

A product takes the longer of its arithmetic and its memory; arithmetic reaches less of the peak
where tiles, or the last wave of them, are left half empty.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import NamedTuple

from trainfit.catalog.speed import GpuSpeed, Stack
from trainfit.estimator.demands import AttentionDemand, Product
from trainfit.estimator.frameworks.framework import Execution
from trainfit.resolve.narrow import COPIES
from trainfit.specs.precision import Narrow
from trainfit.specs.speed import MeasuredProduct
from trainfit.steptime.measured import Measured, MeasuredRatio

TILES = ((256, 128, 1.0), (128, 256, 1.0), (128, 128, 1.0), (128, 64, 0.75), (64, 64, 0.55))
"""Tiles of an output that a multiprocessor makes at once, and what each reaches of the best. The
sizes are CUTLASS' usual ones; what they reach is assumed: small tiles read more for each FLOP."""
FILL_SECONDS = 3.5e-6
"""In which a multiprocessor fills its pipeline, and writes a tile: about what its share of memory's
bandwidth takes."""
EXPERT_SECONDS = 3e-6
"""What each matrix of a grouped product takes beside its tiles, where each is a kernel of its own:
the median of 64 forwards and gradients of inputs that SimuMax measured on B200, of 20 to 256
experts with 128 to 1,232 rows each. So, at the rate of that machine's other products, its 108
grouped ones are 2 % off at the median (MooreThreads/SimuMax@4dcaae513ba7,
configs/system/b200_bf16_ceperm.json, group_matmul)."""
BF16 = 2
FP32 = 4
BYTE = 1
CASTS: Mapping[Narrow, float] = {
    "delayed": BF16 + 2 * BYTE,
    "tensorwise": 2 * BF16 + 2 * BYTE,
    "rowwise": 4 * BF16 + 2 * BYTE,
    "blockwise": BF16 + 2 * BYTE,
    "mxfp8": BF16 + 2 * BYTE,
    "nvfp4": 2 * BF16 + 2 * float(COPIES["nvfp4"]),
}
"""Bytes that casting an element to fp8 or fp4 moves: it is read, for some recipes before that for
its scale, for rowwise scales once more each way, and written as it is and transposed. Source of
nvfp4: TransformerEngine's pytorch/csrc/quantizer.cpp (NVFP4Quantizer, with its fused cast)."""
SCALES: Mapping[Narrow, float] = {"rowwise": 0.77, "mxfp8": 0.9}
"""What products with a scale for each row, and for each 32 elements, reach of those with one for a
matrix: assumed. Under torchtitan Llama-3-70B has a third less throughput with the former
(asyncTP_llama3_h100_2025-06). With the latter Llama-3.1-405B took 8 % longer on 256 GB300 in the
same layout, and 7 % on 128 B200 (Megatron-Bridge's performance summary, 26.02.01 and 25.09). Casts
add to both."""
BACKWARD_OF_ATTENTION = 2.5
"""Products of attention's backward to those of its forward: five to two (2205.14135)."""
SOFTMAX_WIDTH_FLASH2 = 40
"""Features of a head whose products take as long as the softmax of their scores in
FlashAttention-2, whose products are slow: with heads of 64 features it reaches 284 TFLOP/s on an
H100, with 128 319; without causality 321 and 368 (2407.08608, figure 5, 4,096 tokens), as 36 and 44
features would have it."""
NARROW_ATTENTION = 0.5
"""What products of attention take in fp8, to those in bf16. Its softmax takes as long: so with
heads of 192 and 128 features a GB300 is 1.4 times as fast as a GB200, whose exponentials are half
as fast, where NVIDIA measured 1.35 (its blog: Making Softmax More Efficient with NVIDIA Blackwell
Ultra). What is cast for it is not counted."""
SCORE_PASSES = 5
"""Times that unfused attention reads or writes its scores, one way; in backward, as often again."""


class Rates(NamedTuple):
    """What kernels reach: FLOP per second of products in bf16 and of narrow ones, where there
    are any, of `narrow_bytes` an element, and of attention, whose softmax takes as long as so many
    features of a head, and whose products take so much of what they do in bf16
    (`attention_products`); bytes per second of memory. Casting an element to be narrow moves `cast`
    bytes; products of experts reach `grouped` of others, and take `expert` seconds more for each
    matrix; where it `adds_apart`, a gradient of a weight is written and read before it is added. Of
    products that were measured it has how much longer they took.
    """

    bf16: float
    narrow: float | None
    narrow_bytes: float
    cast: float
    attention: float
    softmax_width: int
    attention_products: float
    memory: float
    multiprocessors: int
    grouped: float
    expert: float
    adds_apart: bool
    bf16_measured: Measured
    narrow_measured: Measured


def rates(
    gpu: GpuSpeed,
    stack: Stack,
    execution: Execution,
    products: Sequence[MeasuredProduct] = (),
    machines: float = 1.0,
) -> Rates:
    """The rates of a GPU under a stack, as a plan's operations run, where products were measured,
    or on machines that reach so much of what others with such GPUs do.
    """
    reach, recipe, products_reach = gpu.reach, execution.narrow, stack.products * machines
    bf16, narrow = gpu.bf16_flops * reach.bf16 * products_reach, None
    four = recipe == "nvfp4"
    peak = gpu.fp4_flops if four else gpu.fp8_flops
    if recipe is not None and peak is not None and reach.fp8 is not None:
        narrow = peak * reach.fp8 * products_reach * SCALES.get(recipe, 1.0)
    memory = gpu.memory_bytes_per_second * reach.memory * stack.memory

    def measured(precision: str, peak: float, width: int) -> Measured:
        """By how much longer each took than tiles or memory do."""
        unit, units = peak / gpu.multiprocessors, gpu.multiprocessors
        ratios = []
        for each in products:
            m, n, k = each.m, each.n, each.k
            moved = (width * (m + n) * k + BF16 * m * n) / memory
            expected = max(tiled_seconds(m, n, k, unit, units), moved)
            if each.precision == precision:
                ratios.append(MeasuredRatio(m, n, k, each.seconds / expected))
        return Measured(ratios)

    return Rates(
        bf16,
        narrow,
        float(COPIES["nvfp4"]) if four else BYTE,
        0 if recipe is None else CASTS[recipe],
        gpu.bf16_flops * (reach.flash2 if stack.flash2 else reach.attention) * stack.attention,
        SOFTMAX_WIDTH_FLASH2 if stack.flash2 else reach.softmax_width,
        NARROW_ATTENTION if execution.narrow_attention and gpu.fp8_flops else 1.0,
        memory,
        gpu.multiprocessors,
        stack.grouped,
        EXPERT_SECONDS if execution.launches_experts else 0.0,
        execution.adds_apart,
        measured("bf16", bf16, BF16),
        measured("fp4" if four else "fp8", narrow or bf16, BYTE),
    )


def product_seconds(product: Product, rates: Rates, ep: int) -> tuple[float, float, float]:
    """The product of forward, the gradient of its input, and that of its weight, which is added up
    in fp32. What narrow ones read is cast.
    """
    rows, inputs, features, experts, _, narrow = product
    matrices = max(1, experts // ep)
    each = rows / matrices
    peak, width, cast, measured = rates.bf16, float(BF16), 0.0, rates.bf16_measured
    if narrow and rates.narrow is not None:
        peak, width, cast = rates.narrow, rates.narrow_bytes, rates.cast / rates.memory
        measured = rates.narrow_measured
    unit = peak * (rates.grouped if experts else 1) / rates.multiprocessors
    waves, more = rates.multiprocessors / matrices, (matrices > 1) * matrices * rates.expert
    forward = tiled_seconds(each, features, inputs, unit, waves) + more
    of_input = tiled_seconds(each, inputs, features, unit, waves) + more
    of_weight = tiled_seconds(features, inputs, each, unit, waves)
    weights = matrices * inputs * features
    read, written = width * rows * inputs, BF16 * rows * features
    back = width * rows * features + BF16 * rows * inputs
    whole = read + width * rows * features + 2 * FP32 * weights
    apart = (2 * BF16 + 2 * FP32) * weights / rates.memory if rates.adds_apart else 0.0
    forward = max(forward, (read + width * weights + written) / rates.memory)
    of_input = max(of_input, (back + width * weights) / rates.memory)
    of_weight = max(of_weight, whole / rates.memory)
    if not experts:
        forward *= measured.ratio(rows, features, inputs)
        of_input *= measured.ratio(rows, inputs, features)
        of_weight *= measured.ratio(features, inputs, rows)
    return (
        forward + cast * rows * inputs,
        of_input + cast * rows * features,
        of_weight + apart,
    )


def tiled_seconds(m: float, n: float, k: float, unit: float, units: float) -> float:
    """[m, n] over depth k in tiles of the best size, in waves over so many multiprocessors of so
    many FLOP per second: tiles at the edges are not full, nor is the last wave.
    """
    return min(
        [
            ceil(ceil(m / height) * ceil(n / width) / units)
            * (2 * height * width * k / (unit * reach) + FILL_SECONDS)
            for height, width, reach in TILES
        ]
    )


def attention_seconds(attention: AttentionDemand, rates: Rates) -> float:
    """Attention's forward. Unfused, its scores go to memory and back, those of later keys too."""
    queries, heads, widths, keys, _, score_bytes = attention
    if not score_bytes:
        scores = queries * heads * attention.span
        width = widths * rates.attention_products + rates.softmax_width
        return 2 * scores * width / rates.attention
    scores = score_bytes * queries * heads * keys
    moved = SCORE_PASSES * scores / rates.memory
    return 2 * queries * heads * widths * keys / rates.bf16 + moved


def model_flops(product: Product) -> int:
    """FLOPs of a product's forward and backward, once each."""
    return 2 * product.rows * product.inputs * product.features * (1 + product.gradients)


def attention_flops(attention: AttentionDemand) -> float:
    """FLOPs of attention, without what causality leaves out."""
    return 6 * attention.queries * attention.heads * attention.widths * attention.span
