"""Rotary positions as transformers' modules write them out, on queries, then on keys.

Each is multiplied with cos; its halves, one of them negated, are put together and multiplied with
sin; both products are added up. The queries and keys that were projected are there until both have
been turned. Backward goes from keys to queries, and either half has a gradient of full size.
Sources: transformers' modeling_llama.py (apply_rotary_pos_emb, rotate_half), torch/csrc/autograd
(derivatives.yaml: mul, cat, slice).
"""

from collections.abc import Sequence
from typing import NamedTuple

from trainfit.estimator.ledger import Tensors
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.tensors import Tensor


class Projected(NamedTuple):
    """Queries [n, a d / t] and keys [n, g d / t] before positions have turned them."""

    q: Tensor
    k: Tensor


def turned(step: Modules, of: Projected, q: Tensor, k: Tensor, v: Tensor) -> list[Tensors]:
    """The moments in which q and k are made, while v waits."""
    return [
        *_turned(step, q, (*of, v)),
        *_turned(step, k, (*of, v, q)),
    ]


def _turned(step: Modules, made: Tensor, waiting: Tensors) -> list[Tensors]:
    by_cos, halves, by_sin = [
        step.tensor(name, *made.shape)
        for name in ("product with cos", "halves, exchanged", "product with sin")
    ]
    half = _half(step, made)
    return [
        (*waiting, by_cos, half),
        (*waiting, by_cos, half, halves),
        (*waiting, by_cos, halves, by_sin),
        (*waiting, by_cos, by_sin, made),
    ]


def turned_back(
    step: Modules, of: Projected, gradients: tuple[Tensor, Tensor, Tensor]
) -> list[Tensors]:
    """The moments in which gradients of q, k and v become those of what was projected."""
    of_q, of_k, of_v = gradients
    keys = step.passed_back(of.k, "output gradient")
    queries = step.passed_back(of.q, "output gradient")
    return [
        *_turned_back(step, of_k, keys, (of_q, of_v)),
        *_turned_back(step, of_q, queries, (keys, of_v)),
    ]


def _turned_back(
    step: Modules, gradient: Tensor, total: Tensor, waiting: Sequence[Tensor]
) -> list[Tensors]:
    """Gradients of all uses are added up where the first one lies (input_buffer.cpp)."""
    by_sin, other, by_cos = [
        step.tensor(name, *gradient.shape)
        for name in ("gradient by sin", "gradient of the other half", "gradient by cos")
    ]
    half = _half(step, gradient)
    here = (*waiting, gradient)
    return [
        (*here, by_sin, half),
        (*here, by_sin, half, total),
        (*here, by_sin, total, other),
        (*here, total, by_cos),
    ]


def _half(step: Modules, of: Tensor) -> Tensor:
    n, heads, d = of.shape
    return step.tensor("negated half", n, heads, d // 2)
