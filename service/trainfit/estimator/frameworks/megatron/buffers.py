"""Buffers that Megatron, TransformerEngine and PyTorch keep beside the model.

Symbols: estimator.legend. Sources: TransformerEngine's module/base.py (cached dummy weight
gradients) and cpp_extensions/gemm.py (workspaces); tensor_parallel/layers.py (dummy weight
gradient and gather buffer of the output layer).
"""

from math import ceil
from typing import NamedTuple

from trainfit.estimator import cublas
from trainfit.estimator.blocks.moe.all_gather import gather_buffer
from trainfit.estimator.legend import Legend
from trainfit.estimator.overhead import NOTHING
from trainfit.estimator.results import Interval
from trainfit.estimator.run import MegatronRun
from trainfit.specs.blocks import Attention, Experts, LatentAttention

TE_WORKSPACE_HOPPER = 33_554_432 + 1_024
"""TransformerEngine's GEMM workspace from compute capability 9.0 on."""
TE_WORKSPACE_BEFORE_HOPPER = 4_194_304
"""The same before 9.0."""
TE_GROUPED_STREAMS = 4
"""A grouped GEMM runs on as many streams, each with a workspace."""
ROPE_ENTRY_BYTES = 4
"""Rotary tables are fp32."""


UB_GATHERED, UB_REDUCED = 8, 4
"""User buffers of what is gathered, in fp8 where linears are, and of what is reduced, always in
bf16: TransformerEngine's initialize_ub (layers_all_gather_overlap, layers_reduce_scatter_overlap),
one for each, which all layers share."""


class Buffers(NamedTuple):
    """Bytes that stay for the whole step."""

    workspace: int
    framework: int


class SharedBuffers(NamedTuple):
    """Bytes of buffers whose size is the same wherever they are needed."""

    rotary: int
    scores: int
    """Of the local implementation's unfused attention."""
    gathered_tokens: int
    """Of experts behind an all-gather."""


def shared_buffers(run: MegatronRun, sizes: Legend) -> SharedBuffers:
    local = run.framework.transformer_impl == "local"
    attention = [b for b in run.model.blocks if isinstance(b, Attention | LatentAttention)]
    experts = [b for b in run.model.blocks if isinstance(b, Experts)]
    everyone = run.routing.dispatcher == "allgather"
    heads = max((block.heads for block in attention), default=0)
    return SharedBuffers(
        rotary=ROPE_ENTRY_BYTES * run.seq_length * max(map(_rotated, attention), default=0),
        scores=sizes.bytes * heads // sizes.t * sizes.n * sizes.s * sizes.c if local else 0,
        gathered_tokens=max((gather_buffer(b, sizes) for b in experts), default=0) * everyone,
    )


def _rotated(block: Attention | LatentAttention) -> int:
    """Dimensions of a head that carry a rotary position."""
    if isinstance(block, LatentAttention):
        return block.qk_rope_head_dim
    return block.head_dim if block.rope else 0


def user_buffers(run: MegatronRun, sizes: Legend) -> Interval:
    """Buffers [n, h] outside PyTorch's allocator through which tensor-parallel linears communicate
    beside their products. What is reduced may go round a ring, in 2 t - 1 pieces of 1 / t, where a
    file of settings says so. Sources: TransformerEngine's module/base.py (initialize_ub),
    common/comm_gemm_overlap (CommOverlapP2PBase).
    """
    if not (run.framework.tp_comm_overlap and sizes.t > 1 and sizes.n_gathered):
        return NOTHING
    narrow = run.step.narrow_recipe not in (None, "nvfp4")
    widths = UB_GATHERED * (1 if narrow else sizes.bytes) + UB_REDUCED * sizes.bytes
    size = sizes.n * sizes.h * widths
    rings = sizes.n * sizes.h * UB_REDUCED * sizes.bytes * (sizes.t - 1) // sizes.t
    return Interval(size, size, size + rings)


def is_before_hopper(compute_capability: str) -> bool:
    """Whether a GPU is older than compute capability 9.0; an unnamed GPU is taken as newer."""
    capability = compute_capability.removeprefix("sm_")
    return capability.isdigit() and int(capability) < 90


