"""Bytes of model states on one GPU under PyTorch, and what the optimizer's step borrows.

Symbols: estimator.legend. Sources: torch/optim/adamw.py and the like, bitsandbytes/optim,
deepspeed/runtime/zero/stage_1_and_2.py and stage3.py.
"""

from collections.abc import Callable, Iterable
from math import ceil
from operator import add
from typing import NamedTuple

from trainfit.estimator.frameworks.pytorch.ledger import Ledger
from trainfit.estimator.ledger import Group, Weight
from trainfit.estimator.legend import PytorchLegend
from trainfit.estimator.local_parameters import ChunkParameters, Local, ParameterTable
from trainfit.estimator.placement import Content
from trainfit.resolve.plan import PytorchPlan

MODULES = {"embedding": "embed_tokens", "output_layer": "lm_head", "norm": "norm"}
"""Modules that can be trained as a whole beside adapters, by the bucket of their weights."""


class Numbers(NamedTuple):
    """Numbers of elements on one GPU before data-parallel ranks share them out.

    `matrices` and `trained_matrices` are the parts that stand in matrices of linear layers.
    """

    dense: int
    expert: int
    frozen_matrices: int
    frozen: int
    trained_matrices: int

    @property
    def trained(self) -> int:
        return self.dense + self.expert

    def plus(self, other: "Numbers") -> "Numbers":
        return Numbers(*map(add, self, other))


class States(NamedTuple):
    """Bytes of a stage's states. `gradients` are those left when backward is over."""

    weights: int
    gradients: int
    optimizer: int
    step: int


class Shares:
    """Who holds which parameters: of the model, and of the adapters beside it."""

    def __init__(self, table: ParameterTable, ledger: Ledger) -> None:
        self._plan, self._ledger, self._all = ledger.plan, ledger, table
        sizes = ledger.sizes
        self._trained = (
            table if sizes.adapters is None else ParameterTable(ledger.plan, _trained(sizes))
        )
        self._adapters = [_adapter_parameters(groups, sizes) for groups in ledger.kinds]

    def chunk(self, content: Content) -> tuple[ChunkParameters, Numbers]:
        """What a chunk holds, and how much of it is trained."""
        whole = self._all.chunk(content)
        trained = self._trained.chunk(content).all
        adapters = sum(self._adapters[kind] for kind in content.kinds)
        return whole, self._numbers(whole.all, trained, adapters)

    def layer(self, kind: int) -> Numbers:
        """A layer of this kind."""
        whole, trained = self._all.kind(kind), self._trained.kind(kind)
        return self._numbers(whole, trained, self._adapters[kind])

    def outside(self, content: Content) -> tuple[Numbers, Numbers]:
        """What stands outside the layers of a chunk: the embedding, and all else."""
        whole, trained = self._all.chunk(content), self._trained.chunk(content)
        for kind in content.kinds:
            whole = whole._replace(all=whole.all.minus(self._all.kind(kind)))
            trained = trained._replace(all=trained.all.minus(self._trained.kind(kind)))
        embedding = Local(dense=whole.embedding), Local(dense=trained.embedding)
        rest = whole.all.minus(embedding[0]), trained.all.minus(embedding[1])
        return self._numbers(*embedding, 0), self._numbers(*rest, 0)

    def _numbers(self, whole: Local, trained: Local, adapters: int) -> Numbers:
        frozen = whole.dense + whole.expert - trained.dense - trained.expert
        matrices = whole.linear + whole.expert - trained.linear - trained.expert
        return Numbers(
            dense=trained.dense + adapters,
            expert=trained.expert,
            frozen_matrices=matrices,
            frozen=frozen - matrices,
            trained_matrices=trained.linear + trained.router + trained.expert + adapters,
        )


def _trained(sizes: PytorchLegend) -> Callable[[Weight], bool]:
    def wanted(weight: Weight) -> bool:
        return sizes.trains(MODULES.get(weight.bucket, weight.bucket))

    return wanted


def _adapter_parameters(groups: Iterable[Group], sizes: PytorchLegend) -> int:
    """Of the adapters of one layer: r elements for each row and each column of a matrix."""
    if sizes.adapters is None:
        return 0
    shapes = [
        operation.gemm
        for group in groups
        for operation in group
        if operation.gemm is not None and sizes.adapts(operation.name)
    ]
    return sizes.adapters.rank * sum(outputs + inputs for outputs, inputs in shapes)


def shard(numbers: Numbers, plan: PytorchPlan) -> Numbers:
    """The share of one rank: the largest where the parameters do not divide evenly."""
    dense, expert = plan.layout.optimizer_shards, plan.layout.expert_optimizer_shards
    return Numbers(
        -(-numbers.dense // dense),
        -(-numbers.expert // expert),
        -(-numbers.frozen_matrices // dense),
        -(-numbers.frozen // dense),
        -(-numbers.trained_matrices // dense),
    )


def stored(numbers: Numbers, plan: PytorchPlan) -> int:
    """Bytes of weights as they are stored between steps."""
    states, adapters = plan.step.states, plan.step.adapters
    if adapters is None:
        return states.parameters * numbers.trained
    return (
        adapters.element_bytes * numbers.trained
        + ceil(adapters.matrix_bytes * numbers.frozen_matrices)
        + states.parameters * numbers.frozen
    )


def gathered(numbers: Numbers, plan: PytorchPlan) -> int:
    """Bytes of weights as a forward reads them, whole."""
    adapters = plan.step.adapters
    width = plan.step.states.gathered
    frozen = ceil((adapters.matrix_bytes if adapters else 0) * numbers.frozen_matrices)
    return width * (numbers.trained + numbers.frozen) + frozen


def model_states(numbers: Numbers, largest: int, plan: PytorchPlan) -> States:
    """States between steps. `largest` is the number of elements of the largest parameter."""
    strategy, states = plan.layout.sharding, plan.step.states
    part = shard(numbers, plan)
    sharded = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}[strategy]
    stepped = part if sharded >= 1 else numbers
    matrices = min(stepped.trained_matrices, stepped.trained)
    moments = states.matrix_moments * matrices + states.moments * (stepped.trained - matrices)
    optimizer = ceil(moments) + states.master * stepped.trained
    if plan.step.optimizer.paged:
        optimizer = states.master * stepped.trained
    return States(
        weights=stored(part if sharded == 3 else numbers, plan),
        gradients=0
        if plan.step.optimizer.in_backward
        else states.gradients * (part if sharded >= 2 else numbers).trained,
        optimizer=optimizer,
        step=_borrowed(stepped.trained, largest, plan),
    )


def _borrowed(trained: int, largest: int, plan: PytorchPlan) -> int:
    """What the step makes for a moment: foreach a square root of every second moment, a loop two
    tensors of the largest parameter; Muon five in the narrow type, Adafactor three in fp32.
    """
    optimizer, states = plan.step.optimizer, plan.step.states
    copies = 4 * trained if states.master and states.gradients < states.master else 0
    match optimizer.name, optimizer.implementation:
        case "adam", "foreach":
            return copies + ceil(states.moments / 2) * trained
        case "adam", "for-loop":
            return copies + 2 * ceil(states.moments / 2) * largest
        case "adafactor", _:
            return copies + 3 * 4 * largest
        case "muon", _:
            return copies + 5 * 2 * largest
        case "lion", _:
            return copies + 2 * states.parameters * largest
        case _:
            return copies
