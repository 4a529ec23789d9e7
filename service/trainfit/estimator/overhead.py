"""What a card holds beyond the tensors: allocator slack, CUDA context, communicators.

These are not derived but taken from published runs (docs/assumptions.md), so each is an interval.
"""

from trainfit.estimator.blocks.moe import hybrid_ep
from trainfit.estimator.legend import legend_of
from trainfit.estimator.results import Interval
from trainfit.resolve.plan import MegatronPlan, Plan, PytorchPlan
from trainfit.specs.blocks import Experts, Recurrence

MIB = 2**20

SLACK_PERCENT = Interval(0, 4, 10)
"""Reserved above allocated in runs with fixed shapes: 1.007 to 1.075, median 1.04, on 8 B200."""
SLACK_PERCENT_EXPANDABLE = Interval(0, 1, 4)
"""Segments that grow on demand leave at most a part of a 20 MiB page each."""

CONTEXT = Interval(500 * MIB, 700 * MIB, 1_200 * MIB)
"""CUDA context with lazily loaded kernels: 0.49 to 0.70 GiB bare, up to 1.14 in a full stack."""
COMMUNICATOR = Interval(150 * MIB, 500 * MIB, 1_000 * MIB)
"""One NCCL communicator in use: rings of 24 channels x 2 neighbours x 12 MiB and NVLS buffers."""
NOTHING = Interval(0, 0, 0)
ALL_TO_ALL = Interval(500 * MIB, 1_500 * MIB, 2_700 * MIB)
"""Point-to-point connections of an all-to-all among 8 GPUs: 32 channels x 7 peers x 12 MiB."""


def slack(allocated: Interval, cached: int, plan: Plan) -> Interval:
    """Bytes that PyTorch's caching allocator reserves above what is allocated: `cached` ones that
    are known, and a part that is not.
    """
    percent = SLACK_PERCENT_EXPANDABLE if plan.framework.expandable_segments else SLACK_PERCENT
    return Interval(
        allocated.low * percent.low // 100,
        cached + allocated.expected * percent.expected // 100,
        cached + allocated.high * percent.high // 100,
    )


def context_and_communicators(plan: Plan) -> Interval:
    """The context, a communicator for every group of more than one rank that is used, and what
    moves tokens to experts on other ranks.
    """
    layout = plan.layout
    groups = [
        layout.num_gpus,
        layout.dp * layout.cp,
        layout.tp,
        layout.pp,
        layout.cp,
        layout.tp * layout.pp,
        *_groups_of_experts(plan),
    ]
    used = sum(size > 1 for size in groups)
    return Interval(
        *(
            context + used * communicator + exchange
            for context, communicator, exchange in zip(
                _bounds(CONTEXT), _bounds(COMMUNICATOR), _bounds(_exchange(plan)), strict=True
            )
        )
    )


def _exchange(plan: Plan) -> Interval:
    """Connections of an all-to-all among expert-parallel ranks, or HybridEP's buffer, which it has
    for a single rank as well.
    """
    if isinstance(plan, MegatronPlan) and plan.routing.dispatcher == "flex":
        sizes = legend_of(plan)
        experts = [block for block in plan.model.blocks if isinstance(block, Experts)]
        buffers = [hybrid_ep.buffer(block, sizes) for block in experts]
        return max(buffers, key=lambda each: each.high, default=NOTHING)
    return ALL_TO_ALL if plan.layout.ep > 1 else NOTHING


def _groups_of_experts(plan: Plan) -> list[int]:
    """Sizes of the groups that experts have for themselves: the ranks that hold the same ones,
    and, under Megatron, those that divide one, which have a communicator of their own even where
    they are the tensor-parallel ranks. A dense model makes neither.
    Sources: megatron/core/parallel_state.py, distributed/param_and_grad_buffer.py (BufferKey).
    """
    layout = plan.layout
    if not any(kind.has_experts for kind in plan.model.layer_kinds):
        return []
    apart = layout.ep > 1 or layout.etp != layout.tp
    divides = apart or isinstance(plan, MegatronPlan)
    return [layout.expert_dp] * apart + [layout.etp] * divides


def _bounds(interval: Interval) -> tuple[int, int, int]:
    return interval.low, interval.expected, interval.high


MEASURED_STAGES = 59
"""Measured peaks of complete Megatron runs that the interval of allocated bytes holds for: all."""
MEASURED_PYTORCH_RUNS = 14
"""The same of torchtitan and torchtune: nine reserved peaks and five allocated ones."""
LEDGER_PERMILLE = 20
"""How far measured peaks stray from the ledger's sum to either side, in thousandths."""
PYTORCH_PERMILLE = 30
"""The same for modules of PyTorch, whose measured peaks stray by 23 thousandths at most."""
UNMEASURED_PERMILLE = 100
"""The same where no run was measured: mixers to first order, schedules by their bounds."""
SMALL_BUFFERS = 32 * MIB
"""Buffers below the ledger's notice: of the order of the deficits of runs of 1 to 5 GiB."""
IMBALANCE_PERCENT = 20
"""How much more the most loaded rank keeps where experts take every token that is routed to them:
6 to 21 % of the activations in published runs without a capacity."""


def stray_permille(plan: Plan) -> int:
    """How far a peak may stray from the ledger's sum, in thousandths."""
    if not _is_measured(plan):
        return UNMEASURED_PERMILLE
    return PYTORCH_PERMILLE if isinstance(plan, PytorchPlan) else LEDGER_PERMILLE


def _is_measured(plan: Plan) -> bool:
    """Whether runs of this kind are among the measured ones. Of PyTorch's there are none with a
    pipeline, expert parallelism, DeepSpeed or quantised weights.
    """
    mixers = any(isinstance(block, Recurrence) for block in plan.model.blocks)
    if isinstance(plan, PytorchPlan):
        adapters = plan.step.adapters
        quantised = adapters is not None and adapters.matrix_bytes < plan.step.states.parameters
        deepspeed = plan.step.data_parallelism.engine == "deepspeed"
        split = plan.layout.pp > 1 or plan.layout.ep > 1
        return not (mixers or quantised or deepspeed or split)
    return plan.layout.schedule in ("1f1b", "interleaved") and not mixers


def allocated(expected: int, unbalanced: int, permille: int) -> Interval:
    """The ledger's sum with the bounds that measured runs have kept. `unbalanced` bytes of it are
    activations, and what operations borrow, of ranks whose experts take whatever is routed there.
    """
    stray = expected * permille // 1000
    imbalance = unbalanced * IMBALANCE_PERCENT // 100
    return Interval(
        expected - stray,
        expected,
        expected + stray + SMALL_BUFFERS + imbalance,
    )
