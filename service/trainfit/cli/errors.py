"""A command that cannot be answered as it stands."""

from __future__ import annotations

REFUSED = 2
"""Exit code of such a command."""


class RefusedCommandError(Exception):
    """The text is all that a user sees."""
