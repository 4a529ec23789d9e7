"""From a command line to a job: the model that it names, a job file, and flags over both."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainfit.api.invalid_fields import invalid_fields
from trainfit.api.problems import INVALID_JOB, Problem, problem, summary
from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.flags import Flag, flags
from trainfit.specs.job import Job


def job_document(
    model: str | None, job_file: Path | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """The job as it would be sent over HTTP. `given` has the values of flags by their keywords.

    Raises RefusedCommandError where a file cannot be read or no model is named.
    """
    document = _read_job(job_file) if job_file is not None else {}
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


def parse_job(document: Mapping[str, Any]) -> Job | Problem:
    """The job, or what is wrong with its fields."""
    try:
        return Job.model_validate(document)
    except ValidationError as error:
        findings = invalid_fields(error.errors(), Job)
        return problem(INVALID_JOB, summary(findings), findings)


def _put(document: dict[str, Any], flag: Flag, value: Any) -> None:
    """Set a field in the place of what a job file says of it, under whichever of its names."""
    *parents, _ = flag.pointer.strip("/").split("/")
    part: Any = document
    for parent in parents:
        inner = part.setdefault(parent, {"name": "megatron"} if parent == "framework" else {})
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
        return {"hf_config": _read(path, json.loads)}
    return {"hf_id": named}


def _read_job(path: Path) -> dict[str, Any]:
    match path.suffix:
        case ".json":
            return _read(path, json.loads)
        case ".toml":
            import tomllib

            return _read(path, tomllib.loads)
        case _:
            import yaml

            return _read(path, yaml.safe_load, yaml.YAMLError)


def _read(
    path: Path, parse: Callable[[str], Any], syntax_error: type[Exception] = ValueError
) -> dict[str, Any]:
    try:
        content = parse(path.read_text("utf-8"))
    except OSError as error:
        raise RefusedCommandError(f"trainfit: {path}: {error.strerror}") from None
    except RecursionError:
        raise RefusedCommandError(f"trainfit: {path}: is nested too deeply") from None
    except (ValueError, syntax_error) as error:
        raise RefusedCommandError(f"trainfit: {path}: {error}") from None
    if not isinstance(content, dict):
        raise RefusedCommandError(f"trainfit: {path}: holds no object")
    return content
