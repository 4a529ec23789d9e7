"""What all ranks of PyTorch modules whose requests are recorded do alike: load the model, make a
first step, and then steps that are the same.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import ceil

from trainfit.estimator import cublas
from trainfit.estimator.frameworks.pytorch.ledger import PlacedGroups
from trainfit.estimator.frameworks.pytorch.reference import (
    ReferencePasses,
    has_copy,
    weights_of_copy,
)
from trainfit.estimator.frameworks.pytorch.states import Numbers, Shares
from trainfit.estimator.frameworks.pytorch.stretch_passes import (
    NOTHING,
    PassesByStretch,
    StretchPasses,
    operations,
    release_cached,
)
from trainfit.estimator.ledger import BlockOperation
from trainfit.estimator.placement import Content
from trainfit.estimator.tensors import Tensor
from trainfit.estimator.trace.recorder import HeldTensor, Recorder, Trace
from trainfit.resolve.pytorch.plan import Adapters
from trainfit.specs.optimizers import OPTIMIZERS

LATER = 1 << 40
"""The first name in a later step. What is there before it has none of its names, even where that
was recorded of micro-batches of another length, which may have more tensors or fewer.
"""


class RecordedRank(ABC):
    """A rank with this content, and the recorder of what it asks the allocator for."""

    def __init__(self, shares: Shares, content: Content) -> None:
        self._ledger, self._shares, self._content = shares.ledger, shares, content
        self._plan = shares.ledger.plan
        self._placed = list(self._ledger.placed(content))
        self._passes = PassesByStretch(self._ledger)
        self._recorder = Recorder()
        runs = self._plan.runs_reference
        self._reference = ReferencePasses(self._ledger, content) if runs else None
        self._workspace = cublas.workspaces(self._plan.gpu.compute_capability) // cublas.HANDLES

    def trace(self) -> Trace:
        """The requests of load, of the first step and of each later one."""
        self._recorder.moment = "load"
        self._load()
        loaded = self._recorder.cut()
        self._step(first=True)
        first = self._recorder.cut()
        self._recorder.name_from(LATER)
        self._step(first=False)
        return self._recorder.trace(loaded, first)

    @abstractmethod
    def _load(self) -> None: ...

    @abstractmethod
    def _step(self, *, first: bool) -> None: ...

    def _load_model(self, bytes_of: Callable[[Numbers], int], adapters: Adapters | None) -> None:
        """Matrices by themselves, what a stretch has besides in one piece."""
        embedding, rest = self._shares.outside(self._content)
        self._recorder.make(bytes_of(embedding))
        for placed in self._placed:
            if placed.kind is not None:
                layer = bytes_of(self._shares.layer(placed.kind))
                self._load_stretch(placed, layer, adapters)
        self._load_stretch(self._placed[-1], bytes_of(rest), adapters)

    def _load_copy(self) -> None:
        """The weights of a reference model."""
        if has_copy(self._plan):
            self._load_model(lambda numbers: weights_of_copy(numbers, self._plan), None)

    def _load_stretch(self, placed: PlacedGroups, whole: int, adapters: Adapters | None) -> None:
        for operation in operations(placed.groups):
            for nbytes in self._matrices(operation, adapters):
                if nbytes <= whole:
                    self._recorder.make(nbytes)
                    whole -= nbytes
        if whole:
            self._recorder.make(whole)

    def _matrices(self, operation: BlockOperation, adapters: Adapters | None) -> Iterator[int]:
        """Bytes of a product's weight, and of the adapters beside it."""
        if operation.gemm is None:
            return
        outputs, inputs = operation.gemm
        base, width = self._plan.step.adapters, self._plan.step.states.parameters
        if base is not None and self._ledger.sizes.is_quantised(operation.name):
            yield ceil(outputs * inputs * base.matrix_bytes)
        else:
            yield outputs * inputs * width
        if adapters is not None and operation.adapted:
            yield adapters.rank * inputs * adapters.element_bytes
            yield adapters.rank * outputs * adapters.element_bytes

    def _behind_autocast(
        self,
        passes: Sequence[StretchPasses],
        here: Sequence[dict[Tensor, HeldTensor]],
        number: str,
    ) -> None:
        """Autocast ends, and what of the head's forward stands behind it runs, with a reference."""
        release_cached(self._recorder, zip(passes, here, strict=True))
        self._recorder.run(passes[-1].behind_autocast, here[-1])
        self._after_reference(passes[-1], here[-1], number)

    def _after_reference(
        self, passes: StretchPasses, here: dict[Tensor, HeldTensor], number: str
    ) -> None:
        """The rest of a head's forward, before which a reference runs."""
        if passes.behind_reference is NOTHING or self._reference is None:
            return
        moment, reads = self._recorder.moment, passes.of_reference
        has_logits = reads is not None
        logits = self._reference.run(
            self._recorder, number, self._gathered_for_reference, has_logits=has_logits
        )
        if reads is not None and logits is not None:
            here[reads] = logits
        self._recorder.moment = moment
        self._recorder.run(passes.behind_reference, here)

    def _gathered_for_reference(self, index: int) -> AbstractContextManager[None]:  # noqa: ARG002
        """While a reference runs this stretch: nothing is gathered for it."""
        return nullcontext()

    def _make_states(self, elements: Sequence[int]) -> None:
        """The optimizer's states of parameters with these numbers of elements, which it makes one
        parameter after the other at its first step (torch/optim/adamw.py, _init_group).
        """
        optimizer, states = self._plan.step.optimizer, self._plan.step.states
        moments = max(1, OPTIMIZERS[optimizer.name].moments)
        for count in elements:
            for _ in range(moments if states.moments and not optimizer.paged else 0):
                self._recorder.make(ceil(states.moments * count / moments))

    def _borrow(self, elements: Sequence[int], width: int, tensors: int, *, at_once: bool) -> None:
        """What an optimizer's step makes and gives back: so many tensors of so many bytes for each
        element, of all parameters `at_once` or of one parameter after the other.
        """
        make, release = self._recorder.make, self._recorder.release
        if at_once:
            release(*[make(width * count) for _ in range(tensors) for count in elements])
            return
        for count in elements:
            release(*[make(width * count) for _ in range(tensors)])
