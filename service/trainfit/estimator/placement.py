"""Layers -> stages and chunks: which layers each virtual stage holds, and who holds it.

Layers run through virtual stages in order. The final norm follows the last layer in models with
multi-token prediction, otherwise it stands before the head. Source:
megatron/core/transformer/transformer_layer.py (get_transformer_layer_offset) and
transformer_block.py (has_final_layernorm_in_this_stage).
"""

from collections.abc import Hashable
from typing import NamedTuple

from trainfit.resolve.plan import Layout, Plan
from trainfit.specs.parallelism import V_SHAPED
from trainfit.specs.pipeline_layout import VirtualStage


class Content(NamedTuple):
    """What a chunk is made of, whichever layers of their kinds they are: equal contents cost the
    same. `kinds` are the kinds of its layers in order.
    """

    kinds: tuple[int, ...]
    embedding: bool
    final_norm: bool
    output_layer: bool
    mtp_layers: int
    embedding_weights: bool
    """Whether the chunk brings an embedding matrix: for its own lookup, or that of its
    multi-token prediction where the rank has no other.
    """
    head_copy: bool
    """Whether a tied head needs a copy of the matrix: its rank has none."""


class Placement(NamedTuple):
    """One chunk of a pipeline rank; `layers` are indices into the model."""

    vpp_rank: int
    layers: range
    content: Content


def rests_on(plan: Plan) -> Hashable:
    """All of a plan, besides its model, that its placement rests on."""
    layout = plan.layout
    return layout.virtual_stages, layout.pp, layout.schedule, plan.mtp_layers


def place(plan: Plan) -> list[list[Placement]]:
    """Chunks by pipeline rank."""
    starts = [0]
    for stage in plan.layout.virtual_stages:
        starts.append(starts[-1] + stage.layers)
    return [_chunks(plan, rank, starts) for rank in range(plan.layout.pp)]


def _chunks(plan: Plan, rank: int, starts: list[int]) -> list[Placement]:
    """The chunks of a rank. A tied head and the lookup of multi-token prediction use the rank's
    embedding matrix where it has one.
    """
    stages = plan.layout.virtual_stages
    held = held_by(plan.layout, rank)
    embeds = any(stages[index].embedding for index in held)
    predicts = any(stages[index].mtp_layers for index in held)
    return [
        Placement(
            vpp_rank,
            range(starts[index], starts[index + 1]),
            _content(plan, stages[index], starts[index], embeds, predicts),
        )
        for vpp_rank, index in enumerate(held)
    ]


def held_by(layout: Layout, rank: int) -> tuple[int, ...]:
    """Virtual stages of a rank, its chunks in order: every p-th one; down and up again where the
    schedule is V-shaped (2405.15362); its own and its mirror's in DualPipe (2412.19437).
    """
    p = layout.pp
    if layout.schedule in V_SHAPED:
        return rank, 2 * p - 1 - rank
    if layout.schedule == "dualpipe":
        return rank, p - 1 - rank
    return tuple(range(rank, len(layout.virtual_stages), p))


def _content(plan: Plan, stage: VirtualStage, first: int, embeds: bool, predicts: bool) -> Content:
    stop = first + stage.layers
    return Content(
        kinds=plan.model.pattern[first:stop],
        embedding=stage.embedding,
        final_norm=first < stop == plan.model.num_layers if plan.mtp_layers else stage.output_layer,
        output_layer=stage.output_layer,
        mtp_layers=stage.mtp_layers,
        embedding_weights=stage.embedding or (stage.mtp_layers > 0 and not embeds),
        head_copy=stage.output_layer and not embeds and not predicts,
    )
