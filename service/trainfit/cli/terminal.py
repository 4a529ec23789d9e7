"""How answers are printed."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

WITHOUT_END = 10_000
"""Columns where nothing limits them."""


def table(words: Iterable[str], numbers: Iterable[str] = (), *, title: str | None = None) -> Table:
    """An empty table with columns of words, to the left, then of numbers, to the right."""
    made = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
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

    Numbers are not cut off: a table that wraps nothing may be wider than the terminal. In a pipe
    no line is broken.
    """
    console = Console(highlight=False, markup=False, emoji=False)
    columns = console.width if sys.stdout.isatty() else WITHOUT_END
    with console.capture() as captured:
        for each in tables:
            console.width = WITHOUT_END
            needed = console.measure(each).maximum
            rigid = all(column.no_wrap for column in each.columns)
            console.width = needed if rigid else min(needed, columns)
            console.print(each)
    for line in captured.get().splitlines():
        print(line.rstrip())


def print_json(document: bytes) -> None:
    """The bytes as HTTP sends them, and at a terminal the end of the line."""
    sys.stdout.buffer.write(document)
    if sys.stdout.isatty():
        sys.stdout.buffer.write(b"\n")
