"""A command takes those of the two hundred flags of a job that were typed: reading what each may
be costs as much as many an answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from typing import get_args

from cyclopts import App, Parameter

from trainfit.cli.flags import sign

NOT = "--no-"


@contextmanager
def taking_what_is_typed(app: App, words: Sequence[str]) -> Iterator[None]:
    """Have the command that these words begin with take no flag that is not among them."""
    command = app.parse_commands(words)[1][-1].default_command
    if command is None:
        yield
        return
    typed = {word.partition("=")[0] for word in words}
    whole = inspect.signature(command)
    kept = [each for each in whole.parameters.values() if _may_be_given(each, typed)]
    sign(command, whole.replace(parameters=kept))
    try:
        yield
    finally:
        sign(command, whole)


def _may_be_given(parameter: inspect.Parameter, typed: Container[str]) -> bool:
    """Whether the words may give it: where nothing says its names, they may."""
    about = get_args(parameter.annotation)[-1:]
    if parameter.kind is not parameter.KEYWORD_ONLY or parameter.default is parameter.empty:
        return True
    names = about[0].name if about and isinstance(about[0], Parameter) else ()
    return not names or any(name in typed or name.replace("--", NOT, 1) in typed for name in names)
