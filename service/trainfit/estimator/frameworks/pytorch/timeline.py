"""The timeline of one step on a pipeline rank under torch.distributed.pipelining."""

from collections.abc import Iterator, Sequence

from trainfit.estimator.frameworks.pytorch.ledger import PytorchLedger
from trainfit.estimator.frameworks.pytorch.passes import (
    NOTHING,
    ChunkPasses,
    MicroBatchPasses,
    ends_of,
)
from trainfit.estimator.frameworks.pytorch.schedules import (
    BREADTH_FIRST,
    FORWARD,
    Action,
    actions_in_steady_state,
    order,
    shown_microbatches,
)
from trainfit.estimator.placement import place
from trainfit.estimator.timeline import LONG_TURNS, MAX_PASSES, Pass, Phase, Timeline


def timeline(ledger: PytorchLedger, rank: int) -> Timeline | None:
    """The timeline of a rank, None where it is too long. Of a long one the middle is left out."""
    pipeline, m = ledger.plan.layout.pipeline, ledger.plan.batch.num_microbatches
    long = m * pipeline.vpp > LONG_TURNS and pipeline.schedule not in BREADTH_FIRST
    shown = shown_microbatches(pipeline, m) if long else m
    if actions_in_steady_state(pipeline) * shown > MAX_PASSES:
        return None
    of_chunks = ChunkPasses(ledger)
    chunks = [
        of_chunks.passes(placement.content, ends)
        for placement, ends in zip(place(ledger.plan)[rank], ends_of(pipeline, rank), strict=True)
    ]
    actions = list(order(pipeline, shown, rank))
    omitted = (m - shown) * actions_in_steady_state(pipeline)
    passes = list(_passes(actions, chunks))
    middle = len(passes) // 2
    late = [
        Pass(
            each.ordinal + omitted,
            each.phase,
            each.direction,
            each.vpp_rank,
            each.microbatch + m - shown,
            each.kept_bytes,
            each.highest_bytes,
        )
        for each in passes[middle:]
    ]
    return Timeline(len(actions) + omitted, [*passes[:middle], *late])


def _passes(actions: list[Action], chunks: Sequence[MicroBatchPasses]) -> Iterator[Pass]:
    """Warm-up ends with the first backward, the steady state with the last forward."""
    first = next(i for i, action in enumerate(actions) if action.direction != FORWARD)
    last = max(i for i, action in enumerate(actions) if action.direction == FORWARD)
    kept = 0
    for ordinal, (direction, number, microbatch) in enumerate(actions):
        assert direction != "adding"
        assert direction != "reduce"
        chunk = chunks[number]
        moment = chunk.moments.get(direction, NOTHING)
        highest = kept + moment.kept + moment.borrowed
        kept += chunk.change(direction)
        phase: Phase = "warm_up" if ordinal < first else "steady"
        if ordinal > last:
            phase = "cool_down"
        yield Pass(ordinal, phase, direction, number, microbatch, kept, highest)
