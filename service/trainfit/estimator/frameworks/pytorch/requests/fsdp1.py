"""FullyShardedDataParallel: what a unit asks for as it is gathered, let go of and reduced.

A unit is one flat parameter, gathered on a stream of its own; its shares of gradients are made on
the stream that reduces. What one stream made and another reads is freed when that one is past it:
the program waits for the stream that computes before it gathers a third unit (limit_all_gathers),
and by then all is through that was reduced before. Source: torch/distributed/fsdp
(_runtime_utils.py: _unshard, _reshard, _post_backward_hook, _reduce_grad; _limiter_utils.py;
_flat_param.py: init_flat_param_attributes, _get_unflat_views).
"""

from collections import deque
from collections.abc import Sequence

from trainfit.estimator.frameworks.pytorch.engines.fsdp import prefetches_backward
from trainfit.estimator.frameworks.pytorch.requests.unit import UnitParameters
from trainfit.estimator.trace.recorder import HeldTensor, Recorder
from trainfit.resolve.pytorch.plan import PytorchPlan

COMPUTE = 0
PRE_UNSHARD = "pre-unshard"
UNSHARD = "unshard"
REDUCE = "post-backward"
INFLIGHT = 2
"""Units that are gathered at once (_FreeEventQueue)."""


class Fsdp1Requests:
    """The buffers of one rank."""

    def __init__(self, plan: PytorchPlan, recorder: Recorder, of: str = "") -> None:
        """A model beside the one that is trained has streams of its own, named by what it is."""
        self._recorder = recorder
        self._pre_unshard, self._unshard = PRE_UNSHARD + of, UNSHARD + of
        self._states, self._shards = plan.step.states, plan.layout.optimizer_shards
        self._whole: dict[int, HeldTensor] = {}
        self._freed: deque[int] = deque()
        """For each unit that was let go of and not waited for, the gradients that were reduced
        before.
        """
        self._reduced = self._through = 0
        self._gradients: dict[int, HeldTensor] = {}
        self._unsharded: dict[int, HeldTensor] = {}
        """Flat gradients that wait for those of the next micro-batch."""
        self._reduces_each, self._reduces = plan.step.data_parallelism.sync_each_micro_batch, True
        self._prefetches = prefetches_backward(plan)
        self._twice = plan.step.checkpointing.reentrant
        """Whether a layer that runs again is let go of and gathered once more for its backward."""

    def load(self, parameters: Sequence[UnitParameters]) -> None:
        """Each unit is whole for a moment, as its parameters and then flat; the root comes last."""
        recorder, (root, *units) = self._recorder, parameters
        for unit in (*units, root):
            whole = [recorder.make(nbytes * self._shards) for nbytes in unit.stored]
            flat = recorder.make(sum(unit.stored) * self._shards)
            recorder.release(*whole)
            recorder.make(sum(unit.stored))
            recorder.release(flat)
            for nbytes in unit.undivided:
                recorder.make(nbytes)

    def prepare(self, parameters: Sequence[UnitParameters]) -> None:
        """Flat parameters are made once without a use, on the stream that computes."""
        for unit in parameters:
            if unit.unit.weights:
                self._recorder.release(self._recorder.make(unit.unit.weights))

    @property
    def takes_each(self) -> bool:
        """Gradients are joined by unit."""
        return False

    def begin(self, *, is_first: bool, is_last: bool) -> None:  # noqa: ARG002
        self._reduces = is_last or self._reduces_each

    def gather(self, place: int, parameters: UnitParameters) -> None:
        """Gather a unit, unless it is whole."""
        if place in self._whole or not parameters.unit.weights:
            return
        recorder, nbytes = self._recorder, parameters.unit.weights
        casts = self._states.parameters != self._states.gathered
        share = recorder.make(nbytes // self._shards, stream=self._pre_unshard) if casts else None
        if len(self._freed) >= INFLIGHT:
            self._wait()
        self._whole[place] = recorder.make(nbytes, stream=self._unshard)
        if share is not None:
            recorder.release(share)

    def prefetch(self, place: int, parameters: UnitParameters) -> None:
        """Gather the unit that is next in backward."""
        if self._prefetches:
            self.gather(place, parameters)

    def before_forward(self, place: int, parameters: UnitParameters) -> None:
        self.gather(place, parameters)

    def after_forward(self, place: int) -> None:
        """Let go of a unit, when the stream that computes is past it."""
        if place in self._whole:
            self._recorder.release_behind(COMPUTE, self._whole.pop(place))
            self._freed.append(self._reduced)

    def end_forward(self) -> None:
        """Nothing is held."""

    def before_backward(self, place: int, parameters: UnitParameters) -> None:
        self.gather(place, parameters)

    def after_again(self, place: int, parameters: UnitParameters) -> None:
        """A layer has run again, as it does forward."""
        if self._twice:
            self.after_forward(place)
            self.gather(place, parameters)

    def after_backward(
        self, place: int, parameters: UnitParameters, gradients: Sequence[HeldTensor]
    ) -> None:
        """Gradients are joined into a flat one, and added to that of an earlier micro-batch, before
        that is reduced; or their shares are added up behind that.
        """
        if not gradients:
            self.after_forward(place)
            return
        recorder = self._recorder
        flat = recorder.make(sum([each.nbytes * len(each.names) for each in gradients]))
        recorder.release(*gradients)
        if place in self._unsharded:
            recorder.release(flat)
            flat = self._unsharded.pop(place)
        self.after_forward(place)
        if self._reduces:
            self._reduce(place, parameters, flat)
        else:
            self._unsharded[place] = flat

    def _reduce(self, place: int, parameters: UnitParameters, flat: HeldTensor) -> None:
        recorder, states = self._recorder, self._states
        wide = None
        if states.reduced != states.gathered:
            wide = recorder.make(flat.nbytes * states.reduced // states.gathered, stream=REDUCE)
        kept = parameters.unit.gradients or states.gradients * sum(parameters.stepped)
        share = recorder.make(kept * states.reduced // states.gradients, stream=REDUCE)
        if states.reduced != states.gradients:
            narrow, share = share, recorder.make(kept, stream=REDUCE)
            recorder.release(narrow)
        if wide is not None:
            recorder.release(wide)
        recorder.release_behind(REDUCE, flat)
        self._reduced += 1
        if place in self._gradients:
            recorder.release(share)
        else:
            self._gradients[place] = share

    def end_backward(self) -> None:
        """The program waits for all: it looks at the loss."""
        self._freed.clear()
        self._recorder.reach(COMPUTE)
        self._recorder.reach(REDUCE)
        self._through = self._reduced

    def end_step(self) -> None:
        """Let go of the gradients."""
        self._recorder.release(*self._gradients.values())
        self._gradients.clear()

    def _wait(self) -> None:
        """Until the stream that computes is past the unit that was let go of first."""
        before = self._freed.popleft()
        self._recorder.reach(COMPUTE, 1)
        if before > self._through:
            self._recorder.reach(REDUCE, before - self._through)
            self._through = before
