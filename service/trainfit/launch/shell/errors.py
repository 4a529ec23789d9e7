"""Why a script is not followed."""

from __future__ import annotations

from trainfit.launch.shell.piece import Piece


class ShellError(Exception):
    """A script asks for more than is followed: at a place of it, or as a whole."""

    def __init__(self, message: str, at: Piece | None = None) -> None:
        self.message = message if at is None else f"{at.where}: {message}"
        self.file = None if at is None else at.file
        self.line = None if at is None else at.line
        super().__init__(self.message)
