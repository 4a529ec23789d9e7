"""`trainfit keys`: keys for callers of a service."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from trainfit.api.api_keys import named, new_key
from trainfit.cli.errors import RefusedCommandError

LABEL = Parameter(help="Whose key it is: up to 64 letters, digits, dots, dashes, underscores.")


def new(label: Annotated[str, LABEL], /) -> None:
    """Print a fresh key for a caller, and the entry that makes a service take it.

    The key is kept nowhere; give it to the caller. The entry goes into TRAINFIT_API_KEYS, beside
    those that are there.
    """
    key = new_key()
    try:
        entry = named(label, key)
    except ValueError:
        words = "must be up to 64 letters, digits, dots, dashes and underscores"
        raise RefusedCommandError(f"trainfit: LABEL: {words}") from None
    print(f"key    {key}")
    print(f"entry  {entry}")
