"""The webhook's configuration and the service agree, and neither stops a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
import yaml
from httpx import ASGITransport

from tests.api.kubernetes.objects import FITS, JOB, annotated, review
from tests.api.test_tls import trusting, written
from tests.deploy.manifests import container, environment, named, of_kind, probed
from tests.serving import free_port, start, wait_until_ready
from trainfit.api.app import create_app
from trainfit.api.kubernetes import reviewing
from trainfit.api.kubernetes.annotations import JOB as JOB_ANNOTATION
from trainfit.api.kubernetes.reviewing import SUGGESTING_SECONDS
from trainfit.api.settings import ServiceSettings
from trainfit.kubernetes.workloads import KINDS

ROOT = Path(__file__).parents[2]
WITH_WEBHOOK = ["air-gapped", "production"]


def test_the_webhook_is_served_as_its_manifests_say(tmp_path: Path) -> None:
    settings = environment("production", "trainfit-admission")
    (certificate,) = of_kind("production", "Certificate")
    authority = trustme.CA()
    host = certificate["spec"]["dnsNames"][0]
    files = written(tmp_path, authority.issue_cert(host, "localhost"))
    volumes = container("production", "trainfit-admission")["volumeMounts"]
    mounts = {each["name"]: each["mountPath"] for each in volumes}
    for variable, path in files.items():
        assert settings[variable] == f"{mounts['tls']}/{Path(path).name}"
    port = free_port()
    process = start(
        {**settings, **files, "TRAINFIT_PORT": str(port), "TRAINFIT_LOG_LEVEL": "error"}
    )
    try:
        url, trust = f"https://localhost:{port}", trusting(authority)
        wait_until_ready(url, process, trust)
        for asked in probed("production", "trainfit-admission"):
            assert (str(asked["port"]), asked["scheme"]) == (settings["TRAINFIT_PORT"], "HTTPS")
            assert httpx.get(f"{url}{asked['path']}", verify=trust).status_code == 200
        (configuration,) = of_kind("production", "ValidatingWebhookConfiguration")
        large = annotated(JOB, FITS)
        large["metadata"]["annotations"]["notes"] = "x" * 3 * 2**20
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            answer = httpx.post(f"{url}{path}", json=review(large), verify=trust)
            assert answer.json()["response"]["allowed"] is True
        for path in ("/", "/docs", "/openapi.json", "/v1/models", "/v1/gpus"):
            assert httpx.get(f"{url}{path}", verify=trust).status_code == 404
        for path in ("estimate", "fit-check", "compare", "ledger", "jobs:from-launch"):
            answer = httpx.post(f"{url}/v1/{path}", json={}, verify=trust)
            assert answer.status_code == 404
        assert httpx.get(f"{url}/metrics", verify=trust).status_code == 200
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.mark.parametrize("overlay", WITH_WEBHOOK)
def test_the_policy_says_who_may_ask_the_webhook(overlay: str) -> None:
    """Addresses, since no selector names the API server, and who reads metrics."""
    (rule,) = named(overlay, "NetworkPolicy", "trainfit-admission")["spec"]["ingress"]
    networks = [each["ipBlock"]["cidr"] for each in rule["from"] if "ipBlock" in each]
    assert networks
    assert all(ip_network(each).is_private for each in networks)
    assert {tuple(each) for each in rule["from"]} <= {("ipBlock",), ("namespaceSelector",)}


@pytest.mark.parametrize("overlay", WITH_WEBHOOK)
def test_the_webhooks_ask_the_service_over_the_name_in_its_certificate(overlay: str) -> None:
    (configuration,) = of_kind(overlay, "ValidatingWebhookConfiguration")
    (certificate,) = of_kind(overlay, "Certificate")
    (issuer,) = of_kind(overlay, "Issuer")
    namespace, name = certificate["metadata"]["namespace"], certificate["metadata"]["name"]
    annotations = configuration["metadata"]["annotations"]
    assert annotations == {"cert-manager.io/inject-ca-from": f"{namespace}/{name}"}
    assert certificate["spec"]["issuerRef"]["name"] == issuer["metadata"]["name"]
    spec = named(overlay, "Deployment", "trainfit-admission")["spec"]["template"]["spec"]
    secrets = {each["secret"]["secretName"] for each in spec["volumes"] if "secret" in each}
    assert secrets == {certificate["spec"]["secretName"]}
    for webhook in configuration["webhooks"]:
        service = webhook["clientConfig"]["service"]
        assert service["namespace"] == namespace
        assert named(overlay, "Service", service["name"])["spec"]["ports"][0]["port"] == 443
        assert certificate["spec"]["dnsNames"] == [f"{service['name']}.{namespace}.svc"]


@pytest.mark.parametrize("overlay", WITH_WEBHOOK)
def test_the_webhooks_stop_no_cluster(overlay: str) -> None:
    (configuration,) = of_kind(overlay, "ValidatingWebhookConfiguration")
    paths = create_app(ServiceSettings()).openapi()["paths"]
    for webhook in configuration["webhooks"]:
        path = webhook["clientConfig"]["service"]["path"]
        assert "post" in paths[path]
        # The API server takes no other: every segment is a DNS label.
        assert re.fullmatch(r"(/[a-z0-9]([a-z0-9.-]*[a-z0-9])?)+", path)
        assert webhook["failurePolicy"] == "Ignore"
        assert webhook["sideEffects"] == "None"
        assert SUGGESTING_SECONDS < webhook["timeoutSeconds"] <= 2
        assert webhook["admissionReviewVersions"] == ["v1"]
        (condition,) = webhook["matchConditions"]
        assert f"'{JOB_ANNOTATION}' in object.metadata.annotations" in condition["expression"]
        assert {group for rule in webhook["rules"] for group in rule["apiGroups"]} == {
            group for group, _ in KINDS
        }
        resources = {name for rule in webhook["rules"] for name in rule["resources"]}
        assert resources == {f"{kind.lower()}s" for _, kind in KINDS}
        assert {name for rule in webhook["rules"] for name in rule["operations"]} == {"CREATE"}


@pytest.mark.parametrize(
    ("labels", "asked"),
    [
        ({}, ["warn.trainfit.dev"]),
        ({"trainfit.dev/admission": "enforce"}, ["enforce.trainfit.dev"]),
        ({"trainfit.dev/admission": "ignore"}, []),
        ({"kubernetes.io/metadata.name": "kube-system"}, []),
        ({"kubernetes.io/metadata.name": "trainfit", "trainfit.dev/admission": "enforce"}, []),
    ],
)
def test_a_namespace_is_warned_unless_it_asks_for_more_or_nothing(
    labels: dict[str, str], asked: list[str]
) -> None:
    (configuration,) = of_kind("production", "ValidatingWebhookConfiguration")
    namespace = {"kubernetes.io/metadata.name": "research", **labels}
    chosen = [
        webhook["name"]
        for webhook in configuration["webhooks"]
        if selects(webhook["namespaceSelector"], namespace)
    ]
    assert chosen == asked


def test_an_object_can_be_let_through() -> None:
    (configuration,) = of_kind("production", "ValidatingWebhookConfiguration")
    for webhook in configuration["webhooks"]:
        assert selects(webhook["objectSelector"], {"app": "x"})
        assert not selects(webhook["objectSelector"], {"trainfit.dev/admission": "ignore"})


async def test_the_example_of_the_documentation_is_told_what_the_page_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However busy this machine is."""
    monkeypatch.setattr(reviewing, "SUGGESTING_SECONDS", 60)
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    shown = re.findall(r"^Warning: (.+)$", page, re.MULTILINE)
    (example,) = (
        block
        for block in re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        if JOB_ANNOTATION in block
    )
    transport = ASGITransport(create_app(ServiceSettings()))
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        answer = await client.post("/v1/admission", json=review(yaml.safe_load(example)))
    warnings = answer.json()["response"]["warnings"]
    assert shown == warnings[: len(shown)]
    assert len(shown) == 3


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Label selectors as Kubernetes reads them, so far as they are used here."""
    assert selector.keys() == {"matchExpressions"}
    wanted = {"In": True, "NotIn": False}
    return all(
        (labels.get(each["key"]) in each["values"]) is wanted[each["operator"]]
        for each in selector["matchExpressions"]
    )
