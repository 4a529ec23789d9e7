"""The commands. A command's module is imported when the command is run."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper

from cyclopts import App, CycloptsError, UnknownCommandError, UnusedCliTokensError

from trainfit import __version__
from trainfit.cli.errors import REFUSED, RefusedCommandError
from trainfit.cli.help import EVERYTHING, Formatter, showing_everything

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
HELP_ALL = "--help-all shows every flag, and all that is to be said of each."
ON_THE_HUB = (
    f"Models are looked up on the Hugging Face Hub, too, unless HF_HUB_OFFLINE is 1. {HELP_ALL}"
)

EXAMPLES = """\
trainfit estimate Qwen/Qwen3-8B --num-gpus 8 --seq-length 8k --gpu H100-80GB
    how much memory every rank takes, and whether it fits
trainfit fit-check train.sh --gpu H100-80GB
    whether what a script starts fits, shown by the exit code
trainfit search Qwen/Qwen3-8B --gpu B200 --max-gpus 64 --global-batch-size 512
    which layout is fastest

trainfit --help lists all commands, trainfit estimate --help the flags of one."""

JOB_COMMANDS = (
    "calibrate",
    "compare",
    "estimate",
    "fit-check",
    "job",
    "reconcile",
    "search",
    "trace",
)
"""What takes the flags of a job."""


BETWEEN_COLLECTIONS = 1_000_000
"""Objects made between two searches for garbage: what a command loads and asks of an allocator is
little else than what it still needs.
"""


def version() -> str:
    """The version of the estimator, and of the catalogue of cards, models and stacks that it
    reads.
    """
    from trainfit.questions.digest import catalogue_version

    return f"{__version__} (catalogue {catalogue_version()})"


app = App(
    name="trainfit",
    help="How much memory every rank of an LLM training run will need, before it starts.",
    version=version,
    help_formatter=Formatter(),
    help_format="plaintext",
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
)
app.command("trainfit.cli.estimate:estimate", help=f"{ESTIMATE}\n\n{ON_THE_HUB}")
app.command("trainfit.cli.fit_check:fit_check", help=f"{FIT_CHECK}\n\n{EXIT_CODES} {HELP_ALL}")
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
app.command("trainfit.cli.completion:completion", help="Print what completes commands in a shell.")

keys = App(name="keys", help="Make keys for callers of a service.")
keys.command("trainfit.cli.keys:new", help="Print a fresh key and the entry that admits it.")
app.command(keys)


def main(tokens: Sequence[str] | None = None) -> None:
    """Run a command line, by default this process's.

    Raises:
        SystemExit: the code of a command that has one; 2, after a message on stderr, where the
            command cannot be answered.
    """
    words = list(sys.argv[1:] if tokens is None else tokens)
    code: int | None = None
    if isinstance(sys.stdout, TextIOWrapper):
        # A sign that the terminal lacks must not end a gate with the code of a job that is too big.
        sys.stdout.reconfigure(errors="replace")
    try:
        code = _run(words)
        sys.stdout.flush()
    except UnknownCommandError as error:
        _refuse(f"trainfit: {error}{_meant(words)}")
    except UnusedCliTokensError as error:
        many = " ".join(error.unused_tokens or ())
        _refuse(f"trainfit: {many}: is more than it takes; see trainfit {words[0]} --help")
    except CycloptsError as error:
        _refuse(f"trainfit: {error}")
    except RefusedCommandError as error:
        _refuse(str(error))
    except BrokenPipeError:
        # The reader left, as `head` does. What is still buffered would fail once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if code:
        raise SystemExit(code)


def _run(words: list[str]) -> int | None:
    if not words:
        print(EXAMPLES)
        return None
    if words[0] in JOB_COMMANDS:
        gc.set_threshold(BETWEEN_COLLECTIONS)
        atexit.register(gc.freeze)  # what is left goes with the process, and is not looked through
        from trainfit.cli.habits import understood

        words, readings = understood(words)
        for each in readings:
            print(f"trainfit: {each}", file=sys.stderr)
    if EVERYTHING in words:
        with showing_everything(app, words) as command:
            app.help_print(command)
        return None
    if words[0] in JOB_COMMANDS and not {*words} & {*app.help_flags}:
        from trainfit.cli.mentioned import taking_what_is_typed

        with suppress(CycloptsError), taking_what_is_typed(app, words):
            return _code(words)
        # What a word may have been meant for is looked for among all flags.
    return _code(words)


def _code(words: Sequence[str]) -> int | None:
    code: int | None = app(words)
    return code


def _meant(words: list[str]) -> str:
    """The command that a first word which is none was meant for."""
    from pathlib import Path

    from trainfit.catalog.configs import bundled_by_name, bundled_config

    first = words[0]
    if Path(first).is_file() and not first.endswith(".json"):
        return f"\n  use trainfit fit-check {' '.join(words)}"
    if Path(first).exists() or bundled_config(first) or bundled_by_name(first) or "/" in first:
        return f"\n  use trainfit estimate {' '.join(words)}"
    return ""


def _refuse(message: str) -> None:
    print(message, file=sys.stderr)
    raise SystemExit(REFUSED)