def standing_buffers(
    shapes: set[tuple[int, int]],
    shared: SharedBuffers,
    *,
    has_experts: bool,
    has_head: bool,
    sizes: Legend,
    run: MegatronRun,
    compute_capability: str,
    m: int,
) -> Buffers:
    """Buffers of a stage that multiplies with weights of these `shapes` in m micro-batches."""
    return Buffers(
        workspace=_workspaces(bool(shapes), has_experts, has_head, run, compute_capability),
        framework=shared.rotary
        + _dummy_gradients(shapes, has_head, sizes, run)
        + _global_buffer(shared, has_experts, has_head, sizes, run)
        + (sum(deferred(sizes, run, m)) + head_copies(sizes, run) if has_head else 0),
    )


def _workspaces(
    has_linears: bool, has_experts: bool, has_head: bool, run: MegatronRun, compute_capability: str
) -> int:
    """TransformerEngine's, one more for each stream of a grouped GEMM, and those of cuBLAS on
    ranks that multiply outside TransformerEngine: the output layer, the local implementation.
    """
    local = run.framework.transformer_impl == "local"
    total = 0
    if has_linears:
        total += sum(te_workspaces(run, compute_capability, has_experts))
    if has_head or local:
        deterministic = run.framework.deterministic_mode
        total += cublas.workspaces(compute_capability, deterministic=deterministic)
    return total


def te_workspaces(run: MegatronRun, compute_capability: str, has_experts: bool) -> list[int]:
    """TransformerEngine's, one by one. The local implementation's routers alone multiply with it.
    Source: megatron/core/transformer/moe/moe_utils.py (RouterGatingLinearFunction).
    """
    older = is_before_hopper(compute_capability)
    local = run.framework.transformer_impl == "local"
    streams = int(has_experts or not local)
    streams += TE_GROUPED_STREAMS * (has_experts and run.routing.grouped_gemm and not local)
    return [TE_WORKSPACE_BEFORE_HOPPER if older else TE_WORKSPACE_HOPPER] * streams


def _dummy_gradients(
    shapes: set[tuple[int, int]], has_head: bool, sizes: Legend, run: MegatronRun
) -> int:
    """One bf16 tensor per distinct weight shape, that of the output layer [V / t, h] among them,
    kept where weight gradients go into the main gradients within the GEMM.
    """
    if not run.framework.gradient_accumulation_fusion:
        return 0
    head = {(sizes.V // sizes.t, sizes.h)} if has_head else set()
    return 2 * sum(rows * columns for rows, columns in shapes | head)


def _global_buffer(
    shared: SharedBuffers, has_experts: bool, has_head: bool, sizes: Legend, run: MegatronRun
) -> int:
    """Megatron's one buffer that grows to the largest need: the input [n, h] gathered for the
    output layer (for every linear, locally), attention scores, tokens gathered for experts.
    Source: megatron/core/utils.py (GlobalMemoryBuffer).
    """
    local = run.framework.transformer_impl == "local"
    gathered = sizes.bytes * sizes.h * sizes.n_gathered if has_head or local else 0
    return max(gathered, shared.scores, shared.gathered_tokens if has_experts else 0)


def deferred(sizes: Legend, run: MegatronRun, m: int) -> tuple[int, ...]:
    """Inputs [n', h] and logit gradients [n, V / t] of earlier micro-batches, whose weight
    gradient of the output layer waits until the pipeline drains. Source: tensor_parallel/layers.py.
    """
    if not run.framework.defer_embedding_wgrad_compute:
        return ()
    count = min(run.framework.wgrad_deferral_limit or m, m - 1)
    return (sizes.act, sizes.bytes * sizes.n * sizes.V // sizes.t) * count


def head_copies(sizes: Legend, run: MegatronRun) -> int:
    """Bytes of the copies in fp8 of the output layer's weight [V / t, h]."""
    return ceil(run.step.head_weight * (sizes.V // sizes.t) * sizes.h)


def attention_mask(run: MegatronRun, sizes: Legend) -> int:
    """The loader's boolean mask [b, 1, s / c, s], alive while the first or the last chunk of the
    model runs forward. Source: pretrain_gpt.py (get_batch).
    """
    if not run.framework.create_attention_mask_in_dataloader:
        return 0
    return sizes.n * run.seq_length
