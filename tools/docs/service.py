"""Operations, settings, metrics and problems of the service, as tables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import Metric
from pydantic import AliasChoices, AliasPath

from tools.docs.markdown import code, listing, table
from tools.docs.question import asked, laid_out
from trainfit.api.api_keys import named, new_key
from trainfit.api.app import create_app
from trainfit.api.examples import DEEPSEEK_V3
from trainfit.api.kinds import KINDS, OVERLOADED
from trainfit.api.kubernetes.annotations import MEANINGS
from trainfit.api.metrics import Metrics
from trainfit.api.replies import fit_check_tally, job_tally
from trainfit.api.settings import ServiceSettings
from trainfit.hub.errors import (
    AdapterError,
    GatedRepoError,
    HubError,
    MalformedAnswerError,
    MissingRevisionError,
    NoConfigError,
    NotAllowedError,
    RateLimitedError,
    RenamedRepoError,
    SlowHubError,
    UnreachableError,
)
from trainfit.hub.settings import HubSettings
from trainfit.questions.estimate import answer
from trainfit.questions.fit_check import check_fit
from trainfit.questions.kinds import INTERNAL_ERROR, ProblemKind
from trainfit.questions.problems import Problem, problem, problem_of
from trainfit.questions.wire import to_json
from trainfit.specs.job import Job
from trainfit.specs.policy import FitCheckRequest

OFFLINE = ServiceSettings(hf_hub_offline=True, cache_dir="")
DOCKERFILE = Path(__file__).parents[2] / "Dockerfile"


def environment_variables() -> dict[str, str]:
    """The variable that each setting is read from, those of the service itself first."""
    prefix = ServiceSettings.model_config.get("env_prefix", "")
    return {
        name: _named(ServiceSettings.model_fields[name].validation_alias)
        or f"{prefix}{name.upper()}"
        for name in sorted(ServiceSettings.model_fields, key=HubSettings.model_fields.__contains__)
    }


def _named(alias: str | AliasPath | AliasChoices | None) -> str | None:
    """The name that a setting is known by, of several the first."""
    if isinstance(alias, AliasChoices):
        alias = alias.choices[0]
    return None if alias is None else str(alias)


def settings() -> str:
    """Those of the service itself."""
    own = ServiceSettings.model_fields.keys() - HubSettings.model_fields.keys()
    return _settings(own, {}, "default")


def settings_of_the_hub() -> str:
    return _settings(HubSettings.model_fields.keys(), {}, "default")


def settings_of_the_image() -> str:
    """All of them, with defaults as the image has them."""
    set_there = re.findall(r"\b([A-Z_]+)=(\S+)", DOCKERFILE.read_text("utf-8"))
    return _settings(ServiceSettings.model_fields.keys(), dict(set_there), "in the image")


def admission_annotations() -> str:
    """What an object of Kubernetes may say to the webhook."""
    rows = [[code(name), meaning] for name, meaning in MEANINGS.items()]
    return table(["annotation", "meaning"], rows)


def _settings(names: Set[str], elsewhere: Mapping[str, str], head: str) -> str:
    rows = [
        [
            code(variable),
            _shown(elsewhere.get(variable, ServiceSettings.model_fields[name].default)),
            ServiceSettings.model_fields[name].description or "",
        ]
        for name, variable in environment_variables().items()
        if name in names
    ]
    return table(["variable", head, "meaning"], rows)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return code(str(value).lower())
    return {None: "unset", "": "unset", (): "none"}.get(value) or code(value)


def operations() -> str:
    """The operations of the OpenAPI document."""
    document = create_app(OFFLINE).openapi()
    rows = [
        [code(f"{method.upper()} {path}"), code(operation["operationId"]), operation["summary"]]
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return table(["request", "operation", "what it does"], rows)


def families() -> list[Metric]:
    """The service's own metrics, each with a value, so that its labels show."""
    metrics = Metrics()
    job = Job.model_validate(DEEPSEEK_V3)
    metrics.request_answered("estimate", "POST", HTTPStatus.OK, 0.001)
    metrics.job_asked(job_tally(job, answer(job)))
    metrics.object_reviewed("does_not_fit", allowed=False)
    metrics.hub_asked("found", 0.1)
    check = check_fit(FitCheckRequest.model_validate(DEEPSEEK_V3))
    metrics.job_asked(fit_check_tally(job, check))
    return [each for each in metrics.registry.collect() if each.name.startswith("trainfit_")]


