"""The commands. A command's module is imported when the command is run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from cyclopts import App, CycloptsError

from trainfit import __version__
from trainfit.cli.errors import REFUSED, RefusedCommandError

FIT_CHECK = "Check whether the jobs of files fit, and exit accordingly."
EXIT_CODES = (
    "Exit code 0: all fit, or pass. 1: a job does not fit. 2: a file or a job is wrong. 3: tight, "
    "with --fail-on tight. 4: something that changes memory is not modelled. 5: nobody could "
    "answer. Of several, the first in the order 1, 2, 5, 4, 3 decides."
)

ESTIMATE = "Estimate the memory of every pipeline rank."
GUARD = "Check the command that is about to train, and start it if it fits."
CAPTURE = "Run a script with recorders for launchers, and check what it would start."
COMPARE = "Put the jobs of files side by side."
MEASUREMENTS = "Print what logs of runs say of their memory and speed."
CALIBRATE = "Print what runs of a cluster took beyond their tensors, for --calibration."
TRACE = "Replay what a pipeline rank asks of PyTorch's allocator."
RECONCILE = "Put what a run took beside what was predicted."
SNAPSHOT = "Reduce recordings of PyTorch's allocator to what can be sent."
SEARCH = "Find the layout that is fastest, takes the fewest GPUs, or leaves most free."
ON_THE_HUB = "Models are looked up on the Hugging Face Hub, too, unless HF_HUB_OFFLINE is 1."

app = App(
    name="trainfit",
    help="How much memory every rank of an LLM training run will need, before it starts.",
    version=__version__,
    help_format="plaintext",
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
)
app.command("trainfit.cli.estimate:estimate", help=f"{ESTIMATE}\n\n{ON_THE_HUB}")
app.command("trainfit.cli.fit_check:fit_check", help=f"{FIT_CHECK}\n\n{EXIT_CODES}")
app.command("trainfit.cli.guard:guard", help=f"{GUARD}\n\n{EXIT_CODES}")
app.command("trainfit.cli.guard:capture", help=f"{CAPTURE}\n\n{EXIT_CODES}")
app.command("trainfit.cli.compare:compare", help=f"{COMPARE}\n\n{ON_THE_HUB}")
app.command(
    "trainfit.cli.job:app", name="job", help="Read jobs out of launch files, or write them."
)
app.command("trainfit.cli.measurements:measurements", help=MEASUREMENTS)
app.command("trainfit.cli.reconcile:reconcile", help=f"{RECONCILE}\n\n{ON_THE_HUB}")
app.command("trainfit.cli.search:search", help=f"{SEARCH}\n\n{ON_THE_HUB}")
app.command("trainfit.cli.calibrate:calibrate", help=f"{CALIBRATE}\n\n{ON_THE_HUB}")
app.command("trainfit.cli.snapshot:app", name="snapshot", help=SNAPSHOT)
app.command("trainfit.cli.trace:trace", help=f"{TRACE}\n\n{ON_THE_HUB}")
app.command("trainfit.cli.models:app", name="models", help="List models, and fetch them ahead.")
app.command("trainfit.cli.gpus:gpus", help="List the GPUs that are known by name.")
app.command("trainfit.cli.serve:serve", help="Answer over HTTP.")

keys = App(name="keys", help="Make keys for callers of a service.")
keys.command("trainfit.cli.keys:new", help="Print a fresh key and the entry that admits it.")
app.command(keys)


def main(tokens: Sequence[str] | None = None) -> None:
    """Run a command line, by default this process's.

    Raises:
        SystemExit: the code of a command that has one; 2, after a message on stderr, where the
            command cannot be answered.
    """
    code: int | None = None
    if isinstance(sys.stdout, TextIOWrapper):
        # A sign that the terminal lacks must not end a gate with the code of a job that is too big.
        sys.stdout.reconfigure(errors="replace")
    try:
        code = app(sys.argv[1:] if tokens is None else tokens)
        sys.stdout.flush()
    except CycloptsError as error:
        _refuse(f"trainfit: {error}")
    except RefusedCommandError as error:
        _refuse(str(error))
    except BrokenPipeError:
        # The reader left, as `head` does. What is still buffered would fail once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if code:
        raise SystemExit(code)


def _refuse(message: str) -> None:
    print(message, file=sys.stderr)
    raise SystemExit(REFUSED)
