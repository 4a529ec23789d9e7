"""Objects as the API server sends them, and the reviews that they come in."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from trainfit.api.examples import LLAMA_8B

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
GPUS = 8

FITS: dict[str, Any] = LLAMA_8B
DOES_NOT_FIT: dict[str, Any] = {**LLAMA_8B, "gpu": "L40S"}
TIGHT: dict[str, Any] = {**LLAMA_8B, "gpu": {"name": "between", "memory_bytes": 60 * 2**30}}

POD_SPEC: dict[str, Any] = {
    "containers": [
        {
            "name": "train",
            "image": "example/train",
            "resources": {"limits": {"nvidia.com/gpu": str(GPUS), "cpu": "64"}},
        },
        {"name": "logs", "image": "example/logs", "resources": {}},
    ],
    "restartPolicy": "Never",
}
TEMPLATE: dict[str, Any] = {"metadata": {}, "spec": POD_SPEC}

JOB: dict[str, Any] = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": TEMPLATE}}
JOB_SET: dict[str, Any] = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "spec": {
        "replicatedJobs": [
            {
                "name": "driver",
                "replicas": 1,
                "template": {"spec": {"template": {"spec": {"containers": [{"name": "driver"}]}}}},
            },
            {"name": "node", "replicas": 1, "template": {"spec": {"template": TEMPLATE}}},
        ]
    },
}
PYTORCH_JOB: dict[str, Any] = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "spec": {"nprocPerNode": "8", "pytorchReplicaSpecs": {"Master": {"template": TEMPLATE}}},
}
TRAIN_JOB: dict[str, Any] = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "spec": {
        "runtimeRef": {"name": "torch-distributed"},
        "trainer": {"numNodes": 1, "resourcesPerNode": {"requests": {"nvidia.com/gpu": GPUS}}},
    },
}
VOLCANO_JOB: dict[str, Any] = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "spec": {"tasks": [{"name": "worker", "replicas": 1, "template": TEMPLATE}]},
}
RAY_CLUSTER: dict[str, Any] = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "spec": {
        "headGroupSpec": {"template": {"spec": {"containers": [{"name": "head"}]}}},
        "workerGroupSpecs": [{"replicas": 1, "template": TEMPLATE}],
    },
}
RAY_JOB: dict[str, Any] = {
    "apiVersion": "ray.io/v1",
    "kind": "RayJob",
    "spec": {"entrypoint": "python train.py", "rayClusterSpec": RAY_CLUSTER["spec"]},
}
OBJECTS: dict[str, Any] = {
    f"{each['kind']} of {each['apiVersion'].partition('/')[0]}": each
    for each in (JOB, JOB_SET, PYTORCH_JOB, TRAIN_JOB, VOLCANO_JOB, RAY_CLUSTER, RAY_JOB)
}


def annotated(base: Mapping[str, Any], job: Any = None, **annotations: str) -> dict[str, Any]:
    """An object with a job in its annotation, and others by the ends of their names."""
    said = {f"trainfit.dev/{name.replace('_', '-')}": text for name, text in annotations.items()}
    if job is not None:
        said["trainfit.dev/job"] = job if isinstance(job, str) else json.dumps(job)
    document = copy.deepcopy(dict(base))
    document["metadata"] = {"name": "run", "namespace": "research", "annotations": said}
    return document


def review(document: Mapping[str, Any] | None, **request: Any) -> dict[str, Any]:
    """An AdmissionReview about an object that is created."""
    about = document or JOB
    group, _, version = about["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": about["kind"]}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": UID,
            "kind": kind,
            "requestKind": kind,
            "resource": {"group": group, "version": version, "resource": "jobs"},
            "operation": "CREATE",
            "namespace": "research",
            "userInfo": {"username": "someone", "groups": ["system:authenticated"]},
            "object": document,
            "oldObject": None,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
            **request,
        },
    }
