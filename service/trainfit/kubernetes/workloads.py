"""What training jobs ask of a cluster: how many GPUs, of which product, and what they run there.

Each model describes just as much of its kind as leads to the pods and their commands.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

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
    """What an object asks for. Of a kind that is not read here, nothing is known, nor of one that
    does not read like its kind, as the API server has validated it.
    """
    read = KINDS.get((group, kind))
    if read is None:
        return Workload()
    try:
        groups = list(read.model_validate(document).pods())
        return Workload(_gpus(groups), _product(groups))
    except ValueError:  # a ValidationError, or a quantity that is no whole number
        return Workload()


Path = tuple[str | int, ...]
"""Where a part of an object stands in it."""


class _Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)


class EnvVar(_Camel):
    """A variable of the environment; `value_from` names what in the cluster has its value."""

    name: str
    value: str | None = None
    value_from: Any = None


class _Resources(BaseModel):
    limits: dict[str, str | int] = {}
    requests: dict[str, str | int] = {}

    @property
    def gpus(self) -> int:
        """Requests of GPUs must equal their limits, and either may stand alone."""
        asked = {**self.requests, **self.limits}
        return sum(int(number) for name, number in asked.items() if GPU_RESOURCE.fullmatch(name))


class Container(BaseModel):
    """What runs in a pod; its image says the command where none is given."""

    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    resources: _Resources = _Resources()


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods that are alike. `count` is None where the object leaves it to something else.

    `containers` stand by their places; `counted_at`, `asked_at` and `product_at` are where the
    count, the GPUs and the product stand.
    """

    count: int | None
    gpus: int
    product: str | None
    containers: Mapping[Path, Container]
    counted_at: Path
    asked_at: Path
    product_at: Path


class Kind(_Camel, ABC):
    """An object that leads to pods."""

    @abstractmethod
    def pods(self) -> Iterator[Pods]:
        """Its pods, those that are alike together."""

    starts_ranks: ClassVar[bool] = True
    """Whether each GPU of its pods has a rank of what they run; Ray's program asks for its own."""

    def variables(self) -> Mapping[str, tuple[str, Path]]:
        """What its operator sets in every pod, with the place of what it is set from."""
        return {}


class _PodSpec(_Camel):
    containers: tuple[Container, ...]
    node_selector: dict[str, str] = {}


class _PodTemplate(BaseModel):
    spec: _PodSpec

    def pods(self, count: int, at: Path, counted_at: Path) -> Pods:
        spec = (*at, "spec")
        containers = {
            (*spec, "containers", index): each for index, each in enumerate(self.spec.containers)
        }
        asking = [place for place, each in containers.items() if each.resources.gpus]
        return Pods(
            count,
            sum(each.resources.gpus for each in self.spec.containers),
            self.spec.node_selector.get(PRODUCT_LABEL),
            containers,
            counted_at,
            asked_at=(*asking[0], "resources") if asking else spec,
            product_at=(*spec, "nodeSelector", PRODUCT_LABEL),
        )


class _JobSpec(BaseModel):
    template: _PodTemplate
    parallelism: int = 1
    completions: int | None = None

    def pods(self, at: Path, replicas: int = 1, counted_at: Path | None = None) -> Pods:
        """The pods that run at once: no more than are to be completed."""
        at_once = min(self.parallelism, self.completions or self.parallelism)
        counted_at = counted_at or (*at, "parallelism")
        return self.template.pods(replicas * at_once, (*at, "template"), counted_at)


class _JobTemplate(BaseModel):
    spec: _JobSpec


class BatchJob(Kind):
    """Job of batch."""

    spec: _JobSpec

    def pods(self) -> Iterator[Pods]:
        yield self.spec.pods(("spec",))


class _ReplicatedJob(BaseModel):
    template: _JobTemplate
    replicas: int = 1


class _JobSetSpec(_Camel):
    replicated_jobs: tuple[_ReplicatedJob, ...]


class JobSet(Kind):
    """JobSet of jobset.x-k8s.io: several Jobs, each in several replicas."""

    spec: _JobSetSpec

    def pods(self) -> Iterator[Pods]:
        for index, each in enumerate(self.spec.replicated_jobs):
            at = ("spec", "replicatedJobs", index)
            counted_at = (*at, "replicas") if each.replicas > 1 else None
            yield each.template.spec.pods((*at, "template", "spec"), each.replicas, counted_at)


class _Replicas(BaseModel):
    template: _PodTemplate
    replicas: int = 1


class _PyTorchJobSpec(_Camel):
    pytorch_replica_specs: dict[str, _Replicas]
    nproc_per_node: int | str = "auto"
    elastic_policy: Any = None


class PyTorchJob(Kind):
    """PyTorchJob of kubeflow.org: a master and workers."""

    spec: _PyTorchJobSpec

    def pods(self) -> Iterator[Pods]:
        for role, each in self.spec.pytorch_replica_specs.items():
            at = ("spec", "pytorchReplicaSpecs", role)
            yield each.template.pods(each.replicas, (*at, "template"), (*at, "replicas"))

    def variables(self) -> Mapping[str, tuple[str, Path]]:
        """The variables of torchrun, as setPodEnv of the training operator sets them in release
        1.9.
        """
        if self.spec.elastic_policy is not None:
            return {}
        roles = self.spec.pytorch_replica_specs
        total = sum(each.replicas for each in roles.values())
        each, at = str(self.spec.nproc_per_node), ("spec", "nprocPerNode")
        nodes = str(total), ("spec", "pytorchReplicaSpecs", next(iter(roles), ""), "replicas")
        world = total * int(each) if each.isdecimal() else total
        of_master = {"PET_NPROC_PER_NODE": (each, at), "WORLD_SIZE": (str(world), at)}
        return {"PET_NNODES": nodes, **(of_master if "Master" in roles else {})}


