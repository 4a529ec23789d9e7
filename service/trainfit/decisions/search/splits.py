"""How layers are shared out over virtual stages where that is left open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, groupby, repeat
from typing import Any

from trainfit.resolve.registry import conventions_of
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.job import Job

LAYOUT = "pipeline_model_parallel_layout"
SAYS_SPLIT = (
    LAYOUT,
    "num_layers_per_virtual_pipeline_stage",
    "num_layers_in_first_pipeline_stage",
    "num_layers_in_last_pipeline_stage",
    "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split",
)
"""Fields each of which says how layers are shared out."""
MOST_CHUNKS = 12
"""Chunks of a rank: each more sends activations round the ranks once again."""


def chunks(job: Job, model: ModelSpec, pp: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Numbers of chunks for each of `pp` ranks, each with the fields that share layers out: none
    where that is even, or where the framework knows how; else a layout in which embedding, head and
    multi-token prediction count as a layer each.
    """
    layers, depths = model.num_layers, _depths(job, model)
    knows = conventions_of(job).split is not None or not leaves_split_open(job)
    for vpp in _chunk_counts(job, layers, pp):
        if knows or layers % (pp * vpp) == 0:
            yield vpp, {}
        elif pp * vpp <= layers + depths + 2:
            yield vpp, {LAYOUT: layout(layers, depths, pp * vpp)}


def _depths(job: Job, model: ModelSpec) -> int:
    """Depths of multi-token prediction that are trained."""
    if job.training.mtp is not None:
        return job.training.mtp.num_layers
    return model.mtp.num_layers if model.mtp is not None else 0


def leaves_split_open(job: Job) -> bool:
    """Whether no field says how layers are shared out."""
    return not job.parallelism.model_fields_set.intersection(SAYS_SPLIT)


def _chunk_counts(job: Job, layers: int, pp: int) -> Iterator[int]:
    """One where nothing is interleaved, or the fields of the job say how many."""
    given = job.parallelism
    yield given.vpp or 1
    interleaves = given.pipeline_schedule in (None, "interleaved", "interleaved-zb", "looped-bfs")
    if given.vpp is not None or pp == 1 or not interleaves or not leaves_split_open(job):
        return
    if layers % pp == 0:
        each = layers // pp
        yield from (vpp for vpp in range(2, min(each, MOST_CHUNKS) + 1) if each % vpp == 0)
    else:
        yield from (2**power for power in range(1, MOST_CHUNKS.bit_length()))


def layout(layers: int, mtp: int, stages: int) -> str:
    """The layout string that shares layers, embedding, head and depths of multi-token prediction
    out as evenly as may be over virtual stages. Late ones but the last take what is left over: the
    first ranks keep most micro-batches, and the last has the logits.
    """
    items = chain("E", repeat("t", layers), repeat("m", mtp), "L")
    each, more = divmod(layers + mtp + 2, stages)
    last = stages - 1
    counts = [each + (last - more <= stage < last) for stage in range(stages)]
    parts = ["".join(next(items) for _ in range(count)) for count in counts]
    return "|".join(
        "".join(
            f"{letter}*{count}" if (count := len(list(run))) > 1 else letter
            for letter, run in groupby(part)
        )
        for part in parts
    )
