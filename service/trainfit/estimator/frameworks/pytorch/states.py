"""Bytes of model states on one GPU under PyTorch, and what the optimizer's step borrows.

Symbols: estimator.legend. Sources: torch/optim/adamw.py and the like, bitsandbytes/optim,
deepspeed/runtime/zero/stage_1_and_2.py and stage3.py.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from math import ceil
from operator import add
from typing import NamedTuple

from trainfit.estimator.blocks.tower.weights import PROJECTOR, PROJECTOR_MODULE, TOWER_MODULE
from trainfit.estimator.blocks.virtual_tokens import pytorch as virtual_tokens
from trainfit.estimator.frameworks.pytorch.conventions import conventions_of
from trainfit.estimator.frameworks.pytorch.ledger import PytorchLedger
from trainfit.estimator.frameworks.pytorch.optimizers import borrowed
from trainfit.estimator.frameworks.pytorch.towers import adapter_parameters
from trainfit.estimator.ledger import Weight
from trainfit.estimator.legend import PytorchLegend, pytorch_legend_of
from trainfit.estimator.local_adapters import adapters_of
from trainfit.estimator.local_parameters import (
    ChunkParameters,
    Local,
    ParameterTable,
    divided_model,
    parameters_of,
)
from trainfit.estimator.memo import Memo
from trainfit.estimator.placement import Content, place
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.blocks import Experts
from trainfit.specs.pipeline_layout import VirtualStage

MODULES = {
    "embedding": "embed_tokens",
    "output_layer": "lm_head",
    "norm": "norm",
    "vision": TOWER_MODULE,
}
"""Modules that can be frozen, or trained as a whole beside adapters, by the bucket of their
weights."""
BY_NAME = {
    ("norm", "final"): "final_norm",
    ("vision", PROJECTOR): PROJECTOR_MODULE,
    ("other", "score"): "score",
}
"""Modules that have a part of a bucket, by the name of the weight as well."""


class Numbers(NamedTuple):
    """Numbers of elements on one GPU before data-parallel ranks share them out.

    `matrices` and `trained_matrices` are the parts that stand in matrices of linear layers,
    `trained_embedding` that of the embedding, `frozen_ends` that of embedding and head.
    """

    dense: int
    expert: int
    frozen_matrices: int
    frozen: int
    trained_matrices: int
    trained_embedding: int = 0
    frozen_ends: int = 0

    @property
    def trained(self) -> int:
        return self.dense + self.expert

    @property
    def all(self) -> int:
        return self.trained + self.frozen + self.frozen_matrices

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

    def __init__(self, table: ParameterTable, plan: PytorchPlan) -> None:
        self._plan, self._all, sizes = plan, table, pytorch_legend_of(plan)
        never = plan.model.encoder_frozen_parameters > 0
        said = sizes.adapters is not None or bool(sizes.frozen)
        self.partly = said or never or _freezes_layers(plan)
        """Whether some parameters are not trained."""
        divided = divided_model(plan)
        self._trained = ParameterTable(divided, _trained(sizes)) if self.partly else table
        adapters = sizes.adapters
        self._matrices_of_experts = adapters is None or adapters.with_experts
        """Whether experts are stored as other matrices are."""
        self._adapters = [0] * len(plan.model.layer_kinds)
        if sizes.adapters is not None:
            tables = self.ledger.layer_tables
            self._adapters = [adapters_of(each.operations, sizes) for each in tables]
        self._virtual = virtual_tokens.elements(plan)
        self._towers = adapter_parameters(plan)

    @cached_property
    def ledger(self) -> PytorchLedger:
        """The model's programs, run where somebody asks what they leave behind."""
        return PytorchLedger(self._plan)

    def chunk(self, content: Content) -> tuple[ChunkParameters, Numbers]:
        """What a chunk holds, and how much of it is trained."""
        whole = self._all.chunk(content)
        trained = self._trained.chunk(content)
        adapters = sum(self._adapters[kind] for kind in content.kinds)
        adapters += self._virtual + self._towers if content.embedding else 0
        numbers = self._numbers(whole.all, trained.all, adapters)
        ends = whole.embedding + whole.output_layer - trained.embedding - trained.output_layer
        return whole, numbers._replace(trained_embedding=trained.embedding, frozen_ends=ends)

    def layer(self, kind: int) -> Numbers:
        """A layer of this kind."""
        whole, trained = self._all.kind(kind), self._trained.kind(kind)
        return self._numbers(whole, trained, self._adapters[kind])

    def outside(self, content: Content) -> tuple[Numbers, Numbers]:
        """What stands outside the layers of a chunk: the embedding, and all else."""
        whole, trained = self._all.chunk(content), self._trained.chunk(content)
        outside, of_trained = whole.all, trained.all
        for kind in set(content.kinds):
            count = content.kinds.count(kind)
            outside = outside.minus(self._all.kind(kind).times(count))
            of_trained = of_trained.minus(self._trained.kind(kind).times(count))
        embedding = Local(dense=whole.embedding), Local(dense=trained.embedding)
        rest = outside.minus(embedding[0]), of_trained.minus(embedding[1])
        virtual, towers = (self._virtual, self._towers) if content.embedding else (0, 0)
        first, last = self._numbers(*embedding, virtual), self._numbers(*rest, towers)
        head = whole.output_layer - trained.output_layer
        return first._replace(frozen_ends=first.frozen), last._replace(frozen_ends=head)

    def _numbers(self, whole: Local, trained: Local, adapters: int) -> Numbers:
        frozen = whole.dense + whole.expert - trained.dense - trained.expert
        matrices = whole.linear - trained.linear
        if self._matrices_of_experts:
            matrices += whole.expert - trained.expert
        return Numbers(
            dense=trained.dense + adapters,
            expert=trained.expert,
            frozen_matrices=matrices,
            frozen=frozen - matrices,
            trained_matrices=trained.linear + trained.router + trained.expert + adapters,
        )


