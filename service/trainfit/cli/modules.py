"""`--tree`: the ledger of one stage, module by module."""

from __future__ import annotations

from collections.abc import Iterator

from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.terminal import print_all, table
from trainfit.decisions.quantities import MIB
from trainfit.estimator.results import Estimate
from trainfit.estimator.tree import Module, module_tree
from trainfit.resolve.plan import Plan


def print_modules(plan: Plan, result: Estimate, stage: int | None) -> None:
    """The tree of a pipeline rank, of the one that binds unless `stage` names another."""
    rank = result.binding.pp_rank if stage is None else stage
    if not 0 <= rank < plan.layout.pipeline.pp:
        last = plan.layout.pipeline.pp - 1
        raise RefusedCommandError(f"trainfit: --stage: there are stages 0 to {last}")
    rows = table(["module"], ["parameters", "on each GPU", "saved MiB"])
    for depth, module in _walk(module_tree(plan, rank), 0):
        rows.add_row(*_cells(depth, module), style="bold" if depth < 2 else None)
    in_flight = result.stages[rank].microbatches_in_flight
    rows.caption = f"saved for backward by one micro-batch; {in_flight} are in flight"
    print_all(rows)


def _walk(module: Module, depth: int) -> Iterator[tuple[int, Module]]:
    """The modules that own parameters or save something."""
    if depth and not module.parameters and not module.saved_bytes:
        return
    yield depth, module
    for child in module.children:
        yield from _walk(child, depth + 1)


def _cells(depth: int, module: Module) -> tuple[str, str, str, str]:
    saved = f"{module.saved_bytes / MIB:,.1f}" if module.saved_bytes else ""
    whole, here = (
        f"{number:,}" if number else "" for number in (module.parameters, module.parameters_per_gpu)
    )
    return f"{'  ' * depth}{module.name}", whole, here, saved