def metrics() -> str:
    rows = []
    for family in families():
        labels = dict.fromkeys(
            label for sample in family.samples for label in sample.labels if label != "le"
        )
        rows.append(
            [
                code(exposed(family)),
                family.type,
                ", ".join(map(code, labels)),
                family.documentation,
            ]
        )
    return table(["metric", "type", "labels", "meaning"], rows)


def exposed(family: Metric) -> str:
    """The name under which it is scraped: counters and infos have a suffix."""
    return family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")


class Request(NamedTuple):
    """A request that is answered with a problem."""

    body: str | None
    method: str = "POST"
    path: str = "/v1/estimate"
    headers: Mapping[str, str] = {}
    note: str = ""
    settings: Mapping[str, Any] = {}
    times: int = 1
    slow: bool = False


def _job(**parts: Any) -> str:
    return laid_out(parts)


def examples() -> dict[str, Request]:
    """A request for every kind of problem that one can ask for."""
    model = {"hf_id": "Qwen/Qwen3-8B"}
    key = named("ci", new_key())
    return {
        "invalid-json": Request('{"model": NaN}'),
        "unauthenticated": Request(
            None, "GET", "/v1/gpus", note="TRAINFIT_API_KEYS", settings={"api_keys": (key,)}
        ),
        "invalid-review": Request(
            _job(apiVersion="admission.k8s.io/v1", kind="AdmissionReview"), path="/v1/admission"
        ),
        "invalid-message": Request("[]", path="/mcp"),
        "origin-not-allowed": Request(
            _job(jsonrpc="2.0", id=1, method="tools/list"),
            path="/mcp",
            headers={"Origin": "https://elsewhere.example"},
        ),
        "not-found": Request(None, "GET", "/v1/estimates"),
        "method-not-allowed": Request(None, "GET"),
        "version-not-served": Request(_job(model=model, estimator_version="0.0.1")),
        "too-large": Request(
            _job(model=model), note="TRAINFIT_MAX_BODY_BYTES=16", settings={"max_body_bytes": 16}
        ),
        "unsupported-media-type": Request(
            _job(model=model), headers={"Content-Type": "text/plain"}
        ),
        "slow-body": Request(
            _job(model=model),
            note="TRAINFIT_BODY_TIMEOUT_SECONDS=0.01",
            settings={"body_timeout_seconds": 0.01},
            slow=True,
        ),
        "invalid-job": Request(_job(model=model, parallelism={"tp": "2"}, gpus="H100-80GB")),
        "invalid-parameter": Request(_job(model=model), path="/v1/estimate?activation=false"),
        "invalid-launch": Request(
            _job(argv="torchtitan.train --parallelism.tensor_parallel_degree four"),
            path="/v1/jobs:from-launch",
        ),
        "invalid-layout": Request(
            _job(model={"hf_id": "Qwen/Qwen3-235B-A22B"}, parallelism={"tp": 8, "pp": 4, "ep": 4})
        ),
        "not-modelled": Request(_job(model=model, training={"optimizer": {"name": "adafactor"}})),
        "invalid-patch": Request(
            _job(
                job={"model": model},
                changes=[
                    {
                        "id": "wider",
                        "patch": [{"op": "replace", "path": "/parallelism/tp", "value": 2}],
                    }
                ],
            ),
            path="/v1/compare",
        ),
        "invalid-model": Request(
            _job(model={"hf_config": {"model_type": "llama", "hidden_size": "wide"}})
        ),
        "unsupported-model": Request(_job(model={"hf_config": {"model_type": "my_model"}})),
        "unknown-model": Request(_job(model={"hf_id": "Qwen/Qwen3-9B"})),
        "unknown-gpu": Request(_job(model=model, gpu="A100")),
        "rate-limited": Request(
            None,
            "GET",
            "/v1/gpus",
            note="TRAINFIT_RATE_LIMIT=1, asked twice",
            settings={"rate_limit": 1},
            times=2,
        ),
        "too-costly": Request(
            _job(model=model),
            note="TRAINFIT_MAX_ANSWER_BYTES=1024",
            settings={"max_answer_bytes": 1024},
        ),
        "timed-out": Request(
            _job(model=model),
            note="TRAINFIT_REQUEST_TIMEOUT_SECONDS=0.000001",
            settings={"request_timeout_seconds": 1e-6},
        ),
    }


