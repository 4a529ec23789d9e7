"""How answers are printed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

WITHOUT_END = 10_000
"""Columns where nothing limits them."""


class Narrowing(Table):
    """A table that does without some columns where the terminal is too narrow for all.

    `expendable` are their headings, what is missed least first.
    """

    expendable: Sequence[str] = ()

    def narrow(self, console: Console, columns: int) -> None:
        """Leave out columns until it fits, and say which; words that are still too wide are
        broken.
        """
        self.padding = (0, 1, 0, 0)
        left: list[str] = []
        for heading in self.expendable:
            if _width(self, console) <= columns:
                break
            left.append(" ".join(heading.split()))
            kept = (each for each in self.columns if each.header != heading)
            self.columns = [replace(each, _index=index) for index, each in enumerate(kept)]
        if left:
            about = f"{self.caption}; " if self.caption else ""
            self.caption = f"{about}a wider terminal has: {', '.join(reversed(left))}"
        if _width(self, console) > columns:
            for column in self.columns:
                if column.justify != "right":
                    column.no_wrap, column.overflow = False, "fold"


def table(
    words: Iterable[str],
    numbers: Iterable[str] = (),
    *,
    title: str | None = None,
    expendable: Sequence[str] = (),
) -> Table:
    """An empty table with columns of words, to the left, then of numbers, to the right."""
    made = Narrowing(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    made.expendable = expendable
    made.header_style, made.pad_edge, made.caption_justify = "cyan", False, "left"
    for name in words:
        made.add_column(name, no_wrap=True)
    for name in numbers:
        made.add_column(name, justify="right", no_wrap=True)
    return made


def labelled(lines: Iterable[tuple[str, str | Text]]) -> Table:
    """Lines with a label each. What a terminal is too narrow for goes on below its beginning."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="cyan", min_width=10)
    made.add_column()
    for line in lines:
        made.add_row(*line)
    return made


def print_all(*tables: Table) -> None:
    """Print one after the other: coloured at a terminal unless NO_COLOR is set, plain in a pipe.

    At a terminal nothing is wider than it is. In a pipe no line is broken, and nothing left out.
    """
    console = Console(highlight=False, markup=False, emoji=False)
    columns = console.width if sys.stdout.isatty() else WITHOUT_END
    with console.capture() as captured:
        for each in tables:
            console.width = WITHOUT_END
            if isinstance(each, Narrowing) and _width(each, console) > columns:
                each.narrow(console, columns)
            console.width = min(_width(each, console), columns)
            console.print(each)
    for line in captured.get().splitlines():
        print(line.rstrip())


def _width(each: Table, console: Console) -> int:
    return console.measure(each).maximum


def print_json(document: bytes) -> None:
    """The bytes as HTTP sends them, and at a terminal the end of the line."""
    sys.stdout.buffer.write(document)
    if sys.stdout.isatty():
        sys.stdout.buffer.write(b"\n")
