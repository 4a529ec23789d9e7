"""Objects of Kubernetes and compose files that start a training program."""

from __future__ import annotations

import pytest

from tests.launch.commands.programs import command_line, launch, num_gpus, program
from trainfit.launch.commands.unwrap import programs_of
from trainfit.launch.errors import LaunchError

SCRIPTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: scripts}
data:
  train.sh: |
    #!/bin/bash
    torchrun --nnodes $PET_NNODES --nproc_per_node $PET_NPROC_PER_NODE t.py --b ${B:-1} "$@"
---"""
PYTORCH_JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: llama}
spec:
  nprocPerNode: "8"
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template: &template
        spec:
          nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
          containers:
          - name: pytorch
            image: registry/train
            command: [bash, -lc]
            args: ["cd /w && bash /scripts/train.sh --layers $(LAYERS)"]
            env:
            - {name: LAYERS, value: "32"}
            - {name: TOKEN, valueFrom: {secretKeyRef: {name: a, key: b}}}
            resources: {limits: {nvidia.com/gpu: 8}}
    Worker:
      replicas: 3
      template: *template
"""
TRAIN_JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: llama}
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    numNodes: 2
    resourcesPerNode: {limits: {nvidia.com/gpu: 4}}
    command: [torchrun, t.py]
    args: [--lr=1]
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: one}
spec:
  parallelism: 2
  template:
    spec:
      containers:
      - name: train
        command: ["python", "-m", "torch.distributed.run"]
        args: ["--nnodes=2", "--nproc_per_node=auto", "t.py", "--secret", "$(TOKEN)"]
        env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: a, key: b}}}]
        resources: {requests: {nvidia.com/gpu: 8}}
      - name: logs
        command: [fluentd]
"""
JOB_SET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
spec:
  replicatedJobs:
  - name: driver
    template: {spec: {template: {spec: {containers: [{name: d, command: [wait]}]}}}}
  - name: node
    replicas: 2
    template:
      spec:
        parallelism: 2
        template:
          spec:
            containers:
            - command: [sh, -c, "torchrun --nnodes 4 --nproc_per_node 8 t.py"]
              resources: {limits: {nvidia.com/gpu: 8}}
"""


def test_a_job_of_kubeflow_starts_a_script_of_a_config_map() -> None:
    found = program(job_yaml=SCRIPTS + PYTORCH_JOB)
    assert (command_line(found), num_gpus(found)) == ("t.py --b 1 --layers 32", 32)
    assert found.allocation.gpu is not None
    assert found.allocation.gpu.value == "NVIDIA-H100-80GB-HBM3"
    assert found.environment["TOKEN"].unknown == "its value is in the cluster; give it in env"
    assert found.environment["WORLD_SIZE"].value == "32"
    assert {each.key for each in found.irrelevant} >= {"metadata.name", "kind"}
    assert command_line(program(env={"B": "7"}, job_yaml=SCRIPTS + PYTORCH_JOB)).startswith(
        "t.py --b 7"
    )


def test_a_train_job_has_the_gpus_of_its_nodes() -> None:
    found = program(job_yaml=TRAIN_JOB)
    assert (command_line(found), num_gpus(found)) == ("t.py --lr=1", 8)
    assert [(each.key, each.line) for each in found.num_gpus] == [
        ("spec.trainer.resourcesPerNode", 9),
        ("PET_NNODES", 8),
    ]


def test_every_command_of_a_pod_is_seen_and_a_secret_is_unknown() -> None:
    training, logs = programs_of(launch(job_yml=JOB)).programs
    assert num_gpus(training) == 16
    assert training.arguments[1].text == "${TOKEN}"
    assert training.arguments[1].unknown is not None
    assert (training.arguments[0].file, training.arguments[0].line) == ("job.yml", 12)
    assert logs.name == "fluentd"


def test_pods_without_gpus_beside_those_that_train_are_left_out() -> None:
    found = program(set_yaml=JOB_SET)
    assert (command_line(found), num_gpus(found)) == ("t.py", 32)
    nodes = found.allocation.nodes
    assert nodes is not None
    assert (nodes.key, nodes.value) == ("spec.replicatedJobs.1.replicas", 4)


def test_a_manifest_that_does_not_read_like_its_kind_is_refused_at_its_line() -> None:
    with pytest.raises(LaunchError, match=r"job\.yaml:8: spec\.trainer\.numNodes: "):
        programs_of(launch(job_yaml=TRAIN_JOB.replace("numNodes: 2", "numNodes: many")))


