"""The manifests are valid, agree with one another, and set up what the service expects."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import kubernetes_validate  # type: ignore[import-untyped]
import pytest

import trainfit
from tests.deploy.manifests import (
    OVERLAYS,
    built,
    container,
    environment,
    named,
    of_kind,
    probed,
    selected,
    templates,
)
from tests.serving import running_service
from trainfit.api.settings import ServiceSettings
from trainfit.hub.disk import MAX_BYTES

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
LATEST, OLDEST = "1.37", "1.30"
CUSTOM = {"Certificate", "Issuer", "PrometheusRule", "ServiceMonitor"}
"""Kinds that an operator brings; Kubernetes's own schemas do not have them."""


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("version", [OLDEST, LATEST])
def test_every_manifest_is_valid(overlay: str, version: str) -> None:
    for manifest in built(overlay):
        if manifest["kind"] not in CUSTOM:
            kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_everything_is_in_its_namespace_and_named_once(overlay: str) -> None:
    (namespace,) = of_kind(overlay, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for manifest in built(overlay):
        if manifest["kind"] not in ("Namespace", "ValidatingWebhookConfiguration"):
            assert manifest["metadata"]["namespace"] == namespace["metadata"]["name"]
    names = [(each["kind"], each["metadata"]["name"]) for each in built(overlay)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_containers_may_do_nothing_that_they_need_not(overlay: str) -> None:
    for _, template in templates(overlay):
        spec = template["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for each in spec["containers"]:
            assert each["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "privileged": False,
                "readOnlyRootFilesystem": True,
            }
            resources = each["resources"]
            for bounds in (resources["requests"], resources["limits"]):
                assert bounds.keys() == {"cpu", "memory"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_selector_selects_the_pods_that_it_is_meant_for(overlay: str) -> None:
    for name, template in templates(overlay):
        deployment = named(overlay, "Deployment", name)
        assert selected(overlay, deployment["spec"]["selector"]["matchLabels"]) == [name]
        for spread in template["spec"].get("topologySpreadConstraints", []):
            assert selected(overlay, spread["labelSelector"]["matchLabels"]) == [name]
        policy = named(overlay, "NetworkPolicy", name)
        assert selected(overlay, policy["spec"]["podSelector"]["matchLabels"]) == [name]
    for service in of_kind(overlay, "Service"):
        (name,) = selected(overlay, service["spec"]["selector"])
        ports = {each["name"] for each in container(overlay, name)["ports"]}
        assert {each["targetPort"] for each in service["spec"]["ports"]} <= ports
    for budget in of_kind(overlay, "PodDisruptionBudget"):
        name = budget["metadata"]["name"]
        assert selected(overlay, budget["spec"]["selector"]["matchLabels"]) == [name]
    for scaler in of_kind(overlay, "HorizontalPodAutoscaler"):
        target = scaler["spec"]["scaleTargetRef"]["name"]
        assert "replicas" not in named(overlay, "Deployment", target)["spec"]
        assert scaler["spec"]["minReplicas"] >= 2


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_dns_is_reached_unless_nothing_is(overlay: str) -> None:
    egress = named(overlay, "NetworkPolicy", "trainfit")["spec"]["egress"]
    if overlay == "air-gapped":
        assert egress == []
        assert environment(overlay, "trainfit")["HF_HUB_OFFLINE"] == "1"
        return
    (kube_dns, *_) = egress[0]["to"]
    assert kube_dns["podSelector"] == {
        "matchExpressions": [{"key": "k8s-app", "operator": "In", "values": ["kube-dns"]}]
    }


def test_the_cache_may_be_reached_by_those_who_are_told_of_it() -> None:
    secret = {"secretKeyRef": {"name": "trainfit-redis", "key": "password"}}
    password, url = container("production", "trainfit")["env"]
    assert password == {"name": "REDIS_PASSWORD", "valueFrom": secret}
    assert url["value"] == "redis://:$(REDIS_PASSWORD)@trainfit-redis:6379/0"
    redis = container("production", "trainfit-redis")
    assert redis["env"] == [{"name": "REDISCLI_AUTH", "valueFrom": secret}]
    assert redis["args"][-2:] == ["--requirepass", "$(REDISCLI_AUTH)"]
    *_, way_out = named("production", "NetworkPolicy", "trainfit")["spec"]["egress"]
    (way_in,) = named("production", "NetworkPolicy", "trainfit-redis")["spec"]["ingress"]
    for peer, name in ((way_out["to"][0], "trainfit-redis"), (way_in["from"][0], "trainfit")):
        assert selected("production", peer["podSelector"]["matchLabels"]) == [name]


def test_the_disk_holds_the_configs_that_may_be_kept_on_it() -> None:
    """And the log beside them."""
    spec = named("local", "Deployment", "trainfit")["spec"]["template"]["spec"]
    (cache,) = (each for each in spec["volumes"] if each["name"] == "cache")
    size = cache["emptyDir"]["sizeLimit"]
    assert size.endswith("Mi")
    assert int(size.removesuffix("Mi")) * 2**20 >= 1.5 * MAX_BYTES


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_image_is_the_version_s_own(overlay: str) -> None:
    for name, _ in templates(overlay):
        image, _, tag = container(overlay, name)["image"].rpartition(":")
        if image.endswith("trainfit"):
            assert tag == ("latest" if overlay == "local" else trainfit.__version__)


def test_a_pod_has_the_time_to_finish_what_is_under_way() -> None:
    spec = named("local", "Deployment", "trainfit")["spec"]["template"]["spec"]
    delay = int(environment("local", "trainfit")["TRAINFIT_SHUTDOWN_DELAY_SECONDS"])
    grace = ServiceSettings().shutdown_grace_seconds
    assert 0 < delay < delay + grace < spec["terminationGracePeriodSeconds"]


def test_the_alert_for_memory_knows_the_limit() -> None:
    """Half of it is for the workers."""
    limit = container("local", "trainfit")["resources"]["limits"]["memory"]
    assert limit.endswith("Mi")
    alerts = (MONITORING / "alerts.yaml").read_text("utf-8")
    (threshold,) = re.findall(r"process_resident_memory_bytes\{[^}]*\} > (\d+)", alerts)
    assert int(threshold) == int(limit[:-2]) * 2**20 // 2 * 8 // 10


def test_the_probes_are_answered() -> None:
    here = {"TRAINFIT_CACHE_DIR": "", "TRAINFIT_SHUTDOWN_DELAY_SECONDS": "0"}
    with running_service(**{**environment("local", "trainfit"), **here}) as service:
        for asked in probed("local", "trainfit"):
            assert asked["port"] == 8080  # of the image
            assert httpx.get(f"{service.url}{asked['path']}").status_code == 200
