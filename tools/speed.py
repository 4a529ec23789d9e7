"""Fits the constants of step time anew: `python -m tools.speed FILE`.

Writes what published runs decide of catalog/speed/*.json, and how wide intervals are: as far from
what is expected as 85 of 100 runs were when constants were fitted to models other than theirs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from math import exp
from pathlib import Path
from typing import Any

from tests.accuracy.constants import (
    SHARED,
    Constant,
    Run,
    Values,
    fitted,
    held_out,
    runs_of,
    unscaled,
)
from trainfit.estimator.frameworks.registry import framework_of

FOLDER = Path(__file__).parents[1] / "service" / "trainfit" / "catalog" / "speed"
PARTS = 3
"""Parts of the runs, each timed by constants that were fitted to the others."""
INSIDE = 0.85
POOLED = 20
"""A stack with as few runs is as wide as it and all others are, in equal parts."""


def main() -> None:
    """Fit, and write."""
    parser = argparse.ArgumentParser(prog="python -m tools.speed", description=__doc__)
    parser.add_argument("file", type=Path, help="rows of published speed, as JSON lines")
    runs = runs_of(parser.parse_args().file)
    values = fitted(runs)
    errors = held_out(runs, _part, values)
    _write("gpus", "reaches", lambda each: _reached(each, values))
    _write("stacks", "stacks", lambda each: _ran(each, values, runs, errors))
    _write("clusters", "clusters", lambda each: _connected(each, values))


def _part(run: Run) -> int:
    """Runs of one model on one kind of GPU are in one part."""
    name = run.row["model"]["name"] + run.on.gpu.reach.name
    return int(sha256(name.encode()).hexdigest(), 16) % PARTS


Facts = dict[str, Any]


def _write(name: str, listed: str, changed: Any) -> None:
    path = FOLDER / f"{name}.json"
    document = json.loads(path.read_text("utf-8"))
    document[listed] = [each | changed(each) for each in document[listed]]
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _connected(facts: Facts, values: Values) -> Facts:
    own = _said("cluster", facts["name"], facts, values)
    return _said("cluster", "usual", facts, values) | own


def _reached(facts: Facts, values: Values) -> Facts:
    own = _said("reach", facts["name"], facts, values)
    chip = SHARED.get(facts["name"])
    return (_said("reach", chip, facts, values) if chip is not None else {}) | own


def _ran(facts: Facts, values: Values, runs: Sequence[Run], errors: Sequence[float]) -> Facts:
    spread: dict[str, Any] = {}
    for field, experts in (("spread", False), ("spread_experts", True)):
        alike = [
            (run, abs(exp(-error) - 1))
            for run, error in zip(runs, errors, strict=True)
            if run.plan.model.has_experts == experts
        ]
        own = [size for run, size in alike if run.on.stack.name == facts["name"]]
        every = _within(size for _, size in alike)
        share = len(own) / (len(own) + POOLED)
        spread[field] = round(share * _within(own) + (1 - share) * every, 2)
    gathers = any(
        framework_of(run.plan).state_traffic(run.plan).gathers
        for run in runs
        if run.on.stack.name == facts["name"]
    )
    told = _said("stack", "all", facts, values) | _said("stack", facts["name"], facts, values)
    return told | spread | {"gathers_compared": gathers}


def _within(sizes: Iterable[float]) -> float:
    """What so many are no larger than."""
    ordered = sorted(sizes)
    return ordered[min(int(INSIDE * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def _said(of: Any, name: str, facts: Mapping[str, Any], values: Values) -> Facts:
    """What was fitted of these facts."""
    return {
        field: float(f"{unscaled(field, values[constant]):.3g}")
        for field in facts
        if (constant := Constant(of, name, field)) in values
    }


if __name__ == "__main__":
    main()
