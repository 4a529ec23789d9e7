"""DeepEP's kernels send each token once to every rank that has any of its experts; a permutation
there makes a row for each of these.

Symbols: estimator.legend; n_g = n' e x tokens of all ranks that share the experts, E_l local
experts, n_r tokens that a rank receives, T_r rows that they make. Sources:
megatron/core/transformer/moe/token_dispatcher.py (_DeepepManager) and fused_a2a.py; DeepEP's
csrc/deep_ep.cpp (intranode_dispatch), csrc/config.hpp and deep_ep/buffer.py.
"""

from collections.abc import Mapping
from math import ceil

from trainfit.estimator.blocks.moe.all_to_all import exchanged
from trainfit.estimator.blocks.moe.rows import Rows
from trainfit.estimator.ledger import OperationKind
from trainfit.estimator.legend import Legend
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.operations.widths import BYTE, FP32, INT32, INT64
from trainfit.estimator.results import Interval
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.megatron.plan import OFFLOADED
from trainfit.specs.blocks import Experts

FC1 = (OFFLOADED + "expert_fc1",)
BF16 = 2
"""Bytes of an element, whatever the step computes in."""
NODE = 8
"""Ranks that reach each other by NVLink; more come in whole nodes."""
IN_A_NODE: Mapping[int, int] = {8: 256, 64: 288, 96: 480, 128: 560, 160: 720}
"""Most tokens of a channel from each rank of a node, up to so many ranks."""
FROM_NODES = 140
"""Most tokens of a channel from each node, sent and received, as any number of ranks has them."""
BESIDE_BYTES = 8 + 16 + 128 * (INT64 + FP32 + FP32)
"""Of a token: its source, where it goes, and up to 128 experts, probabilities and scales."""


def dispatch(step: TransformerEngine, block: Experts, rows: Rows) -> Tensor:
    """Tokens [n_r, h] arrive, and are permuted into the rows [T_r, h] of the local experts."""
    sizes, h = step.sizes, block.latent or step.sizes.h
    received, k = step.named(T_r=rows.received, k=block.top_k)
    (arrived,) = step.named(n_r=tokens_received(block, sizes, rows))
    local = block.experts // sizes.e
    tokens = step.tensor("tokens received", arrived, h)
    step.operation(
        "dispatch",
        kind=OperationKind.EXCHANGE,
        saves=(
            step.tensor("map of tokens to ranks", sizes.n_shard, sizes.e * sizes.x, width=BYTE),
            step.tensor("places of sent tokens", sizes.n_shard, sizes.e * sizes.x, width=INT32),
            step.tensor("sources of tokens", arrived, width=INT32),
            step.tensor("experts of tokens received", arrived, k, width=INT64),
            step.tensor("their probabilities", arrived, k, width=FP32),
        ),
        holds=(tokens,),
        borrows=(
            step.tensor("chosen experts", sizes.n_shard, k, width=INT64),
            step.tensor("chosen probabilities", sizes.n_shard, k, width=FP32),
        ),
        backward=(
            step.gradient(tokens),
            step.tensor("gradient of the tokens", sizes.n_shard, h),
        ),
        demands=exchanged(step, rows.sent * h, received * h, block.top_k),
    )
    permuted = step.tensor("permuted rows", received, h, dropped_by=FC1)
    step.operation(
        "permute",
        makes=(permuted,),
        saves=(
            step.tensor("row map", arrived, 2 * local + 1, width=INT32),
            step.tensor("local routing map", arrived, local, width=BYTE),
            step.tensor("local probabilities", arrived, local, width=FP32),
        ),
        backward=(step.gradient(permuted), step.gradient(tokens)),
    )
    return permuted


def combine(step: TransformerEngine, block: Experts, rows: Rows, output: Tensor) -> None:
    """Rows are added up to the tokens that arrived, which go back and are added up again."""
    received, h = output.shape
    (arrived,) = step.named(n_r=tokens_received(block, step.sizes, rows))
    restored = step.tensor("sum over local experts", arrived, h)
    step.operation(
        "unpermute",
        makes=(restored,),
        borrows=(output,),
        backward=(step.gradient(restored), step.gradient(output)),
    )
    step.operation(
        "combine",
        kind=OperationKind.EXCHANGE,
        borrows=(restored, step.tensor("result", step.sizes.n_shard, h)),
        backward=(step.gradient(restored), step.tensor("gradient", step.sizes.n_shard, h)),
        demands=exchanged(step, rows.sent * h, received * h, block.top_k),
    )


def tokens_received(block: Experts, sizes: Legend, rows: Rows) -> int:
    """n_r: of the tokens of all ranks those that choose any expert of this one, where all choices
    are as likely; as many times more as rows are.
    """
    others = block.experts - block.experts // sizes.e
    missed = 1.0
    for chosen in range(block.top_k):
        missed = missed * (others - chosen) / (block.experts - chosen)
    everyone = sizes.n_shard * sizes.e * sizes.x
    share = rows.received / (sizes.n_shard * block.top_k * sizes.x)
    return min(rows.received, everyone, ceil(everyone * (1 - missed) * share))


def buffer(block: Experts, sizes: Legend, sms: int) -> Interval:
    """Bytes of the buffer outside PyTorch's allocator: a channel for each two multiprocessors."""
    ranks = sizes.e * sizes.x
    most = next((tokens for limit, tokens in IN_A_NODE.items() if ranks <= limit), 720)
    channels, token = sms // 2, BF16 * (block.latent or sizes.h) + BESIDE_BYTES
    nodes = ranks // NODE
    between = 2 * nodes * FROM_NODES * token if nodes > 1 else 0
    size = channels * (min(ranks, NODE) * most * token + between)
    return Interval(size, size, size)
