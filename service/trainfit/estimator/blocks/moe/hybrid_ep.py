"""HybridEP's kernels permute tokens as they exchange them, out of a buffer of their own.

Symbols: estimator.legend; n_g = n' e x tokens of all ranks that share the experts, E_l local
experts, T_r rows that arrive. Source: megatron/core/transformer/moe/token_dispatcher.py
(_HybridEPManager) and fused_a2a.py; DeepEP's branch hybrid-ep: csrc/hybrid_ep/hybrid_ep.cu
(dispatch_with_permute, combine_with_unpermute), buffer/intranode.cu and internode_nixl.cu
(allocate_buffers).
"""

from trainfit.estimator.blocks.moe.all_to_all import exchanged
from trainfit.estimator.blocks.moe.rows import Rows
from trainfit.estimator.ledger import OperationKind
from trainfit.estimator.legend import Legend
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.operations.widths import BYTE, FP32, INT32
from trainfit.estimator.results import Interval
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.megatron.plan import OFFLOADED
from trainfit.specs.blocks import Experts

FC1 = (OFFLOADED + "expert_fc1",)
NODE = 8
"""GPUs that reach each other without a network, where they are not those of a whole rack."""
BF16 = 2
"""Bytes of an element, whatever the step computes in."""
SCALED = 128
"""Features that share an fp32 scale, for which there is room in bf16 as well."""


def dispatch(step: TransformerEngine, block: Experts, rows: Rows) -> Tensor:
    """One kernel makes the rows [T_r, h] of the local experts, in their order."""
    sizes, h = step.sizes, block.latent or step.sizes.h
    experts, received = step.named(E=block.experts, T_r=rows.received)
    tokens, ranks = sizes.n_shard, sizes.e * sizes.x
    dispatched = step.tensor("dispatched rows", received, h, dropped_by=FC1)
    gathered, local = tokens * ranks, experts // sizes.e
    step.operation(
        "dispatch",
        kind=OperationKind.EXCHANGE,
        saves=(
            step.tensor("map of tokens to ranks", tokens, ranks, width=INT32),
            step.tensor("map of tokens to rows", gathered, local, width=INT32),
            step.tensor("local routing map", gathered, local, width=BYTE),
        ),
        holds=(dispatched,),
        backward=(
            step.tensor("gradient of the tokens", tokens, h),
            step.tensor("gradient of the probabilities", tokens, experts, width=FP32),
        ),
        demands=exchanged(step, rows.sent * h, received * h, block.top_k),
    )
    return dispatched


def combine(step: TransformerEngine, block: Experts, rows: Rows, output: Tensor) -> None:
    """One kernel adds the rows up to tokens."""
    result = step.tensor("result", step.sizes.n_shard, output.shape[-1])
    received, h = output.shape
    step.operation(
        "combine",
        kind=OperationKind.EXCHANGE,
        borrows=(output, result),
        backward=(step.gradient(output),),
        demands=exchanged(step, rows.sent * h, received * h, block.top_k),
    )


def buffer(block: Experts, sizes: Legend) -> Interval:
    """Bytes of the buffer outside PyTorch's allocator, which dispatch and combination share: room
    for every token of the ranks that share the experts, with its probabilities for the experts of
    a node, and for what passes a network. Low and high are of nodes of 8 GPUs and a whole rack.
    """
    ranks = sizes.e * sizes.x
    nodes = -(-ranks // NODE)
    h = block.latent or sizes.h
    token, scales = BF16 * h, FP32 * h // SCALED
    everywhere = token + scales + FP32 * block.experts
    rack = ranks * sizes.n_shard * everywhere
    if nodes == 1:
        return Interval(rack, rack, rack)
    row = token + FP32 * block.experts // nodes
    network = sizes.n_shard * (everywhere + 3 * (nodes - 1) * row)
    several = ranks * sizes.n_shard * (row + scales) + network
    return Interval(min(rack, several), several, max(rack, several))