class _Trainer(_Camel):
    num_nodes: int | None = None
    num_proc_per_node: int | str = "auto"
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    resources_per_node: _Resources = _Resources()


class _TrainJobSpec(BaseModel):
    trainer: _Trainer = _Trainer()


class TrainJob(Kind):
    """TrainJob of trainer.kubeflow.org; what it leaves out, another object says, its runtime."""

    spec: _TrainJobSpec

    def pods(self) -> Iterator[Pods]:
        trainer = self.spec.trainer
        container = Container(
            command=trainer.command,
            args=trainer.args,
            env=trainer.env,
            resources=trainer.resources_per_node,
        )
        at = ("spec", "trainer")
        yield Pods(
            trainer.num_nodes,
            trainer.resources_per_node.gpus,
            None,
            {at: container},
            counted_at=(*at, "numNodes"),
            asked_at=(*at, "resourcesPerNode"),
            product_at=at,
        )

    def variables(self) -> Mapping[str, tuple[str, Path]]:
        """The variables of torchrun, as the torch plugin of Kubeflow Trainer 2 sets them."""
        trainer, at = self.spec.trainer, ("spec", "trainer")
        each = {"PET_NPROC_PER_NODE": (str(trainer.num_proc_per_node), (*at, "numProcPerNode"))}
        if trainer.num_nodes is None:
            return each
        return {"PET_NNODES": (str(trainer.num_nodes), (*at, "numNodes")), **each}


class _VolcanoTask(BaseModel):
    template: _PodTemplate
    name: str = ""
    replicas: int = 1


class _VolcanoSpec(BaseModel):
    tasks: tuple[_VolcanoTask, ...]
    plugins: dict[str, Any] = {}


class VolcanoJob(Kind):
    """Job of batch.volcano.sh: tasks, each in several replicas."""

    spec: _VolcanoSpec

    def pods(self) -> Iterator[Pods]:
        for index, each in enumerate(self.spec.tasks):
            at = ("spec", "tasks", index)
            yield each.template.pods(each.replicas, (*at, "template"), (*at, "replicas"))

    def variables(self) -> Mapping[str, tuple[str, Path]]:
        """The variables of Volcano's plugins svc and pytorch (pkg/controllers/job/plugins): how
        many pods a task has, and all of them together.
        """
        tasks = self.spec.tasks
        given: dict[str, tuple[str, Path]] = {}
        for index, each in enumerate(tasks):
            if "svc" in self.spec.plugins:
                name = f"VC_{each.name.upper().replace('-', '_')}_NUM"
                given[name] = (str(each.replicas), ("spec", "tasks", index, "replicas"))
        if "pytorch" in self.spec.plugins:
            total = str(sum(each.replicas for each in tasks))
            given["WORLD_SIZE"] = (total, ("spec", "plugins", "pytorch"))
        return given


class _RayGroup(BaseModel):
    template: _PodTemplate
    replicas: int = 1


class _RayClusterSpec(_Camel):
    head_group_spec: _RayGroup
    worker_group_specs: tuple[_RayGroup, ...] = ()
    enable_in_tree_autoscaling: bool = False

    def pods(self, at: Path) -> Iterator[Pods]:
        head = (*at, "headGroupSpec")
        yield self.head_group_spec.template.pods(1, (*head, "template"), head)
        for index, each in enumerate(self.worker_group_specs):
            place = (*at, "workerGroupSpecs", index)
            pods = each.template.pods(each.replicas, (*place, "template"), (*place, "replicas"))
            yield replace(pods, count=None) if self.enable_in_tree_autoscaling else pods


class RayCluster(Kind):
    """RayCluster of ray.io: a head and groups of workers."""

    starts_ranks = False
    spec: _RayClusterSpec

    def pods(self) -> Iterator[Pods]:
        yield from self.spec.pods(("spec",))


class _RayJobSpec(_Camel):
    ray_cluster_spec: _RayClusterSpec
    entrypoint: str = ""


class RayJob(Kind):
    """RayJob of ray.io: a cluster, and what a shell starts on its head."""

    starts_ranks = False
    spec: _RayJobSpec

    def pods(self) -> Iterator[Pods]:
        shell = Container(command=("bash", "-c", self.spec.entrypoint))
        for each in self.spec.ray_cluster_spec.pods(("spec", "rayClusterSpec")):
            yield replace(each, containers={("spec", "entrypoint"): shell})


KINDS: Mapping[tuple[str, str], type[Kind]] = {
    ("batch", "Job"): BatchJob,
    ("batch.volcano.sh", "Job"): VolcanoJob,
    ("ray.io", "RayCluster"): RayCluster,
    ("ray.io", "RayJob"): RayJob,
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
