"""From a command line to a question: a model, a job file or launch files, and flags over them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.files import read_config, read_documents, read_text
from trainfit.cli.launches import NOTHING_SAID, LaunchOptions, sorted_out
from trainfit.cli.overriding import over, over_job
from trainfit.documents.document import FileError
from trainfit.specs.model import HF_ID


def question(
    named: Sequence[str],
    job_file: Path | None,
    given: Mapping[str, Any],
    options: LaunchOptions = NOTHING_SAID,
) -> dict[str, Any]:
    """What is asked as it would be sent over HTTP: a job, or a launch in its place. `given` has the
    values of flags by their keywords.

    Raises RefusedCommandError where a file cannot be read or no model is named.
    """
    files = {Path(each): _text(Path(each)) for each in named if Path(each).is_file()}
    launches = sorted_out(files)[1] if job_file is None else []
    if not launches and options.argv is None:
        if len(named) > 1:
            raise RefusedCommandError(f"trainfit: {named[1]}: one model is named, or launch files")
        return job_document(named[0] if named else None, job_file, given)
    if len(launches) > 1:
        firsts = ", ".join(str(group[0]) for group in launches)
        raise RefusedCommandError(f"trainfit: more than one launch: {firsts}")
    models = [each for each in named if Path(each) not in files]
    wrong = [each for each in models if not re.fullmatch(HF_ID, each)] or models[1:]
    if wrong:
        raise RefusedCommandError(f"trainfit: {wrong[0]}: there is no such file")
    model = {"overrides": {"model": _model(models[0])}} if models else {}
    return over({"launch": {**options.launch([*files.items()]), **model}}, given)


def job_document(
    model: str | None, job_file: Path | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """The job as it would be sent over HTTP."""
    document = _object(job_file, _job) if job_file is not None else {}
    if model is not None:
        document["model"] = _model(model)
    elif "model" not in document:
        raise RefusedCommandError(
            "trainfit: name a model: a Hub id, the path of a config.json, or a job with --job"
        )
    return over_job(document, given)


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except FileError as error:
        raise RefusedCommandError(f"trainfit: {path}: {error}") from None


def _model(named: str) -> dict[str, Any]:
    """A path to a config.json, or to the folder that holds it, and otherwise a Hub id."""
    path = Path(named)
    if path.joinpath("config.json").is_file():
        path = path / "config.json"
    if path.is_file() or named.endswith(".json"):
        return {"hf_config": _object(path, read_config)}
    return {"hf_id": named}


def _job(path: Path) -> Any:
    """The value of a file that holds one."""
    documents = read_documents(path)
    return documents[0].value if len(documents) == 1 else None


def _object(path: Path, read: Callable[[Path], Any]) -> dict[str, Any]:
    try:
        content = read(path)
    except FileError as error:
        raise RefusedCommandError(f"trainfit: {path}: {error}") from None
    if not isinstance(content, dict):
        raise RefusedCommandError(f"trainfit: {path}: holds no object")
    return content
