"""Expert parallelism of transformers: DistributedConfig(fsdp_size=..., ep_size=...).

Experts are divided over ranks that FSDP2 shards all else over, and rows exchanged all to all.
Sources: transformers' distributed/configuration_utils.py, distributed/expert_parallel.py,
distributed/fsdp.py and the base_model_ep_plan of each configuration (5.23.0); accelerate knows
nothing of it.
"""

from trainfit.resolve.findings import Findings, put
from trainfit.resolve.plan import Layout
from trainfit.resolve.pytorch.plan import Engine
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.framework import Transformers
from trainfit.specs.job import Job


def check_expert_parallel(
    job: Job, model: ModelSpec, layout: Layout, engine: Engine, findings: Findings
) -> None:
    """What transformers does not run beside divided experts, and what of it is not modelled."""
    assert isinstance(job.framework, Transformers)
    strategy = "/parallelism/data_parallel_sharding_strategy"
    if engine in ("fsdp1", "deepspeed"):
        pointer = "/framework/data_parallel_engine"
        message = f"transformers divides experts beside FSDP2, not under {engine}"
        findings.add(pointer, "conflict", message, put(pointer, "fsdp2"))
    elif layout.sharding != "optim_grads_params":
        message = "transformers divides experts where FSDP2 shards all else"
        findings.add(strategy, "conflict", message, put(strategy, "optim_grads_params"))
    if not job.framework.reshard_after_forward:
        pointer = "/framework/reshard_after_forward"
        message = "transformers lets go of layers after their forward where it divides experts"
        findings.add(pointer, "conflict", message, put(pointer, True))
    if job.framework.experts_one_by_one:
        pointer = "/framework/experts_one_by_one"
        message = "transformers divides experts since 5.0, in grouped products"
        findings.add(pointer, "conflict", message, put(pointer, False))
    if layout.expert_dp % layout.replicas:
        pointer = "/parallelism/data_parallel_replicate_size"
        message = f"{layout.ep} ranks that share experts do not fit into a replica"
        findings.add(pointer, "replicas_not_divisible", message, put(pointer, 1))
    if not model.implementation.ep_plan:
        message = f"transformers has no plan that divides the experts of {model.model_type}"
        findings.add("/parallelism/ep", "conflict", message, put("/parallelism/ep", 1))
    _check_not_modelled(job, layout, findings)


def _check_not_modelled(job: Job, layout: Layout, findings: Findings) -> None:
    training = job.training
    for name in ("tp", "cp"):
        if getattr(layout, name) > 1:
            pointer = f"/parallelism/{name}"
            message = f"{name} with ep under transformers is not modelled"
            findings.add(pointer, "not_modelled", message, put(pointer, 1))
    if training.peft is not None:
        message = "adapters beside experts that transformers divides are not modelled"
        findings.add("/training/peft", "not_modelled", message, put("/training/peft", None))
    if training.recompute.granularity == "selective":
        pointer = "/training/recompute/granularity"
        message = "PyTorch does not run selective checkpointing around a unit of FSDP2 in a layer"
        findings.add(pointer, "conflict", message, put(pointer, "full"))
    if training.precision == "autocast-bf16":
        pointer = "/training/precision"
        message = "autocast with ep under transformers is not modelled"
        findings.add(pointer, "not_modelled", message, put(pointer, "bf16"))
