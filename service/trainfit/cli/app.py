"""The commands. A command's module is imported when the command is run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from trainfit import __version__
from trainfit.cli.errors import REFUSED, RefusedCommandError

app = App(
    name="trainfit",
    help="How much memory every rank of an LLM training run will need, before it starts.",
    version=__version__,
    help_format="plaintext",
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
)
app.command("trainfit.cli.estimate:estimate", help="Estimate the memory of every pipeline rank.")
app.command("trainfit.cli.catalogues:models", help="List the models that need no config.json.")
app.command("trainfit.cli.catalogues:gpus", help="List the GPUs that are known by name.")
app.command("trainfit.cli.serve:serve", help="Answer over HTTP.")


def main(tokens: Sequence[str] | None = None) -> None:
    """Run a command line, by default this process's.

    Raises:
        SystemExit: 2, after a message on stderr, where the command cannot be answered.
    """
    try:
        app(sys.argv[1:] if tokens is None else tokens)
        sys.stdout.flush()
    except CycloptsError as error:
        _refuse(f"trainfit: {error}")
    except RefusedCommandError as error:
        _refuse(str(error))
    except BrokenPipeError:
        # The reader left, as `head` does. What is still buffered would fail once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(message: str) -> None:
    print(message, file=sys.stderr)
    raise SystemExit(REFUSED)
