"""The requests by which a rank's model and its optimizer are made, and those of the optimizer.

Parameters come one by one in the order of the modules, then the buffers that take them over, on a
stream of their own; adapters come behind what they adapt, and they alone have buffers then. The
optimizer's main parameters are copies of a rank's pieces. Its moments come at its first step, as
do main parameters that are among its states: behind the copies of all gradients, if it has any,
and each before its own copy, if it is too narrow to compute with. Weights that are kept only in fp8
have a buffer of their own, of their rows, but in mxfp8: these are gathered through that of
gradients. Sources:
megatron/training/training.py (get_model), megatron/core/distributed/param_and_grad_buffer.py,
megatron/core/optimizer/distrib_optimizer.py (_build_model_and_main_param_groups,
_copy_model_grads_to_main_grads) and __init__.py (_get_param_groups), TransformerEngine's
optimizers/fused_adam.py (initialize_state, step), megatron/core/optimizer/optimizer.py
(prepare_grads).
"""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import NamedTuple

from trainfit.estimator.frameworks.megatron.requests.parameters import Parameter
from trainfit.estimator.frameworks.megatron.requests.shards import Buffer
from trainfit.estimator.trace.recorder import Part, Recorder
from trainfit.resolve.megatron.plan import MegatronPlan

GRADIENT = 4
"""Bytes of an element of a gradient that is copied."""
BUFFERS = "buffers"
"""The stream on which DistributedDataParallel is set up."""


class Chunk(NamedTuple):
    """A chunk's parameters in the order of its modules, and the buffers that have them."""

    parameters: Sequence[Parameter]
    buffers: Sequence[Buffer]


class Stepped(NamedTuple):
    """What the optimizer of a rank asks for: its main parameters, in its `first` step, which makes
    its moments beside what it borrows, and in later ones; and the bytes that it keeps and borrows.
    """

    main: Part
    first: Part
    later: Part
    kept_bytes: int
    borrowed_bytes: int


class Model:
    """The chunks of a pipeline rank."""

    def __init__(self, plan: MegatronPlan, chunks: Sequence[Chunk]) -> None:
        self._plan, self._chunks, self._states = plan, chunks, plan.step.states
        self._sharded = plan.layout.sharding != "no_shard"

    def load(self, recorder: Recorder) -> Recorder:
        """Parameters, and buffers that take their place."""
        states, recorder.moment = self._states, "load"
        own = {
            (number, index): [recorder.make(each) for each in self._copies(parameter)]
            for number, chunk in enumerate(self._chunks)
            for index, parameter in enumerate(chunk.parameters)
        }
        for number, chunk in enumerate(self._chunks):
            for buffer in chunk.buffers:
                takes_over = self._sharded and self._gathers(buffer)
                if takes_over:
                    recorder.make(self._bytes(buffer), stream=BUFFERS)
                recorder.make(states.gradients * buffer.numel, stream=BUFFERS)
                for index in reversed(range(len(chunk.parameters))):
                    if takes_over and self._has(buffer, chunk.parameters[index]):
                        recorder.release(own[number, index].pop(0))
        return recorder

    def _copies(self, parameter: Parameter) -> list[int]:
        """Bytes of each tensor that a parameter is."""
        narrow = self._states.narrow
        if narrow is None or not (narrow.alone and parameter.narrow):
            return [self._states.weights * parameter.numel]
        return [ceil(narrow.bytes * parameter.numel)] * narrow.copies

    def _gathers(self, buffer: Buffer) -> bool:
        """Whether weights are gathered in a buffer of theirs."""
        return not (buffer.narrow and self._plan.step.narrow_recipe == "mxfp8")

    def _bytes(self, buffer: Buffer) -> int:
        """Bytes of its weights, whose scales stay where they are."""
        if not buffer.narrow:
            return self._states.weights * buffer.numel
        return buffer.numel // (2 if self._plan.step.narrow_recipe == "nvfp4" else 1)

    def _has(self, buffer: Buffer, parameter: Parameter) -> bool:
        narrow = self._states.narrow
        apart = narrow is not None and narrow.alone
        same = not apart or buffer.narrow == parameter.narrow
        return same and buffer.expert == parameter.expert and not parameter.frozen

    def stepped(self, share: int, recorder: Recorder) -> Stepped:
        """What the optimizer of the rank with this share asks for."""
        states, pieces = self._states, [*self._pieces(share)]
        recorder.moment = "load"
        for piece in pieces if states.master and not states.holds_master else ():
            copied = recorder.make(states.weights * piece.numel)
            recorder.make(states.master * piece.numel)
            recorder.release(copied)
        main, of_gradients = recorder.cut(), GRADIENT * states.copies_gradients
        recorder.moment = "optimizer_step"
        borrowed = [recorder.make(of_gradients * each.numel) for each in pieces if of_gradients]
        for piece in pieces:
            for width in (*states.each_moment, *(states.master,) * states.holds_master):
                recorder.make(width * piece.numel)
            if states.step > of_gradients:
                borrowed.append(recorder.make((states.step - of_gradients) * piece.numel))
        borrowed_bytes = sum([each.nbytes for each in borrowed])
        recorder.release(*borrowed)
        first, kept = recorder.cut(), recorder.bytes
        recorder.moment = "optimizer_step"
        borrowed = [recorder.make(states.step * piece.numel) for piece in pieces if states.step]
        recorder.release(*borrowed)
        return Stepped(main, first, recorder.cut(), kept, borrowed_bytes)

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters of all chunks, whole."""
        return [each for chunk in self._chunks for each in chunk.parameters]

    def _pieces(self, share: int) -> Iterator[Parameter]:
        """A rank's pieces as optimizers step them: dense ones and those of experts, in groups with
        and without weight decay.
        """
        pieces = [*self._each(share)]
        for expert in (False, True):
            every = [each for each in self.parameters if not each.frozen]
            vectors = dict.fromkeys([each.vector for each in every if each.expert == expert])
            for vector in vectors:
                for piece in pieces:
                    if piece.expert == expert and piece.vector == vector:
                        yield piece

    def _each(self, share: int) -> Iterator[Parameter]:
        shards = self._plan.layout.optimizer_shards
        for chunk in self._chunks:
            if not self._sharded:
                yield from [each for each in chunk.parameters if not each.frozen]
                continue
            for buffer in chunk.buffers:
                yield from buffer.pieces(share * buffer.ranks // shards)
