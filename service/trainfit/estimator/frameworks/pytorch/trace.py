"""The requests of a rank that trains a model of PyTorch modules by itself: the model as it is
loaded, the first step, and each later one.

Parameters come one by one as `nn.Module.to` moves them, gradients as backward makes them, the
optimizer's states at its first step in the order of the parameters, and gradients go at the end of
a step (`zero_grad`). Sources: torch/nn/modules/module.py (_apply), torch/optim/adamw.py
(_init_group, _multi_tensor_adamw), transformers' trainer.py (_inner_training_loop),
torch/utils/checkpoint.py.
"""

from trainfit.estimator.frameworks.pytorch.optimizers import width_of
from trainfit.estimator.frameworks.pytorch.recorded_rank import RecordedRank
from trainfit.estimator.frameworks.pytorch.states import Shares, stored
from trainfit.estimator.placement import Content
from trainfit.estimator.tensors import Tensor
from trainfit.estimator.trace.moments import left
from trainfit.estimator.trace.recorder import HeldTensor, Trace
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.blocks import Attention, Block, Experts, LatentAttention, Mlp
from trainfit.specs.framework import Transformers
from trainfit.specs.optimizers import OPTIMIZERS

MOST_PASSES = 256
"""Layers that a recorded step runs forward, each some hundreds of requests: those of the largest
models that are trained, over two micro-batches.
"""
MOST_EXPERTS = 2_048
"""Experts that it runs one by one, each some tens of requests: all of OLMoE's, over two."""


def is_traced(plan: PytorchPlan) -> bool:
    """Whether the order of a plan's requests is known: transformers on one GPU, with the blocks
    whose programs tell it.
    """
    return (
        isinstance(plan.framework, Transformers)
        and plan.layout.num_gpus == 1
        and not plan.step.compiled
        and plan.step.checkpointing.kind != "operations"
        and programs_tell_order(plan, Attention, LatentAttention, Mlp, Experts)
    )


def programs_tell_order(plan: PytorchPlan, *ordered: type[Block]) -> bool:
    """Whether a plan has no blocks but those whose programs tell the order of what they ask for,
    and an optimizer's step that does, and not too many layers or experts in turn. Attention with
    sinks does not, nor an embedding whose moments are wider than others, nor products that are one
    function with their adapters, nor adapters that learn lengths, nor logits that a loop holds.
    """
    times = min(2, plan.batch.num_microbatches)
    step, optimizer, adapters = plan.step, plan.step.optimizer, plan.step.adapters
    record = OPTIMIZERS[optimizer.name]
    return (
        plan.model.num_layers * times <= MOST_PASSES
        and experts_in_turn(plan) * times <= MOST_EXPERTS
        and step.data_parallelism.zero is None
        and not step.data_parallelism.on_host
        and not (step.offload_activations or optimizer.in_backward)
        and not (step.policy is not None and step.policy.holds_answer)
        and record.moments == record.matrix_moments
        and (step.states.embedding_moments == step.states.moments or step.adapters is not None)
        and (adapters is None or not (adapters.virtual or adapters.fused or adapters.decomposed))
        and plan.model.encoder_parameters == 0
        and not plan.model.extras
        and all(
            isinstance(block, ordered) and not (isinstance(block, Attention) and block.sinks)
            for kind in plan.model.layer_kinds
            for sublayer in kind.sublayers
            for block in sublayer.blocks
        )
    )


def experts_in_turn(plan: PytorchPlan) -> int:
    """Experts of all layers that run one by one."""
    if not plan.step.experts_one_by_one:
        return 0
    kinds, pattern = plan.model.layer_kinds, plan.model.pattern
    blocks = (block for kind in pattern for block in kinds[kind].blocks)
    return sum(block.experts for block in blocks if isinstance(block, Experts))


def trace(shares: Shares, content: Content) -> Trace:
    """The requests of a rank that has all of the model."""
    return _TracedRank(shares, content).trace()


class _TracedRank(RecordedRank):
    def _load(self) -> None:
        adapters = self._plan.step.adapters
        self._load_model(lambda numbers: stored(numbers, self._plan), adapters)
        self._load_copy()

    def _step(self, *, first: bool) -> None:
        """One micro-batch, and where there are several another one, as all after it are."""
        recorder, number = self._recorder, "first" if first else "later"
        gradients = self._micro_batch(number, workspaces=first)
        if self._plan.batch.num_microbatches > 1:
            recorder.release(*self._micro_batch(number, adding=True))
        recorder.moment = f"{number} optimizer_step"
        self._optimizer(gradients, first=first)
        recorder.release(*gradients)

    def _micro_batch(
        self, number: str, *, workspaces: bool = False, adding: bool = False
    ) -> list[HeldTensor]:
        """A forward and a backward. Answers the gradients that they leave."""
        recorder, here = self._recorder, [dict[Tensor, HeldTensor]() for _ in self._placed]
        every = [self._passes.of(placed, passing=adding) for placed in self._placed]
        stream: HeldTensor | None = None
        for placed, passes, own in zip(self._placed, every, here, strict=True):
            recorder.moment = f"{number} {placed.name}_forward {placed.layer}"
            if workspaces and placed is self._placed[1]:
                recorder.make(self._workspace)
            if passes.read is not None and stream is not None:
                own[passes.read] = stream
            recorder.run(passes.forward, own)
            stream = own.pop(passes.made) if passes.made is not None else None
        self._behind_autocast(every, here, number)
        gradient: HeldTensor | None = None
        gradients: list[HeldTensor] = []
        for placed, passes, own in reversed([*zip(self._placed, every, here, strict=True)]):
            recorder.moment = f"{number} {placed.name}_backward {placed.layer}"
            if not placed.runs_backward:
                recorder.release(*own.values())
                continue
            if passes.of_made is not None and gradient is not None:
                own[passes.of_made] = gradient
            recorder.run(passes.loss, own)
            if workspaces and placed is self._placed[-1]:
                recorder.make(self._workspace)
            recorder.run(passes.again, own)
            recorder.run(passes.backward, own)
            gradient = own.pop(passes.of_read, None) if passes.of_read is not None else None
            gradients[:0] = [own[each] for each in left(placed.groups) if each in own]
        if gradient is not None:
            recorder.release(gradient)
        if self._ledger.sums_tied_gradients and not adding:
            of_head = max(gradients, key=lambda held: held.nbytes)
            gradients[gradients.index(of_head)] = recorder.make(of_head.nbytes)
            recorder.release(of_head)
        return gradients

    def _optimizer(self, gradients: list[HeldTensor], *, first: bool) -> None:
        """States of each parameter at the first step. What the step borrows is of every parameter
        at once, or of the largest.
        """
        optimizer = self._plan.step.optimizer
        elements = [self._elements(held) for held in gradients for _ in held.names]
        if first:
            self._make_states(elements)
        made = OPTIMIZERS[optimizer.name].temporaries.get(optimizer.implementation)
        if made is not None:
            width = width_of(made, self._plan)
            self._borrow(elements, width, made.tensors, at_once=made.of == "all")

    def _elements(self, gradient: HeldTensor) -> int:
        """Of the parameter that has it: a head in the type of what it reads stands beside adapters
        in fp32. What was added up stands for no tensor.
        """
        made = self._recorder.tensors.get(gradient.names[0])
        width = self._plan.step.states.gradients if made is None else made.width
        return int(gradient.nbytes // width)
