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
from functools import cached_property
from itertools import chain
from math import ceil
from typing import NamedTuple

from trainfit.estimator.frameworks.megatron.requests.muon import dealt, orthogonalise
from trainfit.estimator.frameworks.megatron.requests.parameters import LocalParameter
from trainfit.estimator.frameworks.megatron.requests.shards import Buffer
from trainfit.estimator.frameworks.megatron.states import deals_whole, state_sharding
from trainfit.estimator.trace.recorder import Recorder, TracePart
from trainfit.resolve.megatron.plan import MegatronPlan

GRADIENT = 4
"""Bytes of an element of a gradient that is copied."""
BUFFERS = "buffers"
"""The stream on which DistributedDataParallel is set up."""


Group = Sequence[LocalParameter]
"""What an optimizer steps with the same settings."""


class ChunkBuffers(NamedTuple):
    """A chunk's parameters in the order of its modules, and the buffers that have them."""

    parameters: Sequence[LocalParameter]
    buffers: Sequence[Buffer]


class Stepped(NamedTuple):
    """What the optimizer of a rank asks for: its main parameters, in its `first` step, which makes
    its moments beside what it borrows, and in later ones; and the bytes that it keeps, of them
    those of the main parameters, and that it borrows.
    """

    main: TracePart
    first: TracePart
    later: TracePart
    main_bytes: int
    kept_bytes: int
    borrowed_bytes: int


class ModelChunks:
    """The chunks of a pipeline rank."""

    def __init__(self, plan: MegatronPlan, chunks: Sequence[ChunkBuffers]) -> None:
        self._plan, self._chunks, self._states = plan, chunks, plan.step.states
        self._muon, self._deals = plan.step.muon, deals_whole(plan)
        self._lays = state_sharding(plan).lays_whole
        self._ranks = plan.layout.optimizer_shards, plan.layout.expert_optimizer_shards
        self._sharded = plan.layout.sharding != "no_shard" and not self._deals

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

    def _copies(self, parameter: LocalParameter) -> list[int]:
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

    def _has(self, buffer: Buffer, parameter: LocalParameter) -> bool:
        narrow = self._states.narrow
        apart = narrow is not None and narrow.alone
        same = not apart or buffer.narrow == parameter.narrow
        same = same and buffer.whole == (self._lays and bool(parameter.matrices))
        return same and buffer.expert == parameter.expert and not parameter.frozen

    def stepped(self, share: int, recorder: Recorder) -> Stepped:
        """What the optimizer of the rank with this share asks for."""
        states, groups = self._states, [*self._groups(share)]
        recorder.moment = "load"
        for piece in chain(*groups) if states.master and not states.holds_master else ():
            copied = recorder.make(states.weights * piece.numel)
            recorder.make(states.master * piece.numel)
            recorder.release(copied)
        main, main_bytes = recorder.cut(), recorder.bytes
        self._step(share, groups, recorder, first=True)
        first, kept = recorder.cut(), recorder.bytes
        recorder.forget_peak()
        self._step(share, groups, recorder, first=False)
        borrowed = recorder.peak_bytes - kept
        return Stepped(main, first, recorder.cut(), main_bytes, kept, borrowed)

    def _step(
        self, share: int, groups: Sequence[Group], recorder: Recorder, *, first: bool
    ) -> None:
        """One step of the optimizer; the `first` makes moments."""
        states, recorder.moment = self._states, "optimizer_step"
        of_gradients = GRADIENT * states.copies_gradients
        copied = [each for each in chain(*groups) if of_gradients]
        borrowed = [recorder.make(of_gradients * each.numel) for each in copied]
        own = (*states.each_moment, *(states.master,) * states.holds_master)
        for group in groups:
            if self._muon is not None and group[0].matrices:
                for piece in group if first else ():
                    recorder.make(states.matrix_moments * piece.numel)
                orthogonalise(group, self._muon, recorder)
                continue
            for piece in group:
                for width in own if first else ():
                    recorder.make(width * piece.numel)
                if states.step > of_gradients:
                    borrowed.append(recorder.make((states.step - of_gradients) * piece.numel))
        self._gather(share, recorder)
        recorder.release(*borrowed)

    def _gather(self, share: int, recorder: Recorder) -> None:
        """All parameters as ranks that were dealt whole ones gather them, which each joins its own
        for: dense ones, then those of experts. Source: layer_wise_optimizer.py (allgather_params).
        """
        for hands in self._dealt if self._deals else ():
            sizes = [self._states.weights * sum([each.numel for each in own]) for own in hands]
            if len(hands) > 1:
                own = sizes[share * len(hands) // self._plan.layout.optimizer_shards]
                gathered = [recorder.make(nbytes) for nbytes in (own, *sizes) if nbytes]
                recorder.release(*gathered)

    @property
    def buffers(self) -> list[Buffer]:
        """The buffers of all chunks."""
        return [each for chunk in self._chunks for each in chunk.buffers]

    @property
    def parameters(self) -> list[LocalParameter]:
        """The parameters of all chunks, whole."""
        return [each for chunk in self._chunks for each in chunk.parameters]

    def states_of(self, share: int) -> int:
        """Bytes of the states of a rank's moments."""
        states = self._states
        return sum(
            [
                each.numel * (states.matrix_moments if each.matrices else states.moments)
                for each in self._each(share)
            ]
        )

    def _groups(self, share: int) -> Iterator[Group]:
        """A rank's pieces as optimizers step them: those that are Muon's first, if any are; of
        each optimizer dense ones and those of experts, in groups with and without weight decay.
        """
        pieces = [*self._each(share)]
        kinds = dict.fromkeys([self._kind(each) for each in self.parameters if not each.frozen])
        for kind in sorted(kinds, key=lambda each: each[:2]):
            group = [piece for piece in pieces if self._kind(piece) == kind]
            if group:
                yield group

    def _kind(self, parameter: LocalParameter) -> tuple[bool, bool, bool]:
        """What parameters of one group have in common."""
        scalar = self._muon is not None and not parameter.matrices
        return scalar, parameter.expert, parameter.vector

    @cached_property
    def _dealt(self) -> tuple[list[list[LocalParameter]], ...]:
        """What every rank is dealt of dense parameters, and of those of experts."""
        every = [each for each in self.parameters if not each.frozen]
        kinds = ([each for each in every if each.expert == expert] for expert in (False, True))
        return tuple(map(dealt, kinds, self._ranks))

    def _each(self, share: int) -> Iterator[LocalParameter]:
        shards = self._plan.layout.optimizer_shards
        if self._deals:
            for hands in self._dealt:
                yield from hands[share * len(hands) // shards]
            return
        for chunk in self._chunks:
            if not self._sharded:
                yield from [each for each in chunk.parameters if not each.frozen]
                continue
            for buffer in chunk.buffers:
                yield from buffer.pieces(share * buffer.ranks // shards)
