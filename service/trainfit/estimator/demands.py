"""What an operation asks of a GPU's arithmetic, and of the links between GPUs.

Programs say it beside what they keep: the shapes are those of one rank. An operation that asks for
nothing but memory is known by the tensors that it reads and makes. Symbols: estimator.legend.
"""

from typing import Literal, NamedTuple

Group = Literal["tp", "cp", "ep", "etp"]
"""Ranks that exchange tensors within a block."""
Pattern = Literal["gather", "all_to_all", "ring"]
"""How: every rank ends up with, or adds up, what all have; each sends each its part; keys and
values go round beside the kernel that reads them."""


class Product(NamedTuple):
    """[rows, inputs] times a matrix [features, inputs], and in backward as many products of that
    size as there are gradients. Rows are shared out among the matrices of a model's `experts`, of
    which a rank has its part. `narrow` ones are in fp8 where linears are.
    """

    rows: int
    inputs: int
    features: int
    experts: int = 0
    gradients: int = 2
    narrow: bool = True


class AttentionDemand(NamedTuple):
    """Softmax attention of `queries` on this rank, each in so many `heads` of `widths` d + d_v, to
    the `keys` of its whole sequence that come before it, or to a `window` of them. An unfused one
    multiplies with all, and writes scores of `score_bytes` each.
    """

    queries: int
    heads: int
    widths: int
    keys: int
    window: int | None = None
    score_bytes: int = 0

    @property
    def span(self) -> float:
        """Keys that the mean query attends to."""
        keys, window = self.keys, self.window
        if window is None or window >= keys:
            return keys / 2
        return window * (1 - window / (2 * keys))


class Collective(NamedTuple):
    """A collective of a group of ranks: the bytes of the whole tensor, forward and backward. One
    that adds up in place has them twice: scattered and gathered. Of `copies` of a row that go to
    one node over a network, one does.
    """

    group: Group
    pattern: Pattern
    forward: int
    backward: int
    copies: int = 1


Demand = Product | AttentionDemand | Collective
