"""Buffers that Megatron, TransformerEngine and PyTorch keep beside the model.

Symbols: estimator.legend. Sources: TransformerEngine's module/base.py (cached dummy weight
gradients) and cpp_extensions/gemm.py (workspaces); tensor_parallel/layers.py (dummy weight
gradient and gather buffer of the output layer); PyTorch's CublasHandlePool.cpp.
"""

from typing import NamedTuple

from trainfit.estimator.blocks.moe.all_gather import gather_buffer
from trainfit.estimator.legend import Legend
from trainfit.resolve.plan import Card, Plan
from trainfit.specs.blocks import Attention, Experts, LatentAttention

TE_WORKSPACE_HOPPER = 33_554_432 + 1_024
TE_WORKSPACE_BEFORE_HOPPER = 4_194_304
TE_GROUPED_STREAMS = 4
"""A grouped GEMM runs on as many streams, each with a workspace."""
CUBLAS_WORKSPACE_HOPPER = 33_554_432
"""Also what deterministic mode asks for: CUBLAS_WORKSPACE_CONFIG=:4096:8."""
CUBLAS_WORKSPACE = 8_519_680
CUBLAS_HANDLES = 2
"""The forward thread and the autograd thread each keep one."""
ROPE_ENTRY_BYTES = 4
"""Rotary tables are fp32."""


class Buffers(NamedTuple):
    """Bytes that stay for the whole step."""

    workspace: int
    framework: int


def is_before_hopper(card: Card) -> bool:
    """Whether the card is older than compute capability 9.0; an unnamed card is taken as newer."""
    capability = card.compute_capability.removeprefix("sm_")
    return capability.isdigit() and int(capability) < 90


def standing_buffers(
    shapes: set[tuple[int, int]],
    *,
    grouped: bool,
    gathered_bytes: int,
    has_head: bool,
    rotary_bytes: int,
    sizes: Legend,
    plan: Plan,
) -> Buffers:
    """Workspaces of the GEMMs, one bf16 dummy gradient per distinct weight shape, the rotary
    table, `gathered_bytes` of tokens that experts gather, and on the last stage those of the
    output layer with the buffer [n, h] into which its input is gathered.
    """
    older = is_before_hopper(plan.card)
    te = TE_WORKSPACE_BEFORE_HOPPER if older else TE_WORKSPACE_HOPPER
    workspace = te * (1 + TE_GROUPED_STREAMS * grouped) if shapes else 0
    framework = rotary_bytes + gathered_bytes
    fused = plan.framework.gradient_accumulation_fusion
    if fused:
        framework += sum(2 * rows * columns for rows, columns in shapes)
    if has_head:
        hopper = plan.card.compute_capability in ("", "sm_90")
        large = hopper or plan.framework.deterministic_mode
        workspace += CUBLAS_HANDLES * (CUBLAS_WORKSPACE_HOPPER if large else CUBLAS_WORKSPACE)
        framework += 2 * sizes.h * sizes.V // sizes.t if fused else 0
        framework += sizes.bytes * sizes.h * sizes.n_gathered
    return Buffers(workspace, framework)


def rotary_table(plan: Plan) -> int:
    """The table [s, d] over the whole sequence, kept by every rank that has attention layers."""
    dimensions = 0
    for kind in plan.model.layer_kinds:
        for sublayer in kind.sublayers:
            for block in sublayer.blocks:
                if isinstance(block, Attention) and block.rope:
                    dimensions = max(dimensions, block.head_dim)
                elif isinstance(block, LatentAttention):
                    dimensions = max(dimensions, block.qk_rope_head_dim)
    return ROPE_ENTRY_BYTES * plan.batch.seq_length * dimensions


def gathered_tokens(plan: Plan, sizes: Legend) -> int:
    """The buffer into which experts gather tokens, as wide as the widest layer needs."""
    if plan.routing.dispatcher != "allgather":
        return 0
    return max((gather_buffer(block, sizes) for block in _experts(plan)), default=0)


def _experts(plan: Plan) -> list[Experts]:
    return [
        block
        for kind in plan.model.layer_kinds
        for sublayer in kind.sublayers
        for block in sublayer.blocks
        if isinstance(block, Experts)
    ]


def attention_mask(plan: Plan, sizes: Legend) -> int:
    """The loader's boolean mask [b, 1, s / c, s], alive while the first or the last chunk of the
    model runs forward. Source: pretrain_gpt.py (get_batch).
    """
    if not plan.framework.create_attention_mask_in_dataloader:
        return 0
    return sizes.n * plan.batch.seq_length
