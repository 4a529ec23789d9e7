"""What training jobs ask of a cluster: how many GPUs, and of which product.

Each model describes just as much of its kind as leads to the pods. The API server has validated
the objects, so what does not read like its kind is one that nothing is known of.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

GPU_RESOURCE = re.compile(r"(nvidia|amd)\.com/(gpu|mig-.+)")
PRODUCT_LABEL = "nvidia.com/gpu.product"
"""What GPU feature discovery labels nodes with."""


@dataclass(frozen=True, slots=True)
class Workload:
    """GPUs of all pods together, and the product that their nodes must have. None: not said."""

    gpus: int | None = None
    product: str | None = None


def workload(group: str, kind: str, document: Mapping[str, Any]) -> Workload:
    """What an object asks for. Of a kind that is not read here, nothing is known."""
    read = KINDS.get((group, kind))
    if read is None:
        return Workload()
    try:
        groups = list(read.model_validate(document).pods())
        return Workload(_gpus(groups), _product(groups))
    except ValueError:  # a ValidationError, or a quantity that is no whole number
        return Workload()


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods that are alike. `count` is None where the object leaves it to something else."""

    count: int | None
    gpus: int
    product: str | None = None


class _Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)


class Kind(_Camel, ABC):
    """An object that leads to pods."""

    @abstractmethod
    def pods(self) -> Iterator[Pods]:
        """Its pods, those that are alike together."""


class _Resources(BaseModel):
    limits: dict[str, str | int] = {}
    requests: dict[str, str | int] = {}

    @property
    def gpus(self) -> int:
        """Requests of GPUs must equal their limits, and either may stand alone."""
        asked = {**self.requests, **self.limits}
        return sum(int(number) for name, number in asked.items() if GPU_RESOURCE.fullmatch(name))


class _Container(BaseModel):
    resources: _Resources = _Resources()


class _PodSpec(_Camel):
    containers: tuple[_Container, ...]
    node_selector: dict[str, str] = {}


class _PodTemplate(BaseModel):
    spec: _PodSpec

    def pods(self, count: int) -> Pods:
        gpus = sum(each.resources.gpus for each in self.spec.containers)
        return Pods(count, gpus, self.spec.node_selector.get(PRODUCT_LABEL))


class _JobSpec(BaseModel):
    template: _PodTemplate
    parallelism: int = 1
    completions: int | None = None

    def pods(self, replicas: int = 1) -> Pods:
        """Those that run at once: no more than are to be completed."""
        at_once = min(self.parallelism, self.completions or self.parallelism)
        return self.template.pods(replicas * at_once)


class _JobTemplate(BaseModel):
    spec: _JobSpec


class Job(Kind):
    """Job of batch."""

    spec: _JobSpec

    def pods(self) -> Iterator[Pods]:
        yield self.spec.pods()


class _ReplicatedJob(BaseModel):
    template: _JobTemplate
    replicas: int = 1


class _JobSetSpec(_Camel):
    replicated_jobs: tuple[_ReplicatedJob, ...]


class JobSet(Kind):
    """JobSet of jobset.x-k8s.io: several Jobs, each in several replicas."""

    spec: _JobSetSpec

    def pods(self) -> Iterator[Pods]:
        for each in self.spec.replicated_jobs:
            yield each.template.spec.pods(each.replicas)


class _Replicas(BaseModel):
    template: _PodTemplate
    replicas: int = 1


class _PyTorchJobSpec(_Camel):
    pytorch_replica_specs: dict[str, _Replicas]


class PyTorchJob(Kind):
    """PyTorchJob of kubeflow.org: a master and workers."""

    spec: _PyTorchJobSpec

    def pods(self) -> Iterator[Pods]:
        for each in self.spec.pytorch_replica_specs.values():
            yield each.template.pods(each.replicas)


class _Trainer(_Camel):
    num_nodes: int | None = None
    resources_per_node: _Resources = _Resources()


class _TrainJobSpec(BaseModel):
    trainer: _Trainer = _Trainer()


class TrainJob(Kind):
    """TrainJob of trainer.kubeflow.org; what it leaves out, another object says, its runtime."""

    spec: _TrainJobSpec

    def pods(self) -> Iterator[Pods]:
        trainer = self.spec.trainer
        yield Pods(trainer.num_nodes, trainer.resources_per_node.gpus)


KINDS: Mapping[tuple[str, str], type[Kind]] = {
    ("batch", "Job"): Job,
    ("jobset.x-k8s.io", "JobSet"): JobSet,
    ("kubeflow.org", "PyTorchJob"): PyTorchJob,
    ("trainer.kubeflow.org", "TrainJob"): TrainJob,
}
"""Kinds by group and name; versions of one kind agree on what is read."""


def _gpus(groups: Iterable[Pods]) -> int | None:
    """GPUs in all; None where no pod asks for one, or where their number is not known."""
    asking = [each for each in groups if each.gpus]
    if not asking or any(each.count is None for each in asking):
        return None
    return sum(each.gpus * (each.count or 0) for each in asking)


def _product(groups: Iterable[Pods]) -> str | None:
    """The product that all pods with GPUs ask for."""
    products = {each.product for each in groups if each.gpus}
    return products.pop() if len(products) == 1 else None