def shares_of(plan: PytorchPlan, table: ParameterTable, memo: Memo) -> Shares:
    """Worked out once for a plan: they rest on all of it."""
    return memo(Shares, table, plan)


def undivided_shares(plan: PytorchPlan, table: ParameterTable, memo: Memo) -> Shares:
    """Who holds which parameters before the ranks of a stage divide them."""
    layout = replace(plan.layout, tp=1, ep=1, etp=1)
    if layout != plan.layout:
        plan = replace(plan, layout=layout)
        table = parameters_of(plan, memo)
    return shares_of(plan, table, memo)


def trained_parameters(plan: PytorchPlan, table: ParameterTable, memo: Memo) -> int:
    """How many elements of the whole model are trained, those of adapters among them. `table` is
    that of the plan.
    """
    stage = VirtualStage(
        embedding=True, layers=plan.model.num_layers, mtp_layers=0, output_layer=True
    )
    alone = replace(plan.layout.pipeline, pp=1, vpp=1, virtual_stages=(stage,))
    layout = replace(plan.layout, tp=1, ep=1, etp=1, pipeline=alone)
    if layout != plan.layout:
        plan = replace(plan, layout=layout)
        table = parameters_of(plan, memo)
    ((placement,),) = place(plan)
    return shares_of(plan, table, memo).chunk(placement.content)[1].trained


def _freezes_layers(plan: PytorchPlan) -> bool:
    kinds = plan.model.layer_kinds
    return not all(sublayer.trainable for kind in kinds for sublayer in kind.sublayers)


def _trained(sizes: PytorchLegend) -> Callable[[Weight], bool]:
    def wanted(weight: Weight) -> bool:
        by_name = BY_NAME.get((weight.bucket, weight.name))
        module = by_name or MODULES.get(weight.bucket, weight.bucket)
        return weight.trainable and sizes.trains(module)

    return wanted


