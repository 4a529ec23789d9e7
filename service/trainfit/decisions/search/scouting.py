"""Which layouts can fit at all: each with the step that keeps least, priced without what the
allocator holds beyond the tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trainfit.decisions.search.ground import Ground
from trainfit.decisions.search.results import Tally
from trainfit.decisions.search.space import LayoutSizes, layouts, micro_batches, stepped
from trainfit.estimator.assumptions import not_followed, warnings_of
from trainfit.estimator.results import Interval
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.plan import Plan
from trainfit.specs.job import Job


class Prospect(NamedTuple):
    """A layout of so many GPUs that can fit, with what it takes at least, and the sizes of a
    micro-batch that make up a global batch in it.
    """

    least: Interval
    num_gpus: int
    sizes: LayoutSizes
    micro_batches: Sequence[int]

    def jobs(self, ground: Ground, micro_batch: int) -> list[Job]:
        """With a size of the micro-batch, on every rung of the ladder."""
        job = stepped(self.sizes.of(ground.on(self.num_gpus)), {"micro_batch_size": micro_batch})
        return [stepped(job, rung) for rung in ground.ladder]


def scout(
    ground: Ground, num_gpus: int, most: int, too_large: set[LayoutSizes], tally: Tally
) -> Iterator[Prospect]:
    """The layouts of so many GPUs that can fit, `most` of them looked at."""
    job = ground.on(num_gpus)
    for sizes in laid_out(ground, num_gpus, most, tally):
        found = prospect(ground, job, sizes, too_large, tally)
        if found is not None:
            yield found


def laid_out(ground: Ground, num_gpus: int, most: int, tally: Tally) -> Iterator[LayoutSizes]:
    """`most` layouts of so many GPUs, those alone that a global batch divides over."""
    job = ground.on(num_gpus)
    for number, sizes in enumerate(layouts(job, ground.model, ground.axes)):
        if number >= most:
            tally.fell("not_tried")
            continue
        tally.layouts += 1
        dp = sizes.dp(num_gpus)
        if micro_batches(job, dp):
            yield sizes
        else:
            tally.fell("refused", _not_divided(job, dp))


def _not_divided(job: Job, dp: int) -> str:
    training = job.training
    pinned = "micro_batch_size" in training.model_fields_set
    batches = f"into micro-batches of {training.micro_batch_size} " if pinned else ""
    ranks = "1 data-parallel rank" if dp == 1 else f"{dp} data-parallel ranks"
    return f"{training.global_batch_size} samples do not divide {batches}over {ranks}"


def prospect(
    ground: Ground, job: Job, sizes: LayoutSizes, too_large: set[LayoutSizes], tally: Tally
) -> Prospect | None:
    """A layout of the job's number of GPUs that can fit; None where it is inconsistent, or cannot.
    `too_large` are those that did not fit on more GPUs: fewer ranks share their states out.
    """
    if sizes in too_large:
        tally.fell("does_not_fit")
        return None
    num_gpus = job.parallelism.num_gpus
    assert num_gpus is not None
    counts = micro_batches(job, sizes.dp(num_gpus))
    try:
        plan = _leanest(ground, sizes.of(job), counts[0])
    except RefusedError as error:
        tally.fell("refused", error.findings[0].message)
        return None
    least = ground.least(plan)
    if not ground.fits(least):
        too_large.add(sizes)
        tally.fell("does_not_fit")
        return None
    if uncounted := warnings_of(plan, not_followed(plan, ground.memo)):
        tally.fell("unknown", uncounted[0])
        return None
    return Prospect(least, num_gpus, sizes, counts)


def _leanest(ground: Ground, job: Job, micro_batch: int) -> Plan:
    """The plan of the highest rung that is consistent. Raises RefusedError where none is."""
    refused: RefusedError | None = None
    for rung in reversed(ground.ladder):
        try:
            return ground.plan_of(stepped(job, {"micro_batch_size": micro_batch, **rung}))
        except RefusedError as error:
            refused = error
    assert refused is not None
    raise refused
