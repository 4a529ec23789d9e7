"""What a step can do to keep less, as a ladder: each rung keeps less than the one before, and takes
longer. Fields of training by their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainfit.decisions.candidates.candidate import Price
from trainfit.decisions.candidates.megatron import REMADE, not_remade
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Experts, LatentAttention, Mlp
from trainfit.specs.framework import Megatron, Nanotron, Torchtitan
from trainfit.specs.job import Job
from trainfit.specs.optimizers import OPTIMIZERS
from trainfit.specs.training import RecomputeModule

Rung = Mapping[str, Any]
"""Changes to `training`, its parts as mappings of what changes in them."""
NOTHING: Rung = {}


def ladder(job: Job, model: ModelSpec) -> list[Rung]:
    """What is left open of recompute and offload, from nothing to all that there is."""
    given = job.training.model_fields_set
    rungs = [NOTHING]
    if "recompute" not in given:
        rungs += [{"recompute": each} for each in _recompute(job, model)]
    last = rungs[-1]
    away = _offload(job)
    if away is not None:
        rungs.append({**last, **away})
    return rungs


def _recompute(job: Job, model: ModelSpec) -> Iterator[dict[str, Any]]:
    framework = job.framework
    if isinstance(framework, Megatron):
        yield from _modules(job, framework, model)
    elif isinstance(framework, Torchtitan):
        yield {"granularity": "selective"}
    if not isinstance(framework, Megatron | Nanotron):
        yield {"granularity": "full", "every_nth_layer": 2}
    yield {"granularity": "full"}


def _modules(job: Job, framework: Megatron, model: ModelSpec) -> Iterator[dict[str, Any]]:
    """Megatron's modules: those that cost hardly any time, and then the large ones beside them."""
    there = _modules_of(model) - set(not_remade(job, framework))
    cheap = [name for name, (price, _) in REMADE.items() if name in there and price is Price.SPEED]
    beside = [name for name in REMADE if name in there and name not in (*cheap, "moe")]
    # A layer of experts that runs again makes what its parts would.
    around = [name for name in (*cheap, *beside) if name not in WITHIN_MOE]
    everything = [*around, "moe"] if "moe" in there else []
    for modules in (cheap, [*cheap, *beside] if beside else [], everything):
        if modules:
            yield {"granularity": "selective", "modules": tuple(modules)}


WITHIN_MOE: tuple[RecomputeModule, ...] = ("moe_act", "shared_experts")


def _modules_of(model: ModelSpec) -> set[RecomputeModule]:
    """Modules that a model has."""
    found: set[RecomputeModule] = {"layernorm", "core_attn"}
    for block in model.blocks:
        match block:
            case LatentAttention():
                found.add("mla_up_proj")
            case Mlp():
                found.add("mlp")
            case Experts():
                found.update(("moe", "moe_act"))
                if block.shared_ffn is not None:
                    found.add("shared_experts")
            case _:
                pass
    return found


def _offload(job: Job) -> Rung | None:
    """The optimizer's states on the host under Megatron, activations elsewhere; None where the job
    says, or the framework has no such thing.
    """
    training, optimizer = job.training, job.training.optimizer
    if isinstance(job.framework, Megatron):
        said = {"cpu_offload_fraction", "precision_aware"} & optimizer.model_fields_set
        if said or not OPTIMIZERS[optimizer.name].precision_aware:
            return None
        return {"optimizer": {"precision_aware": True, "cpu_offload_fraction": 1.0}}
    if isinstance(job.framework, Nanotron) or "offload_activations" in training.model_fields_set:
        return None
    return {"offload_activations": True}