def test_a_template_has_the_variables_that_are_given() -> None:
    template = PYTORCH_JOB.replace("replicas: 1", "replicas: $NODES", 1)
    with pytest.raises(LaunchError, match=r"\$NODES is not known; give it in env"):
        programs_of(launch(job_yaml=template))
    found = program(env={"NODES": "1"}, job_yaml=SCRIPTS + template)
    assert (command_line(found), num_gpus(found)) == ("t.py --b 1 --layers 32", 32)


def test_a_manifest_without_a_command_says_so() -> None:
    bare = TRAIN_JOB.replace("command: [torchrun, t.py]\n", "").replace("args: [--lr=1]\n", "")
    (note,) = programs_of(launch(job_yaml=bare)).notes
    assert note.message == (
        "job.yaml:3: has a TrainJob with no command that is read; give the command in argv"
    )


COMPOSE = """
services:
  board: {image: tensorboard}
  train:
    image: train
    environment:
      NGPU: 4
      HF_TOKEN:
    command: >
      torchrun --nproc_per_node ${NGPU} t.py
      --lr 1
    deploy:
      resources: {reservations: {devices: [{count: 4, capabilities: [gpu]}]}}
"""
IN_A_SHELL = COMPOSE.replace("HF_TOKEN:", "X: 2").replace(
    """command: >
      torchrun --nproc_per_node ${NGPU} t.py
      --lr 1
""",
    'command: [bash, -c, "torchrun --nproc_per_node gpu t.py $$X ${Y:-3}"]\n',
)


def test_a_service_of_compose_is_a_program() -> None:
    found = program(compose_yaml=COMPOSE)
    assert (command_line(found), num_gpus(found)) == ("t.py --lr 1", 4)
    assert found.environment["HF_TOKEN"].unknown is not None
    keys = {each.key for each in found.irrelevant}
    assert "services.train.image" in keys
    assert "services.train.command" not in keys


def test_a_shell_in_compose_has_the_variables_of_its_service() -> None:
    found = program(compose_yaml=IN_A_SHELL)
    assert (command_line(found), num_gpus(found)) == ("t.py 2 3", 4)
    assert found.num_gpus[0].key.startswith("services.train.deploy.resources")


def test_words_that_compose_puts_variables_into_are_unknown() -> None:
    text = "services: {a: {image: b, command: [torchrun, t.py, '--lr=${LR}']}}"
    (word,) = program(compose_yaml=text).arguments
    assert word.unknown == "LR is put in by compose; write its value"


def test_other_documents_are_left_alone() -> None:
    found = program(config_yaml="base_model: x\nservices: none\n", broken_yaml="a: [")
    assert found.name is None


VOLCANO = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: llama}
spec:
  plugins: {svc: [], pytorch: ["--master=master", "--worker=worker"]}
  tasks:
  - name: master
    replicas: 1
    template: &template
      spec:
        containers:
        - command: [bash, -c, "torchrun --nnodes $WORLD_SIZE --nproc_per_node 8 t.py"]
          resources: {limits: {nvidia.com/gpu: 8}}
  - name: worker
    replicas: 3
    template: *template
"""
RAY_JOB = """
apiVersion: ray.io/v1
kind: RayJob
spec:
  entrypoint: python3 -m own.train nodes=2
  rayClusterSpec:
    headGroupSpec:
      template: {spec: {containers: [{name: head}]}}
    workerGroupSpecs:
    - replicas: 2
      template:
        spec: {containers: [{name: worker, resources: {limits: {nvidia.com/gpu: 8}}}]}
"""


def test_tasks_of_volcano_are_pods_of_one_run() -> None:
    found = program(job_yaml=VOLCANO)
    assert (command_line(found), num_gpus(found)) == ("t.py", 32)
    assert found.environment["VC_WORKER_NUM"].value == "3"
    assert found.environment["WORLD_SIZE"].line == 6


def test_a_job_of_ray_starts_its_entrypoint_with_the_ranks_that_it_asks_for() -> None:
    found = program(job_yaml=RAY_JOB)
    assert (command_line(found), found.num_gpus) == ("own.train nodes=2", ())
    nodes, gpus = found.allocation.nodes, found.allocation.gpus_per_node
    assert nodes is not None
    assert gpus is not None
    assert (nodes.value, gpus.value) == (2, 8)
    assert {each.line for each in found.arguments} == {5}


def test_gpus_that_are_no_whole_number_are_refused() -> None:
    text = (
        "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n      containers:\n"
        "      - {name: a, command: [python, t.py], resources: {limits: {nvidia.com/gpu: $(8}}}\n"
    )
    with pytest.raises(LaunchError, match=r"job\.yaml: resources: GPUs must be a whole number"):
        programs_of(launch(job_yaml=text))
