"""torchtitan and transformers, which have PyTorch run a model's own modules, as the estimator asks
them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType

from trainfit.estimator import timeline as turns
from trainfit.estimator.frameworks.framework import Alike, Costs, Execution, StateTraffic
from trainfit.estimator.frameworks.pytorch import timeline as actions
from trainfit.estimator.frameworks.pytorch.layers import tables_of
from trainfit.estimator.frameworks.pytorch.ledger import PytorchLedger
from trainfit.estimator.frameworks.pytorch.ranks import ranks as ranks
from trainfit.estimator.frameworks.pytorch.requests import rank as requests
from trainfit.estimator.frameworks.pytorch.requests.unit import divides_joined
from trainfit.estimator.frameworks.pytorch.states import shares_of
from trainfit.estimator.frameworks.pytorch.states import trained_parameters as _trained
from trainfit.estimator.frameworks.pytorch.towers import bounded
from trainfit.estimator.frameworks.pytorch.trace import experts_in_turn, is_traced
from trainfit.estimator.frameworks.pytorch.trace import trace as _trace
from trainfit.estimator.local_parameters import ParameterTable, parameters_of
from trainfit.estimator.memo import Memo
from trainfit.estimator.overhead import (
    MEASURED_PYTORCH_RUNS,
    PLAIN_PERMILLE,
    PYTORCH_PERMILLE,
    QUANTISED_PERMILLE,
    UNMEASURED_PERMILLE,
    KernelLoading,
    all_to_all,
)
from trainfit.estimator.placement import place
from trainfit.estimator.results import Interval
from trainfit.estimator.timeline import Timeline
from trainfit.estimator.trace.recorder import Trace
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.blocks import Recurrence
from trainfit.specs.calibration import Trained
from trainfit.specs.framework import Transformers
from trainfit.specs.parallelism import SPLIT_BACKWARD

ASSUMPTIONS = {
    "interval-basis-pytorch": f"Low and high are engineering bounds on the ledger's sum. All "
    f"{MEASURED_PYTORCH_RUNS} measured peaks of torchtitan and torchtune runs whose configuration "
    "is known completely lie between those of reserved or allocated bytes.",
}


def ledger(plan: PytorchPlan, *, symbolic: bool = False) -> PytorchLedger:
    """The modules' programs, in numbers or in symbols."""
    return PytorchLedger(plan, symbolic=symbolic)


def execution(plan: PytorchPlan) -> Execution:
    """torchao's linears, torch._grouped_mm. autograd adds gradients of several micro-batches up."""
    return Execution(
        narrow=plan.step.narrow.recipe if plan.step.narrow is not None else None,
        overlaps_experts=False,
        adds_apart=plan.batch.num_microbatches > 1,
        launches_experts=False,
    )


def shared_ledger(plan: PytorchPlan, memo: Memo) -> PytorchLedger:
    """That of the plan's shares."""
    return shares_of(plan, parameters_of(plan, memo), memo).ledger


def state_traffic(plan: PytorchPlan) -> StateTraffic:
    """FSDP, and DeepSpeed's stage 3, gather weights for forward and, where they let go of them, for
    backward. Stage 2 reduces every micro-batch, the others the last alone unless they are set to.
    """
    step, strategy = plan.step, plan.layout.sharding
    states, engine = step.states, step.data_parallelism
    whole = strategy != "optim_grads_params"
    zero = engine.zero
    return StateTraffic(
        gradient=states.reduced,
        weight=0 if strategy == "no_shard" else states.gathered,
        gathers=0 if whole else 1 + engine.reshard_after_forward,
        reduces_each=engine.sync_each_micro_batch or (zero is not None and strategy != "optim"),
        overlapped=zero is None or zero.overlapped,
        optimizer=float(
            states.gradients + 2 * (states.parameters + states.master + states.moments)
        ),
        on_host=float(engine.on_host or (zero is not None and zero.optimizer_on_host)),
        fetches=engine.on_host or (zero is not None and zero.parameters_on_host),
    )


def programs(plan: PytorchPlan) -> Mapping[str, ModuleType]:
    """The programs of the model's modules, with the framework's own experts."""
    return tables_of(plan)


def timeline(plan: PytorchPlan, rank: int) -> Timeline | None:
    """The actions of torch.distributed.pipelining, or the micro-batches of a rank alone."""
    own = PytorchLedger(plan)
    if plan.layout.pipeline.pp > 1:
        return actions.timeline(own, rank)
    return turns.timeline(plan, own, rank, own.sizes.act)


def trace(plan: PytorchPlan, memo: Memo) -> Trace | None:
    """The requests of the first rank that has all layers, where their order is known."""
    return next((each.trace(0) for each in traces(plan, memo)), None)


