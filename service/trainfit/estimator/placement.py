"""Layers -> stages and chunks: which layers each virtual stage holds, and who holds it.

Layers run through virtual stages in order. The final norm follows the last layer in models with
multi-token prediction, otherwise it stands before the head. Source:
megatron/core/transformer/transformer_layer.py (get_transformer_layer_offset) and
transformer_block.py (has_final_layernorm_in_this_stage).
"""

from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from trainfit.resolve.plan import Pipeline, Plan
from trainfit.specs.parallelism import V_SHAPED


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


def place(plan: Plan) -> list[list[Placement]]:
    """Chunks of a plan by pipeline rank."""
    return placements(plan.layout.pipeline, plan.model.pattern, plan.mtp_layers)


def placements(
    pipeline: Pipeline, pattern: tuple[int, ...], mtp_layers: int
) -> list[list[Placement]]:
    """Chunks by pipeline rank of a model whose layers are of the kinds in `pattern`.

    A tied head and the lookup of multi-token prediction use the rank's embedding matrix where it
    has one.
    """
    stages = pipeline.virtual_stages
    layers = [
        range(stop - stage.layers, stop)
        for stage, stop in zip(stages, accumulate([each.layers for each in stages]), strict=True)
    ]

    def chunks(rank: int) -> Iterator[Placement]:
        held = held_by(pipeline, rank)
        embeds = any(stages[index].embedding for index in held)
        predicts = any(stages[index].mtp_layers for index in held)
        for vpp_rank, index in enumerate(held):
            stage, here = stages[index], layers[index]
            ends = len(here) > 0 and here.stop == len(pattern)
            content = Content(
                kinds=pattern[here.start : here.stop],
                embedding=stage.embedding,
                final_norm=ends if mtp_layers else stage.output_layer,
                output_layer=stage.output_layer,
                mtp_layers=stage.mtp_layers,
                embedding_weights=stage.embedding or (stage.mtp_layers > 0 and not embeds),
                head_copy=stage.output_layer and not embeds and not predicts,
            )
            yield Placement(vpp_rank, here, content)

    return [list(chunks(rank)) for rank in range(pipeline.pp)]


def held_by(pipeline: Pipeline, rank: int) -> tuple[int, ...]:
    """Virtual stages of a rank, its chunks in order: every p-th one; down and up again where the
    schedule is V-shaped (2405.15362); its own and its mirror's in DualPipe (2412.19437).
    """
    p = pipeline.pp
    if pipeline.schedule in V_SHAPED:
        return rank, 2 * p - 1 - rank
    if pipeline.schedule == "dualpipe":
        return rank, p - 1 - rank
    return tuple(range(rank, len(pipeline.virtual_stages), p))


class Placed:
    """The chunks of every rank, and what they are made of."""

    def __init__(self, pipeline: Pipeline, pattern: tuple[int, ...], mtp_layers: int) -> None:
        self.ranks = placements(pipeline, pattern, mtp_layers)
        self.contents = [tuple([each.content for each in rank]) for rank in self.ranks]
        self.distinct = set(self.contents)
