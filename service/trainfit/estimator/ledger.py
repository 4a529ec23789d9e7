"""The ledger: the weights a block owns and the tensors its operations make.

Tensors, not bytes, are the atom: each has a size and a lifetime, and one storage is listed once,
at the operation whose backward lets go of it. Everything the estimator says is a sum or a
maximum over these lists.
"""

from enum import Enum
from typing import NamedTuple

from trainfit.estimator.demands import Demand
from trainfit.estimator.tensors import Role, Tensor
from trainfit.specs.blocks import Bucket

Tensors = tuple[Tensor, ...]


class Split(Enum):
    """How the ranks of a stage share a weight."""

    TENSOR = "divided over tensor-parallel ranks"
    EXPERT = "divided over expert-parallel and expert-tensor-parallel ranks"
    REPLICATED = "whole on every rank"


class Networks(NamedTuple):
    """Feed-forward networks whose first matrix is so many times as large as their second."""

    number: int
    inputs: int


class Weight(NamedTuple):
    """A parameter that a block owns: `numel` elements before any split."""

    name: str
    numel: int
    bucket: Bucket
    split: Split
    trainable: bool = True
    vector: bool = False
    """No matrix that a linear multiplies with: a bias, say."""
    packed: bool = False
    """One with the other packed ones of its block, where these are projected at once."""
    networks: Networks | None = None
    """The matrices that it stands for."""


class Lifetime(Enum):
    """How long a tensor lives."""

    SAVED = "from its operation's forward to the same operation's backward"
    HELD = "until the forward of the enclosing block returns"
    FORWARD = "borrowed within its operation's forward"
    BACKWARD = "borrowed within its operation's backward, besides what is saved"
    GRADIENT = "from its operation's backward until gradients are reduced or the step ends"


class OperationKind(Enum):
    """What an operation is to whoever picks some of a layer's."""

    NORM = "a norm of the residual stream, or of a latent"
    PRODUCT = "a matrix product"
    ATTENTION = "the kernel of attention"
    ROUTING = "the choice of the experts of each row"
    EXCHANGE = "rows on their way between expert-parallel ranks"
    PERMUTATION = "rows ordered by expert, to be sent"
    LOSS = "the loss of the logits"
    REFERENCE = "the layers of a reference model"
    ADAPTER = "a product with a matrix of an adapter"


class Row(NamedTuple):
    """A tensor with its lifetime, and what it is to whoever saves it."""

    tensor: Tensor
    lifetime: Lifetime
    role: Role | None = None

    @property
    def name(self) -> str:
        return self.tensor.name

    @property
    def formula(self) -> str:
        return self.tensor.formula

    @property
    def bytes(self) -> int:
        return self.tensor.bytes

    @property
    def dropped_by(self) -> tuple[str, ...]:
        """The modules that let go of what is saved until backward, the widest first: recomputed
        ones, and offloaded ones.
        """
        return self.tensor.dropped_by if self.lifetime is Lifetime.SAVED else ()


class OperationPeak(NamedTuple):
    """The highest of the moments that an operation has in one direction: what it borrows then, and
    the bytes that it saves and that are not there, not yet or no more. All `moments` are given in
    their order where there are several, and of the tensors in `saved`, which it saves, each names
    those that are there.
    """

    borrowed: Tensors
    absent: int = 0
    moments: tuple[Tensors, ...] = ()
    saved: Tensors = ()

    @property
    def timeline(self) -> tuple[Tensors, ...]:
        """The moments in their order, each by what is borrowed then."""
        return self.moments or (self.borrowed,)

    def beside(self, *others: Tensor) -> "OperationPeak":
        """The highest moment with what is borrowed throughout."""
        if not others:
            return self
        moments = tuple([moment + others for moment in self.moments])
        return self._replace(borrowed=self.borrowed + others, moments=moments)


class BlockOperation(NamedTuple):
    """One step of a block's forward with the tensors it makes.

    `gemm` is the (out, in) shape of its weight on one rank where a linear runs, with a `bias` or
    without. `modules` are those that it runs in and that can be recomputed as a whole, the widest
    first. `adapted` are those that adapters are trained beside. It `reads` storages that were made
    before, or that it saves, and makes its `output` last, or it `makes` more. `demands` are what it
    asks of arithmetic and links; it runs again in backward where any module of `again` is
    recomputed.
    """

    name: str
    tensors: tuple[Row, ...]
    gemm: tuple[int, int] | None
    modules: tuple[str, ...]
    bias: bool
    kind: OperationKind | None
    adapted: bool
    reads: Tensors
    forward: OperationPeak
    backward: OperationPeak
    output: Tensor | None
    makes: Tensors
    demands: tuple[Demand, ...]
    again: tuple[str, ...]

    @property
    def output_bytes(self) -> int:
        return 0 if self.output is None else self.output.bytes


Group = tuple[BlockOperation, ...]
"""Operations of one block: what they hold ends when the last has run."""