def traces(plan: PytorchPlan, memo: Memo) -> Sequence[Alike]:
    """Those of ranks that have all layers, where their order is known: of each share, where ranks
    divide what they joined.
    """
    alone, shared = is_traced(plan), requests.is_traced(plan)
    if not (alone or shared):
        return []
    divided = shared and not alone and divides_joined(plan)
    count = plan.layout.optimizer_shards if divided else 1

    def made(share: int, tokens: int = plan.batch.seq_length) -> Trace:
        batch = replace(plan.batch, seq_length=tokens)
        of_it = plan if batch == plan.batch else replace(plan, batch=batch)
        shares = shares_of(of_it, parameters_of(of_it, memo), memo)
        ((placement,),) = place(of_it)
        if alone:
            return _trace(shares, placement.content)
        return requests.trace(shares, placement.content, share)

    long = made if plan.batch.spread is not None else None
    return [Alike((0,), range(count), made, long=long)]


def trained_parameters(plan: PytorchPlan, table: ParameterTable, memo: Memo) -> int | None:
    """Parameters of adapters, and of what is not frozen."""
    partly = plan.step.adapters is not None or bool(plan.step.frozen)
    return _trained(plan, table, memo) if partly else None


def trains(plan: PytorchPlan) -> Trained:
    """Adapters of any kind, on matrices that are stored in less than what they are read in."""
    adapters = plan.step.adapters
    if adapters is None:
        return "all"
    quantized = adapters.matrix_bytes < plan.step.states.parameters
    return "adapters_on_quantized" if quantized else "adapters"


def stray_permille(plan: PytorchPlan) -> int:
    """No run was measured with a pipeline, expert parallelism or DeepSpeed."""
    mixers = any(isinstance(block, Recurrence) for block in plan.model.blocks)
    deepspeed = plan.step.data_parallelism.engine == "deepspeed"
    split = plan.layout.pipeline.pp > 1 or plan.layout.ep > 1
    if mixers or deepspeed or split:
        return UNMEASURED_PERMILLE
    if _is_plain(plan):
        return PLAIN_PERMILLE
    return QUANTISED_PERMILLE if trains(plan) == "adapters_on_quantized" else PYTORCH_PERMILLE


def _is_plain(plan: PytorchPlan) -> bool:
    """Whether all that runs are transformers' modules, each by itself, and a loss over logits. What
    ranks of FullyShardedDataParallel reserve for quantised weights strays more than tensors do.
    """
    step, adapters = plan.step, plan.step.adapters
    shares = step.data_parallelism.engine == "fsdp1" and trains(plan) != "adapters_on_quantized"
    return (
        isinstance(plan.framework, Transformers)
        and (plan.layout.num_gpus == 1 or shares)
        and not step.compiled
        and step.kernels == "eager"
        and step.cross_entropy == "full"
        and step.narrow is None
        and (adapters is None or not adapters.fused)
        and plan.model.encoder_parameters == 0
    )


def kernel_loading(plan: PytorchPlan) -> KernelLoading | None:
    """transformers alone is run with releases of PyTorch, on generations of GPUs, that CUDA before
    12.2 knows.
    """
    framework = plan.framework
    return framework.cuda_module_loading if isinstance(framework, Transformers) else "lazy"


def expert_groups(plan: PytorchPlan) -> list[int]:
    """The ranks that hold the same experts, where not all do."""
    layout = plan.layout
    apart = layout.ep > 1 or layout.etp != layout.tp
    return [layout.expert_dp] * (apart and plan.model.has_experts)


def exchange(plan: PytorchPlan) -> Interval:
    """Connections of an all-to-all."""
    return all_to_all(plan)


def assumptions(plan: PytorchPlan) -> frozenset[str]:
    """A later step, with all experts of a rank in grouped products unless they run one by one, and
    as many images as there may be.
    """
    always = {"interval-basis-pytorch", "later-step", "balanced-routing"}
    grouped = set() if plan.step.experts_one_by_one else {"grouped-experts"}
    return frozenset(
        always | grouped | ({"encoder-bounded"} if bounded(plan) is not None else set())
    )


def costs(plan: PytorchPlan, *, replay: bool) -> Costs:
    """Measured over the models of tests/bench; two backwards take longer than one. Where requests
    are known, each layer asks for some hundred tensors in each of two steps, which are replayed as
    two releases would, and so does each expert that runs in turn for some tens.
    """
    if replay and (is_traced(plan) or requests.is_traced(plan)):
        return Costs(once=700 * experts_in_turn(plan), kind=2_500, layer=1_400, rank=120, chunk=0)
    if plan.layout.pipeline.schedule in SPLIT_BACKWARD:
        return Costs(kind=1_600, layer=60, rank=120, chunk=700)
    return Costs(kind=800, layer=35, rank=120, chunk=350)
