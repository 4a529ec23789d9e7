"""The engine that runs a plan's data parallelism."""

from trainfit.estimator.frameworks.pytorch.engines.ddp import Ddp
from trainfit.estimator.frameworks.pytorch.engines.deepspeed import (
    ZeroGradients,
    ZeroOptimizer,
    ZeroParameters,
)
from trainfit.estimator.frameworks.pytorch.engines.engine import Engine, Unsharded
from trainfit.estimator.frameworks.pytorch.engines.fsdp import Fsdp1, Fsdp2
from trainfit.resolve.pytorch.plan import PytorchPlan


def engine_of(plan: PytorchPlan) -> Engine:
    """The strategy by the engine's name and by what it shards."""
    policy, shards = plan.step.data_parallelism, plan.layout.sharding
    if policy.zero is not None:
        match shards:
            case "optim_grads":
                return ZeroGradients(plan, policy.zero)
            case "optim_grads_params":
                return ZeroParameters(plan, policy.zero)
            case _:
                return ZeroOptimizer(plan, policy.zero)
    if policy.engine == "ddp":
        return Ddp(plan)
    if shards in ("no_shard", "optim"):
        return Unsharded(plan)
    return Fsdp1(plan) if policy.engine == "fsdp1" else Fsdp2(plan)
