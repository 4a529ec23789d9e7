"""Layers -> stages and chunks: which layers each virtual stage holds.

Virtual stage i is chunk i // p of pipeline rank i % p; layers run through virtual stages in
order. The final norm follows the last layer in models with multi-token prediction, otherwise it
stands before the head. Source: megatron/core/transformer/transformer_layer.py
(get_transformer_layer_offset) and transformer_block.py (has_final_layernorm_in_this_stage).
"""

from typing import NamedTuple

from trainfit.resolve.plan import Plan


class Placement(NamedTuple):
    """What one chunk of a pipeline rank holds; `layers` are indices into the model."""

    vpp_rank: int
    layers: range
    embedding: bool
    final_norm: bool
    output_layer: bool
    mtp_layers: int


class Content(NamedTuple):
    """What a chunk is made of, whichever layers of their kinds they are: equal contents cost the
    same. `kinds` are the kinds of its layers in order.
    """

    kinds: tuple[int, ...]
    embedding: bool
    final_norm: bool
    output_layer: bool
    mtp_layers: int


def content_of(placement: Placement, plan: Plan) -> Content:
    layers = placement.layers
    return Content(
        plan.model.pattern[layers.start : layers.stop],
        placement.embedding,
        placement.final_norm,
        placement.output_layer,
        placement.mtp_layers,
    )


def place(plan: Plan) -> list[list[Placement]]:
    """Chunks by pipeline rank."""
    ranks: list[list[Placement]] = [[] for _ in range(plan.layout.pp)]
    first, last = 0, plan.model.num_layers - 1
    for index, stage in enumerate(plan.layout.virtual_stages):
        layers = range(first, first + stage.layers)
        chunk = Placement(
            vpp_rank=index // plan.layout.pp,
            layers=layers,
            embedding=stage.embedding,
            final_norm=last in layers if plan.mtp_layers else stage.output_layer,
            output_layer=stage.output_layer,
            mtp_layers=stage.mtp_layers,
        )
        ranks[index % plan.layout.pp].append(chunk)
        first += stage.layers
    return ranks
