"""fully_shard: what a unit asks for as it is gathered, let go of and reduced.

Copies of the rank's own shares and the output of an all-gather come from the stream that copies in,
what a reduce-scatter makes from the stream that reduces; all else, the reduce-scatter's input among
it, from the stream that computes. Gradients are reduced over replicas in place, on a stream of its
own on which they are narrowed or widened; what they were before is held until backward is over.
Nothing is recorded on other streams: a buffer is held until an
event was waited for. Source: torch/distributed/fsdp/_fully_shard (_fsdp_collectives.py:
foreach_all_gather, foreach_reduce; _fsdp_param_group.py: wait_for_unshard, post_backward;
_fsdp_state.py: _post_forward, _root_post_backward_final_callback).
"""

from collections.abc import Sequence

from trainfit.estimator.frameworks.pytorch.passing import adds_each
from trainfit.estimator.frameworks.pytorch.requests.unit import UnitParameters
from trainfit.estimator.trace.recorder import HeldTensor, Recorder
from trainfit.resolve.pytorch.plan import PytorchPlan

COPY_IN = "all-gather copy-in"
REDUCE = "reduce-scatter"
ALL_REDUCE = "all-reduce"


class Fsdp2Requests:
    """The buffers of one rank."""

    def __init__(self, plan: PytorchPlan, recorder: Recorder) -> None:
        self._recorder = recorder
        self._states, self._shards = plan.step.states, plan.layout.optimizer_shards
        self._casts = self._states.parameters != self._states.gathered
        self._gathering: dict[int, HeldTensor] = {}
        self._whole: dict[int, list[HeldTensor]] = {}
        self._copied: HeldTensor | None = None
        self._reducing: HeldTensor | None = None
        self._gradients: dict[int, HeldTensor] = {}
        self._unsharded: dict[int, list[HeldTensor]] = {}
        """Gradients that wait for those of the next micro-batch."""
        self._reduces_each = plan.step.data_parallelism.sync_each_micro_batch
        self._adds_each = adds_each(plan)
        self._adds, self._reduces = False, True
        self._narrows_on = ALL_REDUCE if plan.layout.replicas > 1 else REDUCE
        self._over_replicas: list[HeldTensor] = []

    def load(self, parameters: Sequence[UnitParameters]) -> None:
        """This rank's share of each parameter."""
        for unit in parameters:
            for nbytes in (*unit.stored, *unit.undivided):
                self._recorder.make(nbytes)

    def prepare(self, parameters: Sequence[UnitParameters]) -> None:
        """Nothing is made ahead."""

    @property
    def takes_each(self) -> bool:
        """Gradients wait for those of their unit, or are added to earlier ones."""
        return self._adds and self._adds_each

    def begin(self, *, is_first: bool, is_last: bool) -> None:
        self._adds, self._reduces = not is_first, is_last or self._reduces_each

    def gather(self, place: int, parameters: UnitParameters) -> None:
        """The all-gather of a unit begins, unless it has, or the unit is whole."""
        if place in self._gathering or place in self._whole or not parameters.unit.weights:
            return
        recorder, nbytes = self._recorder, parameters.unit.all_gather
        share = recorder.make(nbytes // self._shards, stream=COPY_IN) if self._casts else None
        self._gathering[place] = recorder.make(nbytes, stream=COPY_IN)
        if share is not None:
            recorder.release(share)

    def prefetch(self, place: int, parameters: UnitParameters) -> None:
        """Gather the unit that is next in backward."""
        self.gather(place, parameters)

    def before_forward(self, place: int, parameters: UnitParameters) -> None:
        """The output of the all-gather before is held until this one was copied out."""
        self.gather(place, parameters)
        if place in self._gathering:
            copied = self._copy_out(place, parameters)
            self.end_forward()
            self._copied = copied

    def after_forward(self, place: int) -> None:
        """Let go of a unit."""
        self._recorder.release(*self._whole.pop(place, []))

    def end_forward(self) -> None:
        """Let go of the last output that is held."""
        if self._copied is not None:
            self._recorder.release(self._copied)
            self._copied = None

    def before_backward(self, place: int, parameters: UnitParameters) -> None:
        self.gather(place, parameters)
        if place in self._gathering:
            self._recorder.release(self._copy_out(place, parameters))

    def after_again(self, place: int, parameters: UnitParameters) -> None:
        """A layer that runs again is whole already, and stays so."""

    def after_backward(
        self, place: int, parameters: UnitParameters, gradients: Sequence[HeldTensor]
    ) -> None:
        """Let go of a unit, and reduce its gradients in a buffer that is held until the next unit's
        are. They are added to those of an earlier micro-batch.
        """
        self.after_forward(place)
        if self.takes_each:
            self._recorder.release(*gradients)
            gradients = self._unsharded.pop(place, [])
        if not gradients:
            return
        if not self._reduces:
            self._unsharded[place] = list(gradients)
            return
        recorder, unit = self._recorder, parameters.unit
        self._let_go()
        self._reducing = recorder.make(unit.reduce_scatter)
        recorder.release(*gradients)
        output = recorder.make(unit.reduce_scatter // self._shards, stream=REDUCE)
        nbytes = self._states.gradients * sum(parameters.stepped)
        if self._states.reduced != self._states.gradients:
            wide, output = output, recorder.make(nbytes, stream=self._narrows_on)
            if self._narrows_on == REDUCE:
                recorder.release(wide)
            else:
                self._over_replicas.append(wide)
        if place in self._gradients:
            recorder.release(output)
        else:
            self._gradients[place] = output

    def end_backward(self) -> None:
        """Let go of what was reduced last, and of what was reduced over replicas."""
        self._let_go()
        self._recorder.release(*self._over_replicas)
        self._over_replicas.clear()

    def _let_go(self) -> None:
        if self._reducing is not None:
            self._recorder.release(self._reducing)
            self._reducing = None

    def end_step(self) -> None:
        """Let go of the sharded gradients."""
        self._recorder.release(*self._gradients.values())
        self._gradients.clear()

    def _copy_out(self, place: int, parameters: UnitParameters) -> HeldTensor:
        """Parameters one by one, from the output of the all-gather."""
        self._whole[place] = [self._recorder.make(nbytes) for nbytes in parameters.whole]
        return self._gathering.pop(place)
