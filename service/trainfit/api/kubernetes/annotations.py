"""The annotations of an object that say which training run it is, and how to check it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from trainfit.api.strict_json import JsonError, parse_json
from trainfit.api.strict_yaml import YamlError, parse_yaml
from trainfit.kubernetes.workloads import Workload
from trainfit.questions.field_types import accepted_names
from trainfit.questions.jobs import read_job
from trainfit.questions.problems import Problem
from trainfit.specs.parallelism import Parallelism
from trainfit.specs.policy import FitCheckRequest

PREFIX = "trainfit.dev/"
JOB = f"{PREFIX}job"
GPU = f"{PREFIX}gpu"
HEADROOM_RATIO = f"{PREFIX}headroom-ratio"
HEADROOM_BYTES = f"{PREFIX}headroom-bytes"
FAIL_ON = f"{PREFIX}fail-on"

FailOn = Literal["does-not-fit", "tight"]

MEANINGS: Mapping[str, str] = {
    JOB: "The job, in JSON or YAML, as `POST /v1/fit-check` takes it. Without it nothing is "
    "checked.",
    GPU: "The card, in place of the job's own. With neither, the card is the one that "
    "`nvidia.com/gpu.product` of the pods' `nodeSelector` names.",
    HEADROOM_RATIO: "Share of the usable memory to stay free, in place of the policy's.",
    HEADROOM_BYTES: "Bytes to stay free, in place of the policy's.",
    FAIL_ON: "`does-not-fit` unless given; `tight` refuses what may fit and may not, too.",
}
"""Every annotation, as the documentation has it."""


class AnnotationError(ValueError):
    """An annotation that cannot be read; the message begins with its name."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be checked, and from which verdict on it fails."""

    request: FitCheckRequest
    fail_on: FailOn


def question(annotations: Mapping[str, Any], workload: Workload) -> Question:
    """The question that annotations with a job ask. Raises AnnotationError.

    What the job leaves out and the object says is taken from the object: GPUs and their product.
    """
    said = dict(_ours(annotations))
    document = _job(said[JOB])
    _fill_in(document, workload)
    _override(document, said)
    # What else a fit-check may be asked for would be shown to nobody.
    request = read_job({**document, "limits": {}, "suggest": True}, FitCheckRequest)
    if isinstance(request, Problem):
        raise AnnotationError(JOB, request.detail)
    return Question(request, _fail_on(said.get(FAIL_ON, "does-not-fit")))


def _ours(annotations: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, text in annotations.items():
        if not name.startswith(PREFIX):
            continue
        if name not in MEANINGS:
            raise AnnotationError(name, f"unknown; there are {', '.join(MEANINGS)}")
        if not isinstance(text, str):
            raise AnnotationError(name, "must be text")
        yield name, text


def _job(text: str) -> dict[str, Any]:
    try:
        value = parse_json(text.encode())
    except (JsonError, UnicodeEncodeError):
        try:
            value = parse_yaml(text)
        except YamlError as error:
            raise AnnotationError(JOB, str(error)) from None
    if not isinstance(value, dict):
        raise AnnotationError(JOB, "must hold one job, an object")
    return value


def _fill_in(document: dict[str, Any], workload: Workload) -> None:
    if document.get("gpu") is None and workload.product is not None:
        document["gpu"] = workload.product
    parallelism = document.setdefault("parallelism", {})
    if isinstance(parallelism, dict) and workload.gpus is not None:
        names = accepted_names(Parallelism)
        if all(names.get(given) != "num_gpus" for given in parallelism):
            parallelism["num_gpus"] = workload.gpus


def _override(document: dict[str, Any], said: Mapping[str, str]) -> None:
    if GPU in said:
        document["gpu"] = said[GPU]
    headroom = {}
    if HEADROOM_RATIO in said:
        headroom["headroom_ratio"] = _number(said, HEADROOM_RATIO, float)
    if HEADROOM_BYTES in said:
        headroom["headroom_bytes"] = _number(said, HEADROOM_BYTES, int)
    policy = document.get("policy", {})
    if headroom and isinstance(policy, dict):  # of anything else validation tells what is wrong
        document["policy"] = {**policy, **headroom}


def _number(said: Mapping[str, str], name: str, kind: type[float] | type[int]) -> float:
    try:
        return kind(said[name])
    except ValueError:
        wanted = "a whole number" if kind is int else 'a number, such as "0.05"'
        raise AnnotationError(name, f"must be {wanted}") from None


def _fail_on(value: str) -> FailOn:
    known: Mapping[str, FailOn] = {each: each for each in get_args(FailOn)}
    if value not in known:
        raise AnnotationError(FAIL_ON, f"must be {' or '.join(known)}")
    return known[value]
