"""Every value that the caller left open, with where it comes from."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic.fields import FieldInfo

from trainfit.resolve.plan import Default, Layout, Origin
from trainfit.specs.job import Job
from trainfit.specs.part import Part


def resolved_defaults(job: Job, derived: dict[str, tuple[Any, Origin, str]]) -> tuple[Default, ...]:
    """Defaults of all parts of the job; `derived` has those that depend on other values."""
    found: dict[str, Default] = {}
    _collect(job, Job, "", found)
    for pointer, (value, origin, why) in derived.items():
        found[pointer] = Default(pointer, value, origin, why)
    return tuple([default for default in found.values() if default.value is not None])


def _collect(part: Part, kind: type[Part], path: str, found: dict[str, Default]) -> None:
    """Add the part's defaults, as fields of this kind, and those of its parts; a model has none
    to tell.
    """
    given = part.model_fields_set
    for name, default in _fields(kind, path):
        if default is not None and name not in given:
            found[default.pointer] = default
            continue
        value = getattr(part, name)
        if isinstance(value, Part) and (path or name != "model"):
            _collect(value, type(value), f"{path}/{name}", found)


@cache
def _fields(kind: type[Part], path: str) -> tuple[tuple[str, Default | None], ...]:
    """The fields of a part at a path, each with what it is where it is left open. None stands for
    one that has to be given, or is a part itself.
    """
    return tuple(
        (name, _default(field, f"{path}/{name}")) for name, field in kind.model_fields.items()
    )


def _default(field: FieldInfo, pointer: str) -> Default | None:
    if field.is_required() or field.default_factory is not None:
        return None
    return Default(pointer, field.default, "framework", field.description or "")


def derived_layout(job: Job, layout: Layout) -> Iterator[tuple[str, Any, Origin, str]]:
    """The layout's values where the caller gave none."""
    given = job.parallelism
    if given.num_gpus is None:
        why = "the smallest multiple of tp * pp * cp and pp * ep * etp"
        yield "/parallelism/num_gpus", layout.num_gpus, "derived", why
    if given.etp is None:
        why = "tp under Megatron, and under torchtitan where ep is 1; else experts are not split"
        yield "/parallelism/etp", layout.etp, "framework", why
    if given.vpp is None:
        yield "/parallelism/vpp", layout.vpp, "derived", "what the layer split says; else 1"
    if given.sequence_parallel is None:
        why = "tp > 1, but not under DeepSpeed"
        yield "/parallelism/sequence_parallel", layout.sequence_parallel, "derived", why
    if given.data_parallel_sharding_strategy is None:
        why = "what use_distributed_optimizer says; else what the framework usually does"
        yield "/parallelism/data_parallel_sharding_strategy", layout.sharding, "derived", why
    if given.pipeline_schedule is None:
        why = "interleaved where vpp > 1"
        yield "/parallelism/pipeline_schedule", layout.schedule, "derived", why
    if given.microbatch_group_size_per_vp_stage is None and layout.vpp > 1:
        pointer = "/parallelism/microbatch_group_size_per_vp_stage"
        yield pointer, layout.microbatch_group_size, "framework", "Megatron takes pp"
