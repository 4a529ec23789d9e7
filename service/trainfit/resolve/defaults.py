"""Every value that the caller left open, with where it comes from."""

from collections.abc import Iterator
from typing import Any

from trainfit.resolve.plan import Default, Layout, Origin
from trainfit.specs.job import Job
from trainfit.specs.part import Part


def resolved_defaults(job: Job, derived: dict[str, tuple[Any, Origin, str]]) -> tuple[Default, ...]:
    """Defaults of all parts of the job; `derived` has those that depend on other values."""
    found = {default.pointer: default for default in _declared(job, "")}
    for pointer, (value, origin, why) in derived.items():
        found[pointer] = Default(pointer, value, origin, why)
    return tuple(default for default in found.values() if default.value is not None)


def _declared(part: Part, path: str) -> Iterator[Default]:
    for name, field in type(part).model_fields.items():
        value = getattr(part, name)
        pointer = f"{path}/{name}"
        if isinstance(value, Part) and not pointer.startswith("/model/"):
            yield from _declared(value, pointer)
        elif name not in part.model_fields_set and not pointer.startswith("/model/"):
            yield Default(pointer, value, "framework", field.description or "")


def derived_layout(job: Job, layout: Layout) -> Iterator[tuple[str, Any, Origin, str]]:
    """The layout's values where the caller gave none."""
    given = job.parallelism
    if given.num_gpus is None:
        why = "the smallest multiple of tp * pp * cp and pp * ep * etp"
        yield "/parallelism/num_gpus", layout.num_gpus, "derived", why
    if given.etp is None:
        yield "/parallelism/etp", layout.etp, "framework", "Megatron takes tp where etp is unset"
    if given.vpp is None:
        yield "/parallelism/vpp", layout.vpp, "derived", "what the layer split says; else 1"
    if given.sequence_parallel is None:
        yield "/parallelism/sequence_parallel", layout.sequence_parallel, "derived", "tp > 1"
    if given.data_parallel_sharding_strategy is None:
        why = "what use_distributed_optimizer says; else the distributed optimizer"
        yield "/parallelism/data_parallel_sharding_strategy", layout.sharding, "derived", why
    if given.pipeline_schedule is None:
        why = "interleaved where vpp > 1"
        yield "/parallelism/pipeline_schedule", layout.schedule, "derived", why
    if given.microbatch_group_size_per_vp_stage is None and layout.vpp > 1:
        pointer = "/parallelism/microbatch_group_size_per_vp_stage"
        yield pointer, layout.microbatch_group_size, "framework", "Megatron takes pp"
