"""A job -> DeepSpeed's config and the arguments beside it: what is read, the other way round."""

from __future__ import annotations

from typing import Any

from trainfit.launch.convert.transformers import engine_of, refuse, trainer_arguments
from trainfit.launch.deepspeed.zero import OFFLOADED, SIZES, SWITCHES
from trainfit.resolve.findings import Findings
from trainfit.resolve.layout import sharding_strategy
from trainfit.resolve.registry import conventions_of
from trainfit.specs.framework import Transformers
from trainfit.specs.job import Job

PATH = "ds_config.json"
STAGES = ("no_shard", "optim", "optim_grads", "optim_grads_params")


def deepspeed_arguments(job: Job) -> list[str]:
    """The arguments of TRL's SFT that go with the config. Read back together, on as many GPUs, they
    make the same plan. Raises RefusedError with a finding for every field that they cannot say.
    """
    findings = Findings()
    engine = engine_of(job, findings)
    if engine.name != "deepspeed":
        pointer = "/framework/data_parallel_engine"
        refuse(findings, pointer, f"{engine.name} is not DeepSpeed; write it for accelerate")
    words = trainer_arguments(job, engine, findings)
    for name in ("cp", "data_parallel_replicate_size"):
        if getattr(job.parallelism, name) != 1:
            refuse(findings, f"/parallelism/{name}", f"{name} under DeepSpeed is not modelled")
    findings.refuse()
    return [*words, "--deepspeed", PATH]


def deepspeed_config(job: Job) -> dict[str, Any]:
    """The config of a job that DeepSpeed runs: what the arguments say is auto."""
    findings = Findings()
    engine_of(job, findings)
    assert isinstance(job.framework, Transformers)
    options = job.framework.deepspeed
    strategy = sharding_strategy(job.parallelism, conventions_of(job), findings)
    zero: dict[str, Any] = {"stage": STAGES.index(strategy)}
    zero |= {name: getattr(options, name) for name in SIZES}
    zero |= {name: value for name in SWITCHES if (value := getattr(options, name)) is not None}
    zero |= {name: {"device": "cpu"} for name in OFFLOADED if getattr(options, name)}
    findings.refuse()
    tp = job.parallelism.tp
    return {
        "bf16": {"enabled": "auto"},
        "fp16": {"enabled": "auto"},
        "zero_optimization": zero,
        **({"tensor_parallel": {"autotp_size": tp}} if tp > 1 else {}),
        "zero_allow_untested_optimizer": True,
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "train_batch_size": "auto",
        "gradient_clipping": "auto",
    }
