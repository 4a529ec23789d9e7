"""Step time of software that no run of was compared: `python -m tests.accuracy.unseen_stacks FILE`.

The runs of each software stack by constants that were fitted to those of all others; its own are
the mean of theirs. It takes some minutes.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from math import exp
from pathlib import Path
from statistics import median, quantiles

from tests.accuracy.constants import fitted, held_out, runs_of


def main() -> None:
    """Print a line for each stack, and one for all."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.unseen_stacks")
    parser.add_argument("file", type=Path, help="rows of published speed, as JSON lines")
    runs = [run for run in runs_of(parser.parse_args().file) if run.is_exact]
    errors = held_out(runs, lambda run: run.on.stack.name, fitted(runs))
    by_stack: dict[str, list[float]] = defaultdict(list)
    for run, error in zip(runs, errors, strict=True):
        by_stack[run.on.stack.name].append(error)
    print(f"{'stack':<24}{'runs':>6}{'median':>8}{'9 of 10':>9}{'mean':>8}")
    for name, some in [*by_stack.items(), ("all", errors)]:
        sizes = [abs(exp(error) - 1) for error in some]
        most = quantiles(sizes, n=10)[-1] if len(sizes) > 1 else sizes[0]
        lean = exp(sum(some) / len(some)) - 1
        print(f"{name:<24}{len(some):>6}{median(sizes):>8.1%}{most:>9.1%}{lean:>+8.1%}")


if __name__ == "__main__":
    main()
