"""A reference model: the policy's own base, or a copy that only ever runs forward."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import NamedTuple

from trainfit.estimator.blocks.head.preference import BY, Way
from trainfit.estimator.frameworks.pytorch.begun import without_saved
from trainfit.estimator.frameworks.pytorch.ledger import PlacedGroups, PytorchLedger
from trainfit.estimator.frameworks.pytorch.states import Numbers, shard, stored
from trainfit.estimator.frameworks.pytorch.stretch_passes import PassesByStretch
from trainfit.estimator.ledger import Group, OperationKind
from trainfit.estimator.placement import Content
from trainfit.estimator.tensors import Role, Tensor
from trainfit.estimator.trace.moments import forward, saved, turns
from trainfit.estimator.trace.recorder import HeldTensor, Passage, Recorder
from trainfit.resolve.pytorch.plan import Checkpointing, PytorchPlan


def weights_of_copy(numbers: Numbers, plan: PytorchPlan) -> int:
    """Bytes of the weights of a copy, shared out as the policy's are; adapters it has none of.
    Sources: accelerate's accelerator.py (prepare_model), TRL's models/utils.py
    (prepare_deepspeed, prepare_fsdp).
    """
    if not has_copy(plan):
        return 0
    shared = plan.layout.sharding == "optim_grads_params"
    part = shard(numbers, plan) if shared else numbers
    if plan.step.adapters is not None:
        part = part._replace(dense=0, expert=0, trained_matrices=0, trained_embedding=0)
    return stored(part, plan)


def has_copy(plan: PytorchPlan) -> bool:
    """Whether a second model lies beside the policy."""
    policy = plan.step.policy
    return _copy_beside(plan) is not None or (policy is not None and policy.has_copy)


def _copy_beside(plan: PytorchPlan) -> Way | None:
    """How log-probabilities of preferences are computed, where a copy's run beside the policy's."""
    preference = plan.step.preference
    if preference is None or preference.reference != "copy":
        return None
    return BY[preference.by]


def leaves_root_whole(plan: PytorchPlan) -> bool:
    """Whether a copy's root, once it has run, stays gathered: FullyShardedDataParallel lets go of
    it behind a backward alone, and a copy has none (_runtime_utils.py: _post_forward_reshard). Of a
    copy that belongs to a policy verl lets go itself (fsdp_workers.py: compute_ref_log_prob).
    """
    is_shared = plan.layout.sharding == "optim_grads_params"
    by_fsdp1 = plan.step.data_parallelism.engine == "fsdp1"
    return by_fsdp1 and is_shared and _copy_beside(plan) is not None


class ReferencePeak(NamedTuple):
    """A stretch of the reference at its highest: bytes that it makes, those that the policy's loss
    holds meanwhile, those that layers before have left, and those of the residual `stream`.
    """

    placed: PlacedGroups
    made: int
    held: int
    left: int
    stream: int


def running(policy: PytorchLedger, content: Content) -> Iterator[ReferencePeak]:
    """Layers of a reference, the last of each kind, and where weights that are narrowed stay the
    head.
    """
    preference = policy.plan.step.preference
    if preference is None or not policy.plan.runs_reference:
        return
    (head,) = policy.head()
    (operation,) = [each for each in head if each.kind is OperationKind.REFERENCE]
    held = sum([row.bytes for row in operation.tensors])
    returns, act = BY[preference.by].all_hidden, policy.numbers.act
    beside = ReferencePasses(policy, content)
    last = {placed.kind: placed.layer for placed in beside.placed}
    narrowed = 0
    for placed in beside.placed:
        forward_ = beside.passes.of(placed).forward
        if placed.layer is not None and placed.layer == last[placed.kind]:
            left = returns * placed.layer * act + narrowed
            yield ReferencePeak(placed, forward_.peak_bytes, held, left, act)
        narrowed += sum([each.bytes for each in _narrowed_in(placed.groups)])
    if narrowed and operation.output is not None:
        yield ReferencePeak(beside.last, beside.head.peak_bytes, held, narrowed, stream=0)


class ReferencePasses:
    """What a reference asks for as it runs, stretch by stretch."""

    def __init__(self, policy: PytorchLedger, content: Content) -> None:
        preference = policy.plan.step.preference
        self._returns_all = preference is not None and BY[preference.by].all_hidden
        self._act = policy.numbers.act
        but = Role.CACHED_BY_AUTOCAST if _keeps_narrowed(policy.plan) else None
        ledger = PytorchLedger(_learning(policy.plan) if but else frozen_plan(policy.plan))
        *before, self.last = ledger.placed(content._replace(kinds=ledger.plan.model.pattern))
        unseen = {id(each.groups): _unseen(each.groups, but) for each in before}
        self.placed = [each._replace(groups=unseen[id(each.groups)]) for each in before]
        self.passes = PassesByStretch(ledger)
        self.head, self._logits = _up_to_logits(self.last.groups, but)

    def run(
        self,
        recorder: Recorder,
        number: str,
        gathered: Callable[[int], AbstractContextManager[None]],
        *,
        has_logits: bool,
    ) -> HeldTensor | None:
        """Its forward in the first or a later step, each stretch while its unit is `gathered`.
        Answers its logits, if they are made.
        """
        stream: HeldTensor | None = None
        kept: list[HeldTensor] = []
        for index, placed in enumerate(self.placed):
            recorder.moment = f"{number} reference_{placed.name}_forward {placed.layer}"
            passes, here = self.passes.of(placed), dict[Tensor, HeldTensor]()
            if passes.read is not None and stream is not None:
                here[passes.read] = stream
            with gathered(index):
                recorder.run(passes.forward, here)
            stream = here.pop(passes.made) if passes.made is not None else None
            kept += here.values()
            if self._returns_all and placed.kind is not None:
                kept.append(recorder.make(self._act))
        recorder.moment = f"{number} reference_head_forward None"
        own: dict[Tensor, HeldTensor] = {}
        if has_logits:
            recorder.run(self.head, own)
        logits = own.pop(self._logits, None)
        recorder.release(*kept, *own.values())
        return logits


def _unseen(groups: tuple[Group, ...], but: Role | None) -> tuple[Group, ...]:
    return tuple([without_saved(each, but=but) for each in groups])


def _up_to_logits(groups: tuple[Group, ...], but: Role | None) -> tuple[Passage, Tensor]:
    """A head without its loss, and the logits that it makes."""
    operations = [each for group in groups for each in group]
    kinds = [each.kind for each in operations]
    made = without_saved(tuple(operations[: kinds.index(OperationKind.LOSS)]), but=but)
    logits = made[-1].output
    assert logits is not None
    return Passage(turns(forward([made]), kept=[logits, *_narrowed_in((made,))])), logits


def _narrowed_in(groups: tuple[Group, ...]) -> Iterator[Tensor]:
    """Weights in the narrow type that autocast keeps."""
    return (each for each in saved(groups) if each.role is Role.CACHED_BY_AUTOCAST)


def _keeps_narrowed(plan: PytorchPlan) -> bool:
    """Whether autocast keeps what it has narrowed of a reference's weights until that has run: of
    leaves that may have a gradient, whether one is asked for or not (ATen/autocast_mode.cpp:
    cached_cast). TRL takes that from a copy of the policy, and loads one without doing so since
    0.29 (dpo_trainer.py: create_model_from_path in the place of create_reference_model).
    """
    way = _copy_beside(plan)
    return plan.step.autocast and way is not None and way.learns


def _learning(plan: PytorchPlan) -> PytorchPlan:
    """The plan in which all layers run once, as if they were trained."""
    step = replace(plan.step, checkpointing=Checkpointing("none", 1), preference=None)
    return replace(plan, step=step)


def frozen_plan(plan: PytorchPlan) -> PytorchPlan:
    """The plan in which nothing is trained, and no adapter runs."""
    adapters = plan.step.adapters
    if adapters is not None:
        adapters = replace(adapters, targets=frozenset(), saved=frozenset(), virtual=None)
    model = plan.model.with_layers(
        range(plan.model.num_layers), lambda layer: layer.with_sublayers(trainable=False)
    )
    step = replace(
        plan.step,
        adapters=adapters,
        frozen=frozenset(("embed_tokens", "lm_head", "norm", "final_norm")),
        checkpointing=Checkpointing("none", 1),
        preference=None,
    )
    return replace(plan, model=model, step=step)
