"""Published recipes beside the best that a search finds: `python -m tests.accuracy.beside_search
FILE`.

Both are timed as the service times them under the recipe's release. A search has the model, the
GPUs, the batch and the precision of a recipe of Megatron-Bridge, and all of its layout open; where
the recipe surely fits it asks for layouts that do. It takes some minutes.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.accuracy.constants import Run, runs_of
from tests.accuracy.throughput import job_of
from trainfit import fit_check
from trainfit.questions.search import in_words, searched
from trainfit.specs.job import Job
from trainfit.specs.search import SearchRequest
from trainfit.steptime import StepTime, step_time

NEAR = 1.1
STEPPED = ("micro_batch_size", "num_microbatches", "recompute")
"""Fields of training that a search seeks, or that follow from such."""


class Beside(NamedTuple):
    """A recipe, how much longer it takes than the best that was found, and that."""

    card: str
    recipe: str
    ratio: float
    best: str


def besides(runs: Iterable[Run]) -> Iterator[Beside]:
    """Every recipe once; those of Megatron-FSDP, which a search leaves out, are as well."""
    seen = set[str]()
    for run in runs:
        if run.row["family"] != "bridge" or "fsdp" in (run.row["parallelism"]["sharding"] or ""):
            continue
        job = job_of(run.row)
        if (said := job.model_dump_json(exclude_unset=True)) in seen:
            continue
        seen.add(said)
        own, found = step_time(run.plan, on=run.on), searched(_opened(job, run))
        assert isinstance(own, StepTime)
        if not found.best:
            continue
        best = found.best[0]
        assert best.step_seconds is not None
        yield Beside(
            run.on.gpu.reach.name,
            f"{run.row['model']['name']}, {in_words(json.loads(said))}",
            own.seconds.expected / best.step_seconds.expected,
            in_words(best.job),
        )


def _opened(job: Job, run: Run) -> SearchRequest:
    """The search for the layout of a job, under the software that ran it."""
    asked: dict[str, Any] = job.model_dump(mode="json", exclude_unset=True)
    asked["parallelism"] = {"num_gpus": asked["parallelism"]["num_gpus"]}
    asked["training"] = {
        name: value for name, value in asked["training"].items() if name not in STEPPED
    }
    asked["speed"] = {"stack": run.on.stack.name}
    accept = "fits" if fit_check(job.model_dump(exclude_unset=True)).verdict == "fits" else "tight"
    return SearchRequest.model_validate(asked | {"accept": accept})


def main() -> None:
    """Print a line for each recipe, and one for each kind of GPU."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.beside_search")
    parser.add_argument("file", type=Path, help="rows of published speed, as JSON lines")
    by_card: dict[str, list[float]] = defaultdict(list)
    for each in besides(runs_of(parser.parse_args().file)):
        by_card[each.card].append(each.ratio)
        print(f"{each.ratio:6.2f}  {each.card:<6} {each.recipe}  ->  {each.best}", flush=True)
    for card, ratios in by_card.items():
        near = sum(ratio <= NEAR for ratio in ratios) / len(ratios)
        print(f"{card:<6}{len(ratios):>4} recipes, median {median(ratios):.2f}, near {near:.0%}")


if __name__ == "__main__":
    main()
