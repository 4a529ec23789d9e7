"""Multi-token prediction in megatron-core, besides its layer and its head.

Symbols: estimator.legend. Source: megatron/core/transformer/multi_token_prediction.py.
"""

from trainfit.estimator.blocks.norm.transformer_engine import statistics_bytes
from trainfit.estimator.ledger import Operation, backward, forward, saved
from trainfit.estimator.legend import Legend
from trainfit.specs.architecture import MultiTokenPrediction


def projection(mtp: MultiTokenPrediction, sizes: Legend) -> Operation:
    """Both norms, their concatenation, and eh_proj [h, 2h], whose output is gathered."""
    n, width, act = sizes.n, sizes.bytes, sizes.act
    statistics = sum(statistics_bytes(norm) for norm in mtp.norms[:2])
    embedding = sizes.V * sizes.h * width // sizes.t
    gathered = 2 * sizes.h * sizes.n_gathered * width
    return Operation(
        "eh_proj",
        (
            saved("embedding of the next token [n', h]", act),
            saved("hidden state [n', h]", act),
            saved("concatenation [n', 2h]", 2 * act),
            saved("statistics of both norms [n']", statistics * sizes.n_shard),
            forward("gathered concatenation [n, 2h]", gathered),
            forward("output before it is scattered [n, h]", sizes.h * n * width),
            backward("gathered concatenation [n, 2h]", gathered),
            backward("input gradient [n, 2h]", 2 * sizes.h * n * width),
            backward("embedding's weight gradient [V / t, h]", embedding),
        ),
        gemm=(sizes.h // sizes.t, 2 * sizes.h),
    )
