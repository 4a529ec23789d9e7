"""What an answer is a function of: the job with nothing left open, and a digest of it."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from trainfit import __version__
from trainfit.resolve.plan import ModelSource, Plan
from trainfit.specs.job import Job

VERSION_DIGITS = 16
PIN = "estimator_version"
"""The field of a job that says who may answer, and so decides no answer."""


def normalised(job: Job, plan: Plan | None) -> dict[str, Any]:
    """The job as one would send it to leave nothing open, without its pin: model and card by the
    names that the catalogues have for them, a model of the Hub by its commit, and every default
    in its place but those within a config.json.

    Without a plan, where nothing was resolved, with the defaults that depend on nothing else.
    """
    parts = set(Job.model_fields) - {PIN}
    document: dict[str, Any] = _without_null(job.model_dump(include=parts))
    if job.model.hf_config is not None:
        document["model"]["hf_config"] = job.model.hf_config
    if plan is not None:
        for default in plan.defaults:
            # A caller's config.json stays as it was sent: an absent section is not an empty one.
            if not default.pointer.startswith("/model/"):
                _put(document, default.pointer, default.value)
        if job.model.hf_id is not None:
            document["model"]["hf_id"] = plan.source.name
            if plan.source.revision is not None:
                document["model"]["revision"] = plan.source.revision
        if isinstance(job.gpu, str):
            document["gpu"] = plan.gpu.name
        elif job.gpu is not None:
            document["gpu"]["name"] = plan.gpu.name
    return document


def request_digest(
    operation: str, job: Mapping[str, Any], options: Mapping[str, Any], source: ModelSource
) -> str:
    """SHA-256, in hexadecimal, of all that decides an answer: which question about which normalised
    job, what its model was resolved to, and the versions that answer.
    """
    decisive = {
        "operation": operation,
        "job": job,
        "options": options,
        "model": asdict(source),
        "estimator_version": __version__,
        "catalogue_version": catalogue_version(),
    }
    # Sorted keys and no spaces, in ASCII: equal values are equal bytes.
    return sha256(json.dumps(decisive, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@cache
def catalogue_version() -> str:
    """A digest of every file of the catalogues."""
    digest = sha256()
    for file in _data(files("trainfit.catalog")):
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:VERSION_DIGITS]


def _data(folder: Traversable) -> list[Traversable]:
    """The data files of a folder and of those in it, in an order that is always the same."""
    found: list[Traversable] = []
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            found += _data(entry)
        elif entry.name.endswith(".json"):
            found.append(entry)
    return found


def _without_null(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    return {name: _without_null(value) for name, value in part.items() if value is not None}


def _put(document: dict[str, Any], pointer: str, value: Any) -> None:
    *parents, name = pointer.split("/")[1:]
    part = document
    for parent in parents:
        part = part.setdefault(parent, {})
    part[name] = value
