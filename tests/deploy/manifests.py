"""The manifests of deploy/kubernetes/ as Kustomize builds them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

KUBERNETES = Path(__file__).parents[2] / "deploy" / "kubernetes"
OVERLAYS = sorted(path.name for path in (KUBERNETES / "overlays").iterdir())

Manifest = dict[str, Any]


@cache
def built(overlay: str) -> tuple[Manifest, ...]:
    kubectl = shutil.which("kubectl")
    if kubectl is None:  # no distribution has one that knows these fields
        pytest.skip("kubectl is not installed: https://kubernetes.io/docs/tasks/tools/")
    command = [kubectl, "kustomize", str(KUBERNETES / "overlays" / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "deprecated" not in done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def of_kind(overlay: str, kind: str) -> list[Manifest]:
    return [each for each in built(overlay) if each["kind"] == kind]


def named(overlay: str, kind: str, name: str) -> Manifest:
    (found,) = (each for each in of_kind(overlay, kind) if each["metadata"]["name"] == name)
    return found


def templates(overlay: str) -> Iterator[tuple[str, Manifest]]:
    for deployment in of_kind(overlay, "Deployment"):
        yield deployment["metadata"]["name"], deployment["spec"]["template"]


def selected(overlay: str, selector: Mapping[str, str]) -> list[str]:
    """The Deployments whose Pods a selector selects."""
    return [
        name
        for name, template in templates(overlay)
        if selector.items() <= template["metadata"]["labels"].items()
    ]


def environment(overlay: str, name: str) -> dict[str, str]:
    """What a container of the service reads from its ConfigMap."""
    reference = container(overlay, name)["envFrom"][0]["configMapRef"]["name"]
    data: dict[str, str] = named(overlay, "ConfigMap", reference)["data"]
    return data


def container(overlay: str, name: str) -> Manifest:
    """The one container of a Deployment."""
    (found,) = named(overlay, "Deployment", name)["spec"]["template"]["spec"]["containers"]
    return dict(found)


def probed(overlay: str, name: str) -> Iterator[Manifest]:
    """What the probes of a Deployment ask, with the number of the port."""
    spec = container(overlay, name)
    ports = {each["name"]: each["containerPort"] for each in spec["ports"]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = spec[probe]["httpGet"]
        yield {**asked, "port": ports[asked["port"]]}
