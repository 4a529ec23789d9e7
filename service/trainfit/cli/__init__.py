"""The command line: what HTTP answers, at a terminal and in CI."""

from __future__ import annotations

from collections.abc import Sequence


def main(tokens: Sequence[str] | None = None) -> None:
    """Run the command that was typed. What that takes is loaded only then: each worker of a service
    loads the script that began it, and parses no commands.
    """
    from trainfit.cli.app import main as run

    run(tokens)
