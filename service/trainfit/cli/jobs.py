"""From a command line to a job: the model that it names, a job file, and flags over both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.files import read_config, read_documents
from trainfit.cli.flags import Flag, flags
from trainfit.documents.document import FileError

DEFAULT_KINDS = {"framework": {"name": "megatron"}, "peft": {"method": "lora"}}
"""What a part is where only some other field of it is given."""


def job_document(
    model: str | None, job_file: Path | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """The job as it would be sent over HTTP. `given` has the values of flags by their keywords.

    Raises RefusedCommandError where a file cannot be read or no model is named.
    """
    document = _object(job_file, _job) if job_file is not None else {}
    if model is not None:
        document["model"] = _model(model)
    elif "model" not in document:
        raise RefusedCommandError(
            "trainfit: name a model: a Hub id, the path of a config.json, or a job with --job"
        )
    for flag in flags().values():
        if given.get(flag.keyword) is not None:
            _put(document, flag, given[flag.keyword])
    return document


def _put(document: dict[str, Any], flag: Flag, value: Any) -> None:
    """Set a field in the place of what a job file says of it, under whichever of its names."""
    *parents, _ = flag.pointer.strip("/").split("/")
    part: Any = document
    for parent in parents:
        inner = part.setdefault(parent, dict(DEFAULT_KINDS.get(parent, {})))
        if not isinstance(inner, dict):
            return  # validation tells what is wrong with it
        part = inner
    for spelling in flag.spellings:
        part.pop(spelling, None)
    part[flag.spellings[0]] = value


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
