"""POST /v1/admission and /v1/admission/enforce of a running service."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
import yaml

from tests.api.kubernetes.objects import (
    DOES_NOT_FIT,
    FITS,
    JOB,
    OBJECTS,
    TIGHT,
    UID,
    annotated,
    review,
)
from tests.serving import running_service
from trainfit.api.examples import ADMISSION_EXAMPLES
from trainfit.api.kubernetes.warnings import MAX_LENGTH
from trainfit.questions.fit_check import check_fit
from trainfit.specs.policy import FitCheckRequest

WARN, ENFORCE = "/v1/admission", "/v1/admission/enforce"


@pytest.fixture(scope="module")
def service() -> Iterator[httpx.Client]:
    with (
        running_service(TRAINFIT_LOG_LEVEL="error") as running,
        httpx.Client(base_url=running.url) as client,
    ):
        yield client


def asked(service: httpx.Client, path: str, document: Mapping[str, Any] | None) -> dict[str, Any]:
    """The response to a review of an object, held to what the API server takes."""
    response = service.post(path, json=review(document))
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    answer = response.json()
    assert answer["apiVersion"] == "admission.k8s.io/v1"
    assert answer["kind"] == "AdmissionReview"
    said: dict[str, Any] = answer["response"]
    assert said["uid"] == UID
    assert said["allowed"] is (said["status"] is None)
    assert not {"patch", "patchType"} & said.keys()
    for warning in said["warnings"]:
        assert warning.startswith("trainfit: ")
        assert len(warning) <= MAX_LENGTH
        assert warning.isprintable()
    return said


@pytest.mark.parametrize("path", [WARN, ENFORCE])
@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_without_a_job_passes_in_silence(
    service: httpx.Client, kind: str, path: str
) -> None:
    bare = {**OBJECTS[kind], "metadata": {"name": "run"}}
    for document in (bare, annotated(OBJECTS[kind], gpu="nothing of the kind")):
        said = asked(service, path, document)
        assert (said["allowed"], said["warnings"]) == (True, [])


@pytest.mark.parametrize("path", [WARN, ENFORCE])
@pytest.mark.parametrize("kind", OBJECTS)
def test_a_job_that_fits_passes_in_silence(service: httpx.Client, kind: str, path: str) -> None:
    said = asked(service, path, annotated(OBJECTS[kind], FITS))
    assert (said["allowed"], said["warnings"]) == (True, [])
    digest = check_fit(FitCheckRequest.model_validate(FITS)).request_digest
    assert said["auditAnnotations"] == {"verdict": "fits", "request-digest": digest}


@pytest.mark.parametrize("kind", OBJECTS)
def test_a_job_that_does_not_fit_passes_with_what_to_do(service: httpx.Client, kind: str) -> None:
    said = asked(service, WARN, annotated(OBJECTS[kind], DOES_NOT_FIT))
    assert said["allowed"] is True
    verdict, where, best, *_ = said["warnings"]
    check = check_fit(FitCheckRequest.model_validate(DOES_NOT_FIT))
    margin = check.stages[0].margin_bytes.high / 2**30
    assert verdict.startswith("trainfit: does not fit on L40S: stage 0 needs 56.")
    assert verdict.endswith(f"to {margin:.1f} GiB")
    assert where == "trainfit: stage 0 needs most at head forward, most of all for activations"
    # Which of them come first may differ: a webhook does not wait for what is replayed.
    changes = [each.patch[0] for each in check.suggestions]
    helpful = tuple(f"trainfit: would help: set {one.path} to {one.value}" for one in changes)
    assert best.startswith(helpful)
    assert said["auditAnnotations"]["verdict"] == "does_not_fit"


@pytest.mark.parametrize("kind", OBJECTS)
def test_a_job_that_does_not_fit_is_refused_where_that_is_enforced(
    service: httpx.Client, kind: str
) -> None:
    said = asked(service, ENFORCE, annotated(OBJECTS[kind], DOES_NOT_FIT))
    assert said["allowed"] is False
    status = said["status"]
    assert (status["status"], status["code"], status["reason"]) == ("Failure", 403, "Forbidden")
    first, *rest = status["message"].splitlines()
    assert first.startswith("does not fit on L40S: stage 0 needs ")
    assert any(line.startswith("would help: set /parallelism/tp to ") for line in rest)


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("described", [4, 16])
def test_pods_that_ask_for_other_gpus_than_the_job_are_told_of(
    service: httpx.Client, kind: str, described: int
) -> None:
    job = {**FITS, "parallelism": {"num_gpus": described, "tp": 2}, "gpu": "B200"}
    said = asked(service, WARN, annotated(OBJECTS[kind], job))
    assert said["auditAnnotations"]["verdict"] == "fits"
    assert said["warnings"] == [
        f"trainfit: the pods ask for 8 GPUs, but the job that was checked is on {described}; "
        "make /parallelism/num_gpus and the pods agree"
    ]


def test_a_job_may_be_in_yaml_and_leave_gpus_and_card_to_its_pods(service: httpx.Client) -> None:
    job = {name: part for name, part in FITS.items() if name != "gpu"}
    document = annotated(JOB, yaml.safe_dump({**job, "parallelism": {"tp": 2}}))
    selector = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    document["spec"]["template"]["spec"]["nodeSelector"] = selector
    said = asked(service, ENFORCE, document)
    same = {**FITS, "gpu": "H100-80GB-SXM", "parallelism": {"tp": 2, "num_gpus": 8}}
    digest = check_fit(FitCheckRequest.model_validate(same)).request_digest
    assert said["auditAnnotations"] == {"verdict": "fits", "request-digest": digest}


def test_the_card_of_the_annotation_goes_before_the_job_s(service: httpx.Client) -> None:
    said = asked(service, ENFORCE, annotated(JOB, FITS, gpu="L40S"))
    assert said["auditAnnotations"]["verdict"] == "does_not_fit"
    assert asked(service, ENFORCE, annotated(JOB, DOES_NOT_FIT, gpu="H100-80GB"))["allowed"]


def test_tight_fails_only_where_it_is_asked_for(service: httpx.Client) -> None:
    said = asked(service, ENFORCE, annotated(JOB, TIGHT))
    assert (said["allowed"], said["auditAnnotations"]["verdict"]) == (True, "tight")
    assert said["warnings"][0].startswith("trainfit: tight on between: stage 0 needs ")
    assert not asked(service, ENFORCE, annotated(JOB, TIGHT, fail_on="tight"))["allowed"]
    assert asked(service, WARN, annotated(JOB, TIGHT, fail_on="tight"))["allowed"]
    allowed = {**TIGHT, "policy": {"allow": [{"verdict": "tight", "reason": "measured"}]}}
    assert asked(service, ENFORCE, annotated(JOB, allowed, fail_on="tight"))["allowed"]


@pytest.mark.parametrize(
    "headroom", [{"headroom_ratio": "0.5"}, {"headroom_bytes": str(40 * 2**30)}]
)
def test_headroom_is_kept_free(service: httpx.Client, headroom: dict[str, str]) -> None:
    said = asked(service, ENFORCE, annotated(JOB, FITS, fail_on="tight", **headroom))
    assert not said["allowed"]
    assert " of them to stay free: a margin of " in said["status"]["message"]


UNREADABLE = {
    "no YAML": ("{model: [", {}, "trainfit.dev/job: did not find expected node content"),
    "no object": ("meta-llama/Llama-3.1-8B", {}, "trainfit.dev/job: must hold one job, an object"),
    "a key twice": (
        "gpu: A\ngpu: B",
        {},
        "'gpu' is given twice in one mapping at line 2, column 1",
    ),
    "an alias within itself": ("\na: &a [*a]", {}, "line 2: an alias stands within what it names"),
    "aliases of aliases": (
        "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 99)}]" for n in range(9)).replace(
            "*a-1", "x"
        ),
        {},
        "has more than 100000 values",
    ),
    "a date": ("gpu: 2026-01-01", {}, "quote it if it is text"),
    "a long number": (f"gpu: 0x{'f' * 20_000}", {}, "a number has more than 128 characters"),
    "nested": ("[" * 5_000, {}, "nested too deeply"),
    "an unknown field": ({**FITS, "gpus": "H100"}, {}, "/gpus: unknown field"),
    "no card": ({"model": FITS["model"]}, {}, "/gpu: is needed and missing"),
    "a layout that does not hold": (
        {**FITS, "parallelism": {"num_gpus": 8, "tp": 3}},
        {},
        "/paral",
    ),
    "an unknown model": ({**FITS, "model": {"hf_id": "no/such"}}, {}, "no config.json of this mod"),
    "an unknown card": (FITS, {"gpu": "H1000"}, "no such GPU in the catalogue; close: "),
    "a headroom in words": (FITS, {"headroom_ratio": "little"}, "must be a number, such as"),
    "a headroom in parts": (FITS, {"headroom_bytes": "0.5"}, "must be a whole number"),
    "a headroom of all": (FITS, {"headroom_ratio": "1"}, "/policy/headroom_ratio: must be less"),
    "no number": (FITS, {"headroom_ratio": "nan"}, "/policy/headroom_ratio: "),
    "a policy of its own": (FITS, {"fail_on": "everything"}, "must be does-not-fit or tight"),
    "a mistyped name": (
        FITS,
        {"headrom_ratio": "0.1"},
        "trainfit.dev/headrom-ratio: unknown; there",
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
@pytest.mark.parametrize("path", [WARN, ENFORCE])
def test_what_cannot_be_checked_passes_with_a_warning(
    service: httpx.Client, path: str, case: str
) -> None:
    job, annotations, reason = UNREADABLE[case]
    said = asked(service, path, annotated(JOB, job, **annotations))
    assert said["allowed"] is True
    (warning,) = said["warnings"]
    assert warning.startswith("trainfit: not checked: ")
    assert reason in warning
    assert said["auditAnnotations"] == {"verdict": "not_checked"}


def test_what_is_not_modelled_passes_and_is_named(service: httpx.Client) -> None:
    job = {**FITS, "training": {"precision": "bf16-pure"}}
    said = asked(service, ENFORCE, annotated(JOB, job))
    assert (said["allowed"], said["auditAnnotations"]["verdict"]) == (True, "unknown")
    (warning,) = said["warnings"]
    assert warning.startswith("trainfit: unknown on H100-80GB: /training/precision: ")


def test_odd_objects_pass(service: httpx.Client) -> None:
    for document in (
        {**JOB, "metadata": "none"},
        {**JOB, "metadata": {"annotations": ["trainfit.dev/job"]}},
        {**annotated(JOB, FITS), "spec": {"template": "none"}},
        {**annotated(JOB, FITS), "kind": "CronJob"},
    ):
        said = asked(service, ENFORCE, document)
        assert (said["allowed"], said["warnings"]) == (True, [])
    assert asked(service, ENFORCE, None)["allowed"]
    not_text = annotated(JOB)
    not_text["metadata"]["annotations"]["trainfit.dev/job"] = FITS
    assert asked(service, ENFORCE, not_text)["warnings"] == [
        "trainfit: not checked: trainfit.dev/job: must be text"
    ]


@pytest.mark.parametrize(
    ("changed", "pointer"),
    [
        ({"apiVersion": "admission.k8s.io/v1beta1"}, "/apiVersion"),
        ({"kind": "Review"}, "/kind"),
        ({"request": None}, "/request"),
        ({"request": {"uid": "", "kind": {}}}, "/request/uid"),
    ],
)
def test_what_is_no_review_is_a_problem(
    service: httpx.Client, changed: dict[str, Any], pointer: str
) -> None:
    response = service.post(WARN, json={**review(JOB), **changed})
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["type"] == "/problems/invalid-review"
    assert problem["errors"][0]["pointer"] == pointer


def test_a_large_object_is_reviewed(service: httpx.Client) -> None:
    document = annotated(JOB, DOES_NOT_FIT)
    script = ["x,"] * 45_000
    document["spec"]["template"]["spec"]["containers"][0]["args"] = script
    assert json.dumps(review(document)).count(",") > 90_000
    assert not asked(service, ENFORCE, document)["allowed"]
    document["spec"]["template"]["spec"]["containers"][0]["args"] = ["x" * 1_100_000]
    assert service.post(ENFORCE, json=review(document)).status_code == 413


def test_the_documented_example_is_answered(service: httpx.Client) -> None:
    (example,) = ADMISSION_EXAMPLES.values()
    answer = service.post(ENFORCE, json=example["value"]).json()
    assert answer["response"]["auditAnnotations"]["verdict"] == "fits"


def test_no_hub_is_asked() -> None:
    paths: list[str] = []

    class Hub(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_error(404)

    with http.server.HTTPServer(("127.0.0.1", 0), Hub) as hub:
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{hub.server_port}"
        with running_service(HF_ENDPOINT=endpoint, TRAINFIT_LOG_LEVEL="error") as running:
            job = {**FITS, "model": {"hf_id": "no/such"}}
            body = review(annotated(JOB, job))
            answer = httpx.post(f"{running.url}{ENFORCE}", json=body).json()
        hub.shutdown()
    assert answer["response"]["allowed"]
    assert paths == []
