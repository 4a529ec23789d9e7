"""`trainfit gpus`: the cards that are known by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from trainfit.catalog.gpus import Gpu, MigProfile
from trainfit.catalog.gpus import gpus as cards
from trainfit.cli.terminal import print_all, print_json, table
from trainfit.cli.values import having
from trainfit.decisions.quantities import gib

JSON = Parameter(name="--json", negative=(), show_default=False, help="Print what HTTP answers.")
WORDS = Parameter(name="WORDS", help="List those alone whose names have all of these.")


def gpus(*words: Annotated[str, WORDS], as_json: Annotated[bool, JSON] = False) -> None:
    """List the GPUs that are known by name, with the memory that their driver reports."""
    found = having(words, cards(), lambda each: " ".join((each.name, *each.aliases)))
    if as_json:
        from trainfit.questions.catalogues import GpuList
        from trainfit.questions.wire import to_json

        print_json(to_json(GpuList(tuple(found))))
    else:
        _print_gpus(found)


def _print_gpus(cards: Sequence[Gpu]) -> None:
    rows = table(["name", "vendor"], ["GiB"])
    rows.add_column("also known as")
    for card in cards:
        rows.add_row(card.name, card.vendor, gib(card.reported_bytes), ", ".join(card.aliases))
    print_all(rows, *_slices(cards))


def _slices(cards: Sequence[Gpu]) -> Iterator[Table]:
    """A row for each set of profiles, with the cards that have it, where one has any."""
    rows = table(["MIG slices, as in H100 3g.40gb"], [])
    rows.add_column("GiB")
    alike: dict[tuple[MigProfile, ...], list[str]] = {}
    for card in cards:
        if card.mig is not None:
            alike.setdefault(card.mig.profiles, []).append(card.name)
    for profiles, names in alike.items():
        sizes = ", ".join(f"{each.name} {gib(each.reported_bytes)}" for each in profiles)
        rows.add_row(", ".join(names), sizes)
    if alike:
        yield rows
