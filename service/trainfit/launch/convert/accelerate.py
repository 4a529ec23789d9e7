"""A job -> accelerate's config and the arguments beside it: what is read, the other way round.

The buffers of DeepSpeed stand in a config of its own, which accelerate's names.
"""

from __future__ import annotations

from typing import Any

from trainfit.launch.convert.deepspeed import PATH as DEEPSPEED_PATH
from trainfit.launch.convert.transformers import engine_of, refuse, trainer_arguments
from trainfit.launch.transformers.engine import TrainerEngine
from trainfit.resolve.findings import Findings
from trainfit.resolve.layout import sharding_strategy, smallest_world
from trainfit.resolve.registry import conventions_of
from trainfit.specs.framework import Transformers
from trainfit.specs.job import Job

PATH = "accelerate.yaml"
KINDS = {"ddp": "MULTI_GPU", "fsdp1": "FSDP", "fsdp2": "FSDP", "deepspeed": "DEEPSPEED"}


def accelerate_arguments(job: Job) -> list[str]:
    """The arguments of TRL's SFT that go with the config. Read back together they make the same
    plan. Raises RefusedError with a finding for every field that they cannot say.
    """
    findings = Findings()
    engine = engine_of(job, findings)
    words = trainer_arguments(job, engine, findings)
    _check(job, engine, findings)
    findings.refuse()
    return words


def accelerate_config(job: Job) -> dict[str, Any]:
    """The config of a job. Raises RefusedError for another framework than transformers."""
    findings = Findings()
    engine = engine_of(job, findings)
    assert isinstance(job.framework, Transformers)
    given = job.parallelism
    world = given.num_gpus or smallest_world(given, given.etp or 1)
    config: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": KINDS[engine.name] if world > 1 or engine.name != "ddp" else "NO",
        "num_machines": 1,
        "num_processes": world,
    }
    if engine.name == "deepspeed":
        config["deepspeed_config"] = {"deepspeed_config_file": DEEPSPEED_PATH}
    if engine.name in ("fsdp1", "fsdp2"):
        config["fsdp_config"] = _fsdp(engine, job.framework)
    sizes = {
        "parallelism_config_tp_size": given.tp,
        "parallelism_config_cp_size": given.cp,
        "parallelism_config_dp_replicate_size": given.data_parallel_replicate_size,
    }
    if engine.name == "fsdp2" and set(sizes.values()) != {1}:
        shards = max(1, world // (given.tp * given.cp * given.data_parallel_replicate_size))
        sizes["parallelism_config_dp_shard_size"] = shards
        config["parallelism_config"] = sizes
    findings.refuse()
    return config


def _fsdp(engine: TrainerEngine, framework: Transformers) -> dict[str, Any]:
    wraps: dict[str, Any] = {"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP"}
    if framework.offload_params:
        wraps["fsdp_offload_params"] = True
    if engine.name == "fsdp2":
        reshards = framework.reshard_after_forward
        return {"fsdp_version": 2, "fsdp_reshard_after_forward": reshards, **wraps}
    strategy = "NO_SHARD"
    if engine.sharded:
        strategy = "FULL_SHARD" if framework.reshard_after_forward else "SHARD_GRAD_OP"
    return {"fsdp_version": 1, "fsdp_sharding_strategy": strategy, **wraps}


def _check(job: Job, engine: TrainerEngine, findings: Findings) -> None:
    """What no engine of accelerate does, and what only FSDP2 does."""
    given = job.parallelism
    strategy = sharding_strategy(job.parallelism, conventions_of(job), findings)
    pointer = "/parallelism/data_parallel_sharding_strategy"
    if engine.name in ("fsdp1", "fsdp2") and strategy not in ("optim_grads_params", "no_shard"):
        message = "FSDP shares weights out; reshard_after_forward keeps them for the backward"
        refuse(findings, pointer, message)
    if engine.name == "fsdp2" and strategy == "no_shard":
        refuse(findings, pointer, "FSDP2 shards; DDP does not")
    divided = ("cp", "data_parallel_replicate_size")
    for name in divided if engine.name == "deepspeed" else ("tp", *divided):
        if getattr(given, name) != 1 and engine.name != "fsdp2":
            message = f"{name} goes with FSDP2 here"
            refuse(findings, f"/parallelism/{name}", message)
    if given.sequence_parallel is False and given.tp > 1 and engine.name != "deepspeed":
        pointer = "/parallelism/sequence_parallel"
        refuse(findings, pointer, "no key of accelerate says it")
