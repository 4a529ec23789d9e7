"""Every value that the caller left open, with where it comes from."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from trainfit.resolve.plan import Default, Layout, Origin
from trainfit.specs.job import Job
from trainfit.specs.part import Part


def resolved_defaults(job: Job, derived: dict[str, tuple[Any, Origin, str]]) -> tuple[Default, ...]:
    """Defaults of all parts of the job; `derived` has those that depend on other values."""
    found: dict[str, Default] = {}
    _collect(job, _explained(Job), "", found)
    for pointer, (value, origin, why) in derived.items():
        found[pointer] = Default(pointer, value, origin, why)
    return tuple([default for default in found.values() if default.value is not None])


def _collect(
    part: Part, fields: tuple[tuple[str, str], ...], path: str, found: dict[str, Default]
) -> None:
    """Add the part's defaults and those of its parts; a model has none to tell."""
    given = part.model_fields_set
    for name, why in fields:
        value = getattr(part, name)
        pointer = f"{path}/{name}"
        if isinstance(value, Part):
            if pointer != "/model":
                _collect(value, _explained(type(value)), pointer, found)
        elif name not in given:
            found[pointer] = Default(pointer, value, "framework", why)


@cache
def _explained(kind: type[Part]) -> tuple[tuple[str, str], ...]:
    """The fields of a part, each with what it means."""
    return tuple((name, field.description or "") for name, field in kind.model_fields.items())


def derived_layout(job: Job, layout: Layout) -> Iterator[tuple[str, Any, Origin, str]]:
    """The layout's values where the caller gave none."""
    given = job.parallelism
    if given.num_gpus is None:
        why = "the smallest multiple of tp * pp * cp and pp * ep * etp"
        yield "/parallelism/num_gpus", layout.num_gpus, "derived", why
    if given.etp is None:
        why = "Megatron takes tp where etp is unset; elsewhere experts are not split"
        yield "/parallelism/etp", layout.etp, "framework", why
    if given.vpp is None:
        yield "/parallelism/vpp", layout.vpp, "derived", "what the layer split says; else 1"
    if given.sequence_parallel is None:
        yield "/parallelism/sequence_parallel", layout.sequence_parallel, "derived", "tp > 1"
    if given.data_parallel_sharding_strategy is None:
        why = "what use_distributed_optimizer says; else what the framework usually does"
        yield "/parallelism/data_parallel_sharding_strategy", layout.sharding, "derived", why
    if given.pipeline_schedule is None:
        why = "interleaved where vpp > 1"
        yield "/parallelism/pipeline_schedule", layout.schedule, "derived", why
    if given.microbatch_group_size_per_vp_stage is None and layout.vpp > 1:
        pointer = "/parallelism/microbatch_group_size_per_vp_stage"
        yield pointer, layout.microbatch_group_size, "framework", "Megatron takes pp"
