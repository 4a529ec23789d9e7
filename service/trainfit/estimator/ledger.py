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


class Split(Enum):
    """How the ranks of a stage share a weight."""

    TENSOR = "divided over tensor-parallel ranks"
    EXPERT = "divided over expert-parallel and expert-tensor-parallel ranks"
    REPLICATED = "whole on every rank"


class Weight(NamedTuple):
    """A parameter that a block owns: `numel` elements before any split."""

    name: str
    numel: int
    bucket: Bucket
    split: Split
    trainable: bool = True
    vector: bool = False
    """No matrix that a linear multiplies with: a bias, say."""


class Lifetime(Enum):
    """How long a tensor lives."""

    SAVED = "from its operation's forward to the same operation's backward"
    HELD = "until the forward of the enclosing block returns"
    FORWARD = "borrowed within its operation's forward"
    BACKWARD = "borrowed within its operation's backward, besides what is saved"
    GRADIENT = "from its operation's backward until gradients are reduced or the step ends"


class Kind(Enum):
    """What an operation is to whoever picks some of a layer's."""

    NORM = "a norm of the residual stream, or of a latent"
    PRODUCT = "a matrix product"
    ATTENTION = "the kernel of attention"
    EXCHANGE = "rows on their way between expert-parallel ranks"
    PERMUTATION = "rows ordered by expert, to be sent"
    LOSS = "the loss of the logits"


class Row(NamedTuple):
    """Bytes with a name and a lifetime. `dropped_by` names the modules that let go of the tensor
    until backward, the widest first: recomputed ones, and offloaded ones. `tensor` is what a
    program made.
    """

    name: str
    bytes: int
    lifetime: Lifetime
    dropped_by: tuple[str, ...] = ()
    tensor: Tensor | None = None
    role: Role | None = None

    @property
    def formula(self) -> str:
        """The name with the tensor's shape; a table's names have theirs."""
        return self.name if self.tensor is None else self.tensor.formula


class Course(NamedTuple):
    """The order of what happens within an operation, for whoever needs more than its highest
    moment.

    It `reads` storages that were made before, and adds its own, that it saves. Of the `forward` and
    the `backward` moments each is given by what is borrowed then; of the `late` and the `early`
    tensors, which it saves, a moment of its forward or backward names those that are there. Its
    `output` is made last, or it `makes` more.
    """

    reads: tuple[Tensor, ...]
    forward: tuple[tuple[Tensor, ...], ...]
    backward: tuple[tuple[Tensor, ...], ...]
    late: tuple[Tensor, ...]
    early: tuple[Tensor, ...]
    output: Tensor | None
    makes: tuple[Tensor, ...] = ()


class Operation(NamedTuple):
    """One step of a block's forward with the tensors it makes.

    `gemm` is the (out, in) shape of its weight on one rank where a linear runs, with a `bias` or
    without; `output` are the bytes that it makes. `modules` are those that it runs in and that can
    be recomputed as a whole, the widest first. `adapted` are those that adapters are trained
    beside. `absent` are bytes that it saves and that are not there yet at the highest moment of its
    forward, or no more at that of its backward. `demands` are what it asks of arithmetic and links;
    it runs again in backward where any module of `again` is recomputed.
    """

    name: str
    tensors: tuple[Row, ...]
    gemm: tuple[int, int] | None = None
    modules: tuple[str, ...] = ()
    bias: bool = False
    output: int = 0
    kind: Kind | None = None
    adapted: bool = False
    absent: tuple[int, int] = (0, 0)
    course: Course | None = None
    demands: tuple[Demand, ...] = ()
    again: tuple[str, ...] = ()


Group = tuple[Operation, ...]
"""Operations of one block: what they hold ends when the last has run."""