HUB: Mapping[str, tuple[str, HubError]] = {
    "gated-model": ("acme/closed", GatedRepoError(refused=False)),
    "model-not-allowed": ("acme/small", NotAllowedError()),
    "unknown-revision": ("acme/small", MissingRevisionError()),
    "renamed-model": ("acme/old-name", RenamedRepoError("acme/new-name")),
    "model-without-config": ("acme/small-GGUF", NoConfigError()),
    "adapter-model": ("acme/small-lora", AdapterError("acme/small")),
    "hub-answer": ("acme/small", MalformedAnswerError("the file is not JSON")),
    "hub-unavailable": ("acme/small", UnreachableError("the Hub cannot be reached")),
    "hub-rate-limited": ("acme/small", RateLimitedError(55)),
    "hub-timeout": ("acme/small", SlowHubError()),
}
"""A model for which each kind is answered, and what the Hub did."""


def _of_hub(slug: str) -> tuple[str, Mapping[str, Any]]:
    """A request and the problem that it is answered with."""
    hf_id, error = HUB[slug]
    revision = {"revision": "v9"} if slug == "unknown-revision" else {}
    job = Job.model_validate({"model": {"hf_id": hf_id, **revision}})
    asked = f"POST /v1/estimate\n\n{_job(model=job.model.model_dump(exclude_unset=True))}"
    return asked, _example(problem_of(error, job))


def _example(answered: Problem) -> dict[str, Any]:
    """A problem as it is sent."""
    example: dict[str, Any] = json.loads(to_json(answered))
    return example | {"instance": "urn:request:example"}


def problems() -> str:
    """Every kind with its meaning, a request that it answers and the answer."""
    requests = examples()
    return "\n\n".join(_kind(kind, requests.get(slug)) for slug, kind in KINDS.items())


def _kind(kind: ProblemKind, request: Request | None) -> str:
    head = f"### `{kind.slug}`\n\n{kind.status}: {kind.title}. {kind.meaning}"
    if kind.slug in HUB:
        asking, answer = _of_hub(kind.slug)
        return f"{head}\n\n{listing(asking, 'http')}\n\n{listing(_laid_out(answer), 'json')}"
    if request is None:
        assert kind in (INTERNAL_ERROR, OVERLOADED)
        body = _example(problem(kind, kind.meaning))
        return f"{head}\n\n{listing(_laid_out(body), 'json')}"
    response = asked(
        request.method,
        request.path,
        body=request.body,
        settings=request.settings,
        headers=request.headers,
        times=request.times,
        slow=request.slow,
    )
    body = response.json()
    if "jobs" in body:  # a problem in the place of a job's answer
        body = body["jobs"][0]["problem"]
    assert body["type"] == f"/problems/{kind.slug}", body
    lines = [f"{request.method} {request.path}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    if request.note:
        lines[0] += f"    ({request.note})"
    asking = "\n".join([*lines, "", request.body] if request.body else lines)
    return f"{head}\n\n{listing(asking, 'http')}\n\n{listing(_laid_out(body), 'json')}"


def _laid_out(document: Mapping[str, Any]) -> str:
    """A problem with a line for each member, and one for each error."""
    lines = []
    for name, value in document.items():
        shown = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list) and value:
            errors = (f"    {json.dumps(each, ensure_ascii=False)}" for each in value)
            shown = "[\n" + ",\n".join(errors) + "\n  ]"
        lines.append(f"  {json.dumps(name)}: {shown}")
    return "{\n" + ",\n".join(lines) + "\n}"


BLOCKS = {
    "admission-annotations": admission_annotations,
    "metrics": metrics,
    "operations": operations,
    "problems": problems,
    "settings": settings,
    "settings-of-the-hub": settings_of_the_hub,
    "settings-of-the-image": settings_of_the_image,
}