def shard(numbers: Numbers, plan: PytorchPlan) -> Numbers:
    """The share of one rank: the largest where the parameters do not divide evenly."""
    dense = plan.layout.optimizer_shards
    return Numbers(
        -(-numbers.dense // dense),
        ceil(numbers.expert * expert_share(plan)),
        -(-numbers.frozen_matrices // dense),
        -(-numbers.frozen // dense),
        -(-numbers.trained_matrices // dense),
        -(-numbers.trained_embedding // dense),
        -(-numbers.frozen_ends // dense),
    )


def expert_share(plan: PytorchPlan) -> Fraction:
    """The share of the first rank in matrices that hold one expert beside the other: FSDP2 divides
    them by experts, so that a rank has no less than one. torchtitan divides each where it has more
    ranks than experts, and FSDP1 and DeepSpeed divide what they flattened.
    """
    ranks = plan.layout.expert_optimizer_shards
    local = max((block.experts // plan.layout.ep for block in _experts(plan)), default=1)
    by_experts = plan.step.data_parallelism.engine == "fsdp2"
    if not by_experts or (ranks > local and conventions_of(plan).experts_are_divided_by_rows):
        return Fraction(1, ranks)
    return Fraction(-(-local // ranks), local)


def _experts(plan: PytorchPlan) -> list[Experts]:
    return [block for block in plan.model.blocks if isinstance(block, Experts)]


def padded(numbers: Numbers, plan: PytorchPlan) -> Numbers:
    """What all ranks together hold of these parameters, with the padding of the last ones."""
    whole = ceil(numbers.expert * expert_share(plan) * plan.layout.expert_optimizer_shards)
    return numbers._replace(expert=max(numbers.expert, whole))


def stored(numbers: Numbers, plan: PytorchPlan) -> int:
    """Bytes of weights as they are stored between steps."""
    states, adapters = plan.step.states, plan.step.adapters
    if adapters is None:
        return states.parameters * (numbers.trained + numbers.frozen + numbers.frozen_matrices)
    narrow = numbers.frozen_ends if adapters.narrow_ends else 0
    return (
        adapters.element_bytes * numbers.trained
        + ceil(adapters.matrix_bytes * numbers.frozen_matrices)
        + states.parameters * (numbers.frozen - narrow)
        + plan.step.activation_bytes * narrow
    )


def gathered(numbers: Numbers, plan: PytorchPlan) -> int:
    """Bytes of weights as a forward reads them, whole."""
    adapters, states = plan.step.adapters, plan.step.states
    width = states.gathered
    if adapters is None:
        narrowed = max(0, numbers.trained_matrices - numbers.expert) + numbers.frozen_matrices
        whole = width * (numbers.trained + numbers.frozen + numbers.frozen_matrices)
        return whole - (width - states.gathered_matrices) * narrowed
    matrix = min(adapters.matrix_bytes - adapters.scale_bytes, Fraction(width))
    return (
        adapters.computed_bytes * numbers.trained
        + width * numbers.frozen
        + ceil(matrix * numbers.frozen_matrices)
    )


def scales(numbers: Numbers, plan: PytorchPlan) -> int:
    """What quantised weights have beside them: every rank has all of it."""
    adapters = plan.step.adapters
    return 0 if adapters is None else ceil(adapters.scale_bytes * numbers.frozen_matrices)


def stored_share(numbers: Numbers, plan: PytorchPlan) -> int:
    """A rank's share of weights as they are stored, without the scales of quantised ones."""
    part = shard(numbers, plan)
    return stored(part, plan) - scales(part, plan)


def _whole_scales(numbers: Numbers, part: Numbers, plan: PytorchPlan) -> int:
    """What a rank has of quantised weights beside its part: their scales are no parameters, and
    stay whole. Source: bitsandbytes' nn/modules.py (Params4bit, quant_state).
    """
    adapters = plan.step.adapters
    if adapters is None:
        return 0
    return ceil(adapters.scale_bytes * (numbers.frozen_matrices - part.frozen_matrices))


def model_states(numbers: Numbers, largest: int, plan: PytorchPlan) -> States:
    """States between steps. `largest` is the number of elements of the largest parameter, of
    which alone there is a gradient where each is stepped as soon as it has one. Under tensor
    parallelism alone the embedding's gradient is a part of a whole one, and copied for the step.
    With DeepSpeed's optimizer on the host, gradients go there as they are made, and so do all of
    FSDP's shares.
    """
    strategy, states = plan.layout.sharding, plan.step.states
    part = shard(numbers, plan)
    sharded = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}[strategy]
    stepped = part if sharded >= 1 else numbers
    matrices = min(stepped.trained_matrices, stepped.trained)
    moments = states.matrix_moments * matrices + states.moments * (stepped.trained - matrices)
    moments += (states.embedding_moments - states.moments) * stepped.trained_embedding
    optimizer = ceil(moments) + states.master * stepped.trained
    if plan.step.optimizer.paged:
        optimizer = states.master * stepped.trained
    if sharded == 3:
        weights = stored(part, plan) + _whole_scales(numbers, part, plan)
    else:
        weights = stored(numbers, plan)
    if plan.step.data_parallelism.on_host:
        return States(_whole_scales(numbers, part, plan) + scales(part, plan), 0, 0, 0)
    zero = plan.step.data_parallelism.zero
    if zero is not None and zero.parameters_on_host:
        weights = 0
    if zero is not None and zero.optimizer_on_host:
        return States(weights, 0, 0, 0)
    if plan.step.optimizer.in_backward:
        largest = min(largest, stepped.trained)
        step = borrowed(largest, largest, plan)
        return States(weights, states.gradients * largest, optimizer, step)
    gradients = states.gradients * (part if sharded >= 2 else numbers).trained
    step = borrowed(stepped.trained, largest, plan)
    if plan.layout.tp > 1 and plan.layout.divides_embedding and sharded == 0:
        share = plan.vocabulary_rows * plan.model.hidden_size // plan.layout.tp
        step = max(step, states.gradients * share)
    return States(weights, gradients, optimizer, step)
