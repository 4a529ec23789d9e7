"""Smaller micro-batches, and layouts that share more out. The number of GPUs stays as it was given
where it can, and so does the global batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

from trainfit.decisions.candidates.candidate import Candidate, Price
from trainfit.resolve.findings import Findings
from trainfit.resolve.layout import sharding_strategy, smallest_world
from trainfit.resolve.registry import conventions_of
from trainfit.specs.job import Job


def micro_batches(job: Job) -> Iterator[Candidate]:
    """Smaller micro-batches, and as many more of them where their number is given."""
    size, count = job.training.micro_batch_size, job.training.num_microbatches
    for divisor in dict.fromkeys((2, size)):
        if size % divisor or divisor == 1:
            continue
        values: dict[str, Any] = {"/training/micro_batch_size": size // divisor}
        if count is not None:
            values["/training/num_microbatches"] = count * divisor
        cost = f"smaller matrix products, {divisor} times as many"
        yield Candidate(values, Price.SPEED, cost)


def sharding(job: Job) -> Iterator[Candidate]:
    """More of the model's states shared out over the data-parallel ranks."""
    layout = job.parallelism
    unsharded = layout.use_distributed_optimizer is False
    strategy = sharding_strategy(layout, conventions_of(job), Findings())
    path = "/parallelism/data_parallel_sharding_strategy"
    # The short form says the same or the opposite, so it goes where the strategy is set.
    short = {"/parallelism/use_distributed_optimizer": None} if unsharded else {}
    costs = {
        "no_shard": "",
        "optim": "none to speak of: all-reduces become reduce-scatters and all-gathers",
        "optim_grads": "gradients are reduced with every micro-batch",
        "optim_grads_params": "weights are gathered in every forward and backward",
    }
    order = list(costs)
    for wanted in order[order.index(strategy) + 1 :]:
        price = Price.NOTHING if wanted == "optim" else Price.COMMUNICATION
        yield Candidate({**short, path: wanted}, price, costs[wanted])
    if layout.data_parallel_replicate_size > 1:
        yield Candidate(
            {"/parallelism/data_parallel_replicate_size": 1},
            Price.COMMUNICATION,
            "one group of data-parallel ranks, which spans more nodes",
        )


NODE = 8
"""GPUs that are linked closely enough for an exchange in every layer: those of the usual node."""


def sizes(job: Job, num_gpus: int) -> Iterator[Candidate]:
    """Larger parallel groups, on more GPUs only where they do not divide those of the job. Tensor
    parallelism stays within a node.
    """
    layout = job.parallelism
    usual = conventions_of(job).etp
    etp = layout.etp if layout.etp is not None else usual
    costs = {
        "tp": "an exchange of activations in every layer",
        "cp": "keys and values are exchanged in every layer",
        "ep": "tokens are exchanged among more ranks",
        "etp": "an exchange of activations in every expert layer",
        "pp": "more of the step is spent filling and draining the pipeline",
    }
    for factor in (2, 4):
        for name, cost in costs.items():
            size = etp if name == "etp" else getattr(layout, name)
            if name in ("tp", "etp") and size * factor > NODE:
                continue
            values = {f"/parallelism/{name}": size * factor}
            if name == "tp" and layout.etp is None and layout.ep > 1:
                values["/parallelism/etp"] = etp
            changed = layout.model_copy(
                update={path.split("/")[2]: n for path, n in values.items()}
            )
            world = smallest_world(changed, changed.etp or usual)
            if num_gpus % world == 0:
                yield Candidate(values, Price.COMMUNICATION, cost)
                continue
            more = ceil(num_gpus / world) * world
            cost = f"{more} GPUs instead of {num_gpus}; {cost}"
            yield Candidate({**values, "/parallelism/num_gpus": more}, Price.GPUS, cost)


def pipeline(job: Job) -> Iterator[Candidate]:
    """Without interleaving a rank starts fewer micro-batches before the first returns."""
    layout = job.parallelism
    chunks = (layout.vpp or 1) > 1 or layout.num_layers_per_virtual_pipeline_stage is not None
    if chunks and layout.pipeline_model_parallel_layout is None:
        values = {
            f"/parallelism/{name}": None
            for name in ("vpp", "num_layers_per_virtual_pipeline_stage", "pipeline_schedule")
            if getattr(layout, name) is not None
        }
        cost = "more of the step is spent filling and draining the pipeline"
        yield Candidate(values, Price.SPEED, cost)
