"""Whether layouts are put in the right order: `python -m tests.accuracy.rankings FILE`.

Of runs of one model on as many GPUs under the same software: Kendall's correlation of the time of a
token, and by how much the one that is said to be fastest is slower than the one that was.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from tests.accuracy.constants import Run, runs_of
from tests.accuracy.throughput import Row
from trainfit.steptime import StepTime, step_time

TUNED = 25
"""The day of February 2022 on which BLOOM's cluster became faster by 1 to 5 %
(train/tr11-176B-ml/chronicles-prequel.md, "GBS Variations")."""


NOISE = 0.05
"""How far runs of one job were apart: eight jobs that BLOOM's cluster ran two to five times by 3 to
9 %, of which six by more than 4.5."""


class Place(NamedTuple):
    """A layout's time for a token, measured and expected."""

    measured: float
    expected: float


class Order(NamedTuple):
    """Pairs of layouts in the right order and in the wrong one, and the regret of each group."""

    right: int
    wrong: int
    regrets: Sequence[float]

    @property
    def correlation(self) -> float:
        return (self.right - self.wrong) / max(1, self.right + self.wrong)


def order_of(groups: Iterable[Sequence[Place]], noise: float = 0.0) -> Order:
    """What ties, or was measured no further apart than by `noise`, counts for neither side."""
    right = wrong = 0
    regrets = []
    for group in groups:
        for one, other in combinations(group, 2):
            slower, faster = sorted((one.measured, other.measured), reverse=True)
            if slower <= (1 + noise) * faster:
                continue
            agree = (one.measured - other.measured) * (one.expected - other.expected)
            right, wrong = right + (agree > 0), wrong + (agree < 0)
        chosen = min(group, key=lambda each: each.expected)
        regrets.append(chosen.measured / min(group).measured - 1)
    return Order(right, wrong, regrets)


def groups_of(runs: Iterable[Run]) -> dict[tuple[str, ...], list[Place]]:
    """Layouts by family, software, model and GPUs, in one state of a cluster. Runs of one job are
    one, at their median.
    """
    found: dict[tuple[str, ...], dict[str, list[Place]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        row, training = run.row, run.row["training"]
        time = step_time(run.plan, on=run.on)
        assert isinstance(time, StepTime)
        tokens = training["global_batch"] * training["seq_len"]
        place = Place(run.seconds / tokens, time.seconds.expected / tokens)
        gpus = f"{run.on.gpu.name} {row['parallelism']['world_size']}"
        key = (row["family"], row["framework"], row["model"]["name"], gpus, _state(row))
        found[key][f"{row['parallelism']} {training}"].append(place)
    middles = {
        key: [Place(*map(median, zip(*same, strict=True))) for same in jobs.values()]
        for key, jobs in found.items()
    }
    return {key: places for key, places in middles.items() if len(places) > 1}


def _state(row: Row) -> str:
    """Of BLOOM's cluster, which was tuned on 25 February 2022: its chronicles say not to compare
    times before with those since.
    """
    day = re.match(r"date 02-(\d\d)", row["notes"])
    return "tuned" if day is not None and int(day[1]) >= TUNED else ""


def main() -> None:
    """Print a line for each family, and one for all."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.rankings")
    parser.add_argument("file", type=Path, help="rows of published speed, as JSON lines")
    groups = groups_of(run for run in runs_of(parser.parse_args().file) if run.is_exact)
    by_family: dict[str, list[list[Place]]] = defaultdict(list)
    for key, places in groups.items():
        by_family[key[0]].append(places)
    print(
        f"{'family':<16}{'groups':>7}{'pairs':>7}{'Kendall':>9}{'beyond noise':>14}"
        f"{'regret':>8}{'9 of 10':>9}"
    )
    for name, some in [*by_family.items(), ("all", list(groups.values()))]:
        order, apart = order_of(some), order_of(some, NOISE)
        regrets = order.regrets
        most = quantiles(regrets, n=10, method="inclusive")[-1] if len(regrets) > 1 else regrets[0]
        print(
            f"{name:<16}{len(regrets):>7}{order.right + order.wrong:>7}{order.correlation:>9.2f}"
            f"{apart.correlation:>14.2f}{median(regrets):>8.1%}{most:>9.1%}"
        )


if __name__ == "__main__":
    main()
