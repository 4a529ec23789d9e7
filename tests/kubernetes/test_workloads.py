"""How many GPUs objects ask for, and of which product."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from tests.api.kubernetes.objects import (
    JOB,
    JOB_SET,
    OBJECTS,
    POD_SPEC,
    PYTORCH_JOB,
    TEMPLATE,
    TRAIN_JOB,
)
from trainfit.kubernetes.workloads import Workload, workload


def of(document: Mapping[str, Any]) -> Workload:
    return workload(document["apiVersion"].partition("/")[0], document["kind"], document)


def spec(base: Mapping[str, Any], **changed: Any) -> dict[str, Any]:
    return {**base, "spec": {**base["spec"], **changed}}


def pods(resources: Mapping[str, Any], **changed: Any) -> dict[str, Any]:
    containers = [{"name": "train", "resources": resources}]
    return {"spec": {**POD_SPEC, "containers": containers, **changed}}


@pytest.mark.parametrize("kind", OBJECTS)
def test_each_kind_says_how_many_gpus(kind: str) -> None:
    assert of(OBJECTS[kind]) == Workload(8, None)


def test_pods_count_that_run_at_once() -> None:
    assert of(spec(JOB, parallelism=4)).gpus == 32
    assert of(spec(JOB, parallelism=4, completions=4, completionMode="Indexed")).gpus == 32
    assert of(spec(JOB, parallelism=4, completions=2)).gpus == 16
    nodes = {"parallelism": 2, "completions": 2, "template": TEMPLATE}
    replicated = [{"name": "node", "replicas": 3, "template": {"spec": nodes}}]
    assert of(spec(JOB_SET, replicatedJobs=replicated)).gpus == 48
    specs = {"Master": {"replicas": 1, "template": TEMPLATE}}
    specs["Worker"] = {"replicas": 15, "template": TEMPLATE}
    assert of(spec(PYTORCH_JOB, pytorchReplicaSpecs=specs)).gpus == 128
    trainer = {"numNodes": 4, "resourcesPerNode": {"limits": {"nvidia.com/gpu": "8"}}}
    assert of(spec(TRAIN_JOB, trainer=trainer)).gpus == 32


@pytest.mark.parametrize(
    ("resources", "gpus"),
    [
        ({"requests": {"nvidia.com/gpu": "2"}}, 2),
        ({"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}, 2),
        ({"limits": {"nvidia.com/mig-3g.40gb": 1}}, 1),
        ({"limits": {"amd.com/gpu": "8"}}, 8),
        ({"limits": {"cpu": "500m", "memory": "2Gi"}}, None),
        ({"limits": {"nvidia.com/gpu": "8e0"}}, None),
        ({}, None),
    ],
)
def test_gpus_are_requested_or_limited(resources: dict[str, Any], gpus: int | None) -> None:
    assert of(spec(JOB, template=pods(resources))).gpus == gpus


def test_what_a_runtime_decides_is_not_known() -> None:
    assert of(spec(TRAIN_JOB, trainer={"numNodes": 4})).gpus is None
    elsewhere = {"resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}}
    assert of(spec(TRAIN_JOB, trainer=elsewhere)).gpus is None
    assert of({**TRAIN_JOB, "spec": {"runtimeRef": {"name": "torch"}}}).gpus is None


def test_the_product_is_known_where_all_pods_with_gpus_name_the_same() -> None:
    gpu = {"limits": {"nvidia.com/gpu": "8"}}

    def on(product: str) -> dict[str, Any]:
        return pods(gpu, nodeSelector={"nvidia.com/gpu.product": product, "zone": "a"})

    assert of(spec(JOB, template=on("NVIDIA-H200"))).product == "NVIDIA-H200"
    same = {"Master": {"template": on("NVIDIA-H200")}, "Worker": {"template": on("NVIDIA-H200")}}
    assert of(spec(PYTORCH_JOB, pytorchReplicaSpecs=same)).product == "NVIDIA-H200"
    other = {**same, "Worker": {"template": on("NVIDIA-L4")}}
    assert of(spec(PYTORCH_JOB, pytorchReplicaSpecs=other)).product is None
    none = {**same, "Worker": {"template": pods({})}}
    assert of(spec(PYTORCH_JOB, pytorchReplicaSpecs=none)).product == "NVIDIA-H200"


@pytest.mark.parametrize("kind", OBJECTS)
def test_of_what_does_not_read_like_its_kind_nothing_is_known(kind: str) -> None:
    document = copy.deepcopy(OBJECTS[kind])
    odd_specs: tuple[Any, ...] = (None, [], "spec", {"template": None, "trainer": 1})
    for odd in odd_specs:
        document["spec"] = odd
        assert of(document) == Workload()
    assert workload("example.com", kind, OBJECTS[kind]) == Workload()
