"""A reference model: the policy's own base, or a copy that only ever runs forward."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import NamedTuple

from trainfit.estimator.blocks.head.preference import BY
from trainfit.estimator.frameworks.pytorch.begun import without_saved
from trainfit.estimator.frameworks.pytorch.ledger import PlacedGroups, PytorchLedger
from trainfit.estimator.frameworks.pytorch.states import Numbers, shard, stored
from trainfit.estimator.frameworks.pytorch.stretch_passes import PassesByStretch
from trainfit.estimator.ledger import Group, OperationKind
from trainfit.estimator.placement import Content
from trainfit.estimator.tensors import Tensor
from trainfit.estimator.trace.moments import forward, turns
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
    preference, policy = plan.step.preference, plan.step.policy
    runs_beside = preference is not None and preference.reference == "copy"
    return runs_beside or (policy is not None and policy.has_copy)


def leaves_root_whole(plan: PytorchPlan) -> bool:
    """Whether a copy's root, once it has run, stays gathered: FullyShardedDataParallel lets go of
    it behind a backward alone, and a copy has none (_runtime_utils.py: _post_forward_reshard). Of a
    copy that belongs to a policy verl lets go itself (fsdp_workers.py: compute_ref_log_prob).
    """
    preference, sharding = plan.step.preference, plan.layout.sharding
    runs_beside = preference is not None and preference.reference == "copy"
    shares = plan.step.data_parallelism.engine == "fsdp1" and sharding == "optim_grads_params"
    return shares and runs_beside


class ReferencePeak(NamedTuple):
    """A layer of the reference at its highest: bytes that it makes, those that the policy's loss
    holds meanwhile, and those of the layers before, where the model returns them.
    """

    placed: PlacedGroups
    made: int
    held: int
    returned: int


def running(policy: PytorchLedger, content: Content) -> Iterator[ReferencePeak]:
    """Layers of a reference, the last of each kind."""
    preference = policy.plan.step.preference
    if preference is None or not policy.plan.runs_reference:
        return
    (head,) = policy.head()
    (operation,) = [each for each in head if each.kind is OperationKind.REFERENCE]
    held = sum([row.bytes for row in operation.tensors])
    returns = BY[preference.by].all_hidden
    frozen = PytorchLedger(frozen_plan(policy.plan))
    passes = PassesByStretch(frozen)
    kinds = frozen.plan.model.pattern
    last = {kind: place for place, kind in enumerate(kinds)}
    for placed in frozen.placed(content._replace(kinds=kinds)):
        if placed.kind is not None and placed.layer == last[placed.kind]:
            made = passes.of(placed).forward.peak_bytes
            returned = returns * placed.layer * policy.numbers.act
            yield ReferencePeak(placed, made, held, returned)


class ReferencePasses:
    """What a reference asks for as it runs, stretch by stretch."""

    def __init__(self, policy: PytorchLedger, content: Content) -> None:
        preference = policy.plan.step.preference
        self._returns_all = preference is not None and BY[preference.by].all_hidden
        self._act = policy.numbers.act
        ledger = PytorchLedger(frozen_plan(policy.plan))
        *before, head = ledger.placed(content._replace(kinds=ledger.plan.model.pattern))
        self._placed = [each if each.kind is not None else _unseen(each) for each in before]
        self._passes = PassesByStretch(ledger)
        self._head, self._logits = _up_to_logits(head.groups)

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
        returned: list[HeldTensor] = []
        for index, placed in enumerate(self._placed):
            recorder.moment = f"{number} reference_{placed.name}_forward {placed.layer}"
            passes, here = self._passes.of(placed), dict[Tensor, HeldTensor]()
            if passes.read is not None and stream is not None:
                here[passes.read] = stream
            with gathered(index):
                recorder.run(passes.forward, here)
            stream = here.pop(passes.made) if passes.made is not None else None
            if self._returns_all and placed.kind is not None:
                returned.append(recorder.make(self._act))
        recorder.moment = f"{number} reference_head_forward None"
        own: dict[Tensor, HeldTensor] = {}
        if has_logits:
            recorder.run(self._head, own)
        recorder.release(*returned)
        return own.get(self._logits)


def _unseen(placed: PlacedGroups) -> PlacedGroups:
    return placed._replace(groups=tuple(map(without_saved, placed.groups)))


def _up_to_logits(groups: tuple[Group, ...]) -> tuple[Passage, Tensor]:
    """A head without its loss, and the logits that it makes."""
    operations = [each for group in groups for each in group]
    kinds = [each.kind for each in operations]
    made = without_saved(tuple(operations[: kinds.index(OperationKind.LOSS)]))
    logits = made[-1].output
    assert logits is not None
    return Passage(turns(forward([made]), kept=[logits])), logits


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
