"""What all ranks of PyTorch modules whose requests are recorded do alike: load the model, make a
first step, and then steps that are the same.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import ceil

from trainfit.estimator import cublas
from trainfit.estimator.frameworks.pytorch.courses import Courses
from trainfit.estimator.frameworks.pytorch.states import Shares
from trainfit.estimator.placement import Content
from trainfit.estimator.trace.recorder import Recorder, Trace
from trainfit.specs.optimizers import OPTIMIZERS


class RecordedRank(ABC):
    """A rank with this content, and the recorder of what it asks the allocator for."""

    def __init__(self, shares: Shares, content: Content) -> None:
        self._ledger = shares.ledger
        self._plan = shares.ledger.plan
        self._placed = list(self._ledger.placed(content))
        self._courses = Courses(self._ledger)
        self._recorder = Recorder()
        self._workspace = cublas.workspaces(self._plan.gpu.compute_capability) // cublas.HANDLES

    def trace(self) -> Trace:
        """The requests of load, of the first step and of each later one."""
        self._recorder.moment = "load"
        self._load()
        loaded = self._recorder.cut()
        self._step(first=True)
        first = self._recorder.cut()
        self._step(first=False)
        return self._recorder.trace(loaded, first)

    @abstractmethod
    def _load(self) -> None: ...

    @abstractmethod
    def _step(self, *, first: bool) -> None: ...

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
