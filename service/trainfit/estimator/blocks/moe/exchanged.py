"""Experts of transformers that ranks share out: every row goes to the rank of its expert and back.

Symbols: estimator.legend; T rows that a rank sends, and receives where routing is balanced.
Sources: transformers' distributed/expert_parallel.py (AllToAllEP) and integrations/moe.py
(grouped_mm_experts_forward).
"""

from collections.abc import Iterator

from trainfit.estimator.blocks.mlp.pytorch import activate
from trainfit.estimator.ledger import Operation, Role, backward, forward, gradient, held, saved
from trainfit.estimator.legend import PytorchLegend
from trainfit.specs.blocks import Experts

FP32 = 4
"""Bytes of an element in fp32."""
INDEX_BYTES = 8
"""Indices are int64."""


ROUTED = "experts"
"""The module in which rows are sent, multiplied and sent back."""


def experts(
    block: Experts, sizes: PytorchLegend, activation: str, *, in_full: bool
) -> Iterator[Operation]:
    """Rows out, grouped products by local experts, which mask what is not theirs, and rows back.
    Weights of rows that are fp32 make their products so.
    """
    width, h = sizes.bytes, block.latent or sizes.h
    inputs = 2 if block.gated else 1
    rows = sizes.n * block.top_k
    gathered, product = rows * h * width, rows * block.ffn * width
    weighted = rows * h * (FP32 if in_full else width)
    trained = sizes.trains("experts")
    made = block.experts // sizes.e * h * block.ffn * sizes.gradient_bytes if trained else 0
    yield Operation(
        "dispatch",
        (
            saved("orders of the rows sent [T]", 2 * INDEX_BYTES * rows),
            forward("rows sent [T, h]", gathered),
            held("rows received [T, h]", gathered),
            backward("gradients of rows, on their way [T, h]", 2 * gathered),
        ),
    )
    yield Operation(
        "experts_fc1",
        (
            saved("rows by expert [T, h]", gathered * trained, Role.FOR_WEIGHT_GRADIENT),
            held("rows by expert that no gradient needs", 0 if trained else gathered),
            saved("orders of the rows received [T]", 2 * INDEX_BYTES * rows),
            forward("output before it is masked [T, 2f_e]", inputs * product),
            backward("gradients of input and output", gathered + max(gathered, inputs * product)),
            gradient("weight gradient", inputs * made),
        ),
    )
    yield activate(product, sizes, activation, gated=block.gated)._replace(
        name="experts_activation"
    )
    yield Operation(
        "experts_fc2",
        (
            saved("activation output [T, f_e]", product * trained, Role.FOR_WEIGHT_GRADIENT),
            forward("output masked, weighted, in the order received [T, h]", 3 * gathered),
            backward("gradients of output and input", gathered + max(gathered, product)),
            gradient("weight gradient", made),
        ),
    )
    yield Operation(
        "combine",
        (
            saved("rows by token [T, h]", gathered),
            forward("rows before and after their way back [T, h]", 2 * gathered),
        ),
    )
    yield Operation(
        "weighted_sum",
        (
            forward("rows on both sides, weighted [T, h]", 2 * gathered + weighted),
            backward("gradients of rows and of their weights [T, h]", 2 * weighted),
        ),
    )
