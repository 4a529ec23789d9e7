"""Weights of vision and audio towers with their projectors, known by their numbers of parameters.

Megatron's layers share out what linears multiply with: the first of two by its rows, and its bias,
the second by its columns. All else of a tower every tensor-parallel rank has whole.
"""

from collections.abc import Iterator

from trainfit.estimator.ledger import Split, Weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.encoder import Encoder

PROJECTOR = "projector"
TOWER_MODULE, PROJECTOR_MODULE = "vision_tower", "multi_modal_projector"
"""The names that the two are frozen by."""
MODULES = {"encoder": TOWER_MODULE, PROJECTOR: PROJECTOR_MODULE}
"""What parts of a tower that can be trained are frozen by, under the names of their weights."""


def towers(spec: ModelSpec, *, divided: bool = False) -> Iterator[Weight]:
    """Whole on every rank, or `divided` as Megatron's own layers are."""
    frozen, projector = spec.encoder_frozen_parameters, spec.projector_parameters or 0
    shared = shared_parameters(spec.encoder) if divided and spec.encoder is not None else (0, 0)
    for name, numel, of_ranks, trainable in (
        ("encoder", spec.encoder_parameters - frozen - projector, shared[0], True),
        (PROJECTOR, projector, shared[1], True),
        ("encoder_frozen", frozen, 0, False),
    ):
        if of_ranks:
            yield Weight(name, of_ranks, "vision", Split.TENSOR, trainable)
        if numel - of_ranks:
            yield Weight(name, numel - of_ranks, "vision", Split.REPLICATED, trainable)


def shared_parameters(encoder: Encoder) -> tuple[int, int]:
    """Parameters of the tower, projectors of earlier layers among them, and of the last projector
    that tensor-parallel ranks share out.
    """
    h, f = encoder.hidden_size, encoder.ffn_hidden_size
    qkv = 3 * h * (h + encoder.qkv_bias)
    first = (1 + encoder.gated) * f * (h + encoder.bias)
    layer = qkv + h * h + first + f * h
    of_projector = _shared_of_projector(encoder)
    layers = encoder.num_layers + encoder.unread_layers
    return layers * layer + encoder.deep_mergers * of_projector, of_projector


def _shared_of_projector(encoder: Encoder) -> int:
    """Matrices of its two products, and the bias of the first."""
    width, total, by_rows = encoder.hidden_size, 0, True
    for step in encoder.projector:
        if step.kind == "linear":
            total += step.width * (width + (step.bias and by_rows))
            by_rows = not by_rows
        width = step.width
    return total
