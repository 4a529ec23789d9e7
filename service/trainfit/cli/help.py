"""What `--help` shows: the flags that are typed most, in two screens; `--help-all` shows all."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from cyclopts import App, Parameter

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

EVERYTHING = "--help-all"
NAME_COLUMNS = 32


@dataclass(frozen=True, slots=True)
class Formatter:
    """Prints a part of a help without a frame: names, and beside each what it is. Unless `whole`,
    only the first name that a flag has and the first sentence about it.
    """

    whole: bool = False

    def render_usage(self, console: Console, _: ConsoleOptions, usage: Any) -> None:
        """Print the line that says what goes where."""
        console.print(f"Usage: {usage}")

    def render_description(self, console: Console, _: ConsoleOptions, description: Any) -> None:
        """Print what the command does."""
        console.print(str(description.primary_renderable).strip(), end="\n")

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        from attrs import evolve
        from cyclopts.help.specs import DefaultStyled, DescriptionRenderer, NameRenderer
        from rich.table import Table

        if not panel.entries:
            return
        name = NameRenderer(max_width=min(NAME_COLUMNS, options.max_width // 2))
        about = DescriptionRenderer()
        rows = Table.grid(padding=(0, 2, 0, 0))
        rows.add_column(style="cyclopts.name", no_wrap=True)
        rows.add_column(overflow="fold")
        for entry in panel.entries:
            if not self.whole:
                first = entry.positive_names[:1]
                said = _first_sentence(entry.description)
                entry = evolve(entry, positive_names=first, negative_names=(), description=said)
            rows.add_row(name(entry), about(entry))
        console.print()
        console.print(f"{panel.title}:", style="bold")
        console.print(DefaultStyled(rows))


def _first_sentence(description: Any) -> str:
    words = str(getattr(description, "primary_renderable", description))
    return f"{re.split(r'[.:;] ', words)[0].rstrip('.')}."


@contextmanager
def showing_everything(app: App, words: Sequence[str]) -> Iterator[list[str]]:
    """Show every flag of the command that these words begin with; gives the words without the
    flag that asks for it.
    """
    others = [each for each in words if each != EVERYTHING]
    from trainfit.cli.flags import sign

    command = app.parse_commands(others)[1][-1].default_command
    if command is None:
        yield others
        return
    kept, brief = inspect.signature(command), app.help_formatter
    parameters = [_shown(each) for each in kept.parameters.values()]
    sign(command, kept.replace(parameters=parameters))
    app.help_formatter = Formatter(whole=True)
    try:
        yield others
    finally:
        sign(command, kept)
        app.help_formatter = brief


def _shown(parameter: inspect.Parameter) -> inspect.Parameter:
    annotation: Any = parameter.annotation
    if get_origin(annotation) is not Annotated:
        return parameter
    kind, *about = get_args(annotation)
    shown = [
        Parameter.combine(each, Parameter(show=True)) if isinstance(each, Parameter) else each
        for each in about
    ]
    return parameter.replace(annotation=Annotated[kind, *shown])
