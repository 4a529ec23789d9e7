"""Files that start a training run, in the place of jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter
from pydantic import ValidationError

from trainfit.cli.errors import RefusedCommandError
from trainfit.documents.document import FileError, parse_documents
from trainfit.launch.scripts import is_script
from trainfit.specs.launch import Launch, LaunchFile, LaunchFormat

JOB_KEYS = frozenset({"hf_id", "hf_config", "spec"})
"""What the model of a job has, and that of no launch file."""

LAUNCH = Group("Launch files", sort_key=-1)


def _about(text: str, *names: str) -> Parameter:
    return Parameter(name=names, negative=(), group=LAUNCH, help=text, show_default=False)


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What is said about launch files beside their contents."""

    launch_format: Annotated[
        LaunchFormat | None, _about("Whose keys they are written in. Unset: what they look like.")
    ] = None
    framework_version: Annotated[
        str | None,
        _about("Release whose names and defaults hold. Unset: the latest that has the keys."),
    ] = None
    argv: Annotated[
        str | None, _about("The command line, or the arguments that the script is given.")
    ] = None
    env: Annotated[
        list[str] | None, _about("NAME=VALUE in the environment of the launch. May be repeated.")
    ] = None
    accept_unsupported: Annotated[
        list[str] | None,
        _about("A key that is not modelled and changes nothing; * for all. May be repeated."),
    ] = None

    def launch(self, files: Sequence[tuple[Path, str]]) -> dict[str, Any]:
        """A launch of these files and texts, as it would be sent."""
        said = {
            "format": self.launch_format,
            "framework_version": self.framework_version,
            "files": [{"path": path.as_posix(), "content": text} for path, text in files],
            "argv": self.argv,
            "env": dict(map(_variable, self.env or ())),
            "accept_unsupported": self.accept_unsupported,
        }
        return {name: value for name, value in said.items() if value or value == ""}


NOTHING_SAID = LaunchOptions()


def on_card(job: Mapping[str, Any], gpu: str) -> dict[str, Any]:
    """A job, or a launch in its place, on this card instead of its own."""
    launch = job.get("launch")
    if isinstance(launch, dict):
        return {**job, "launch": {**launch, "gpu": gpu}}
    return {**job, "gpu": gpu}


def _variable(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise RefusedCommandError("trainfit: --env: must be NAME=VALUE")
    return name, value


def sorted_out(files: Mapping[Path, str]) -> tuple[list[Path], list[list[Path]]]:
    """The files that hold jobs, and the launches that the others are. What is neither by itself
    goes with the launches if there are any, and else is taken for a job.
    """
    jobs = [path for path, text in files.items() if _holds_jobs(path, text)]
    others = {path: text for path, text in files.items() if path not in jobs}
    if any(_formats(path, text) for path, text in others.items()):
        return jobs, _launches(others)
    return [*files], []


def _launches(files: Mapping[Path, str]) -> list[list[Path]]:
    """The launches that these files are: each script with all that is no script, else those of
    one format one by one, with what is of no format beside them.
    """
    alone = {path: _formats(path, text) for path, text in files.items()}
    scripts = [path for path, text in files.items() if _is_script(path, text)]
    others = [path for path in files if path not in scripts]
    if scripts:
        return [[script, *others] for script in scripts]
    counted = Counter(formats[0] for formats in alone.values() if formats)
    if counted.most_common(1)[0][1] == 1:
        return [others]
    beside = [path for path in others if not alone[path]]
    return [[path, *beside] for path in others if alone[path]]


def _formats(path: Path, text: str) -> list[str]:
    """The formats that the file alone is recognised as; a script is one whatever it starts."""
    from trainfit.launch.commands.unwrap import programs_of
    from trainfit.launch.errors import LaunchError
    from trainfit.launch.find import recognised

    try:
        launch = Launch(files=(LaunchFile(path=path.as_posix(), content=text),))
        return [found.name for found, _ in recognised(programs_of(launch).programs)] or (
            ["script"] if _is_script(path, text) else []
        )
    except LaunchError:  # it is a launch, whatever is wrong with it
        return ["wrong"]
    except ValidationError:
        return ["script"] if _is_script(path, text) else []


def _is_script(path: Path, text: str) -> bool:
    return is_script(path.as_posix(), text)


def _holds_jobs(path: Path, text: str) -> bool:
    """Whether the file describes jobs in this service's own words, or is wrong as a file."""
    if _is_script(path, text):
        return False
    try:
        documents = parse_documents(path.suffix, text)
    except FileError:
        return True
    return any(_is_job(document.value) for document in documents)


def _is_job(value: Any) -> bool:
    if not isinstance(value, dict):
        return isinstance(value, list)
    model = value.get("model")
    return "jobs" in value or (isinstance(model, dict) and not JOB_KEYS.isdisjoint(model))
