"""Every value that the caller left open, with where it comes from."""

from collections.abc import Iterator
from functools import cache
from math import ceil
from typing import Any

from pydantic.fields import FieldInfo

from trainfit.resolve.plan import Default, Layout, MicroBatches, Origin
from trainfit.specs.architecture import ModelSpec
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


def derived(
    job: Job, model: ModelSpec, layout: Layout, batch: MicroBatches, mtp_layers: int
) -> dict[str, tuple[Any, Origin, str]]:
    """What depends on other values of a job, under any framework."""
    found = {
        pointer: (value, origin, why)
        for pointer, value, origin, why in _derived_layout(job, layout)
    }
    training = job.training
    if training.num_microbatches is None:
        why = "enough to keep the pipeline full"
        if training.global_batch_size is not None:
            why = "global_batch_size / (micro_batch_size * dp)"
        elif batch.num_microbatches == 1:
            why = "no accumulation of gradients"
        found["/training/num_microbatches"] = (batch.num_microbatches, "derived", why)
    fitted = batch.seq_length == learned_positions(model)
    if "seq_length" not in training.model_fields_set and fitted:
        why = "the positions that the model has learned"
        found["/training/seq_length"] = (batch.seq_length, "config", why)
    if training.mtp is None and model.mtp is not None:
        value = {"num_layers": mtp_layers}
        found["/training/mtp"] = (value, "config", "the depths that the config declares")
    return found


def learned_positions(model: ModelSpec) -> int | None:
    """Tokens that a model has learned positions of; None where positions are computed."""
    rows = model.embedding.position_rows
    return min(rows, model.max_position_embeddings or rows) or None


def padded_vocabulary(rows: int, multiple: int, tp: int) -> int:
    """V rounded up to a multiple of make_vocab_size_divisible_by * tp.

    Sources: vocab_size_with_padding of Megatron-LM and of nanotron's helpers.py.
    """
    return ceil(rows / (multiple * tp)) * multiple * tp


def _derived_layout(job: Job, layout: Layout) -> Iterator[tuple[str, Any, Origin, str]]:
    """The layout's values where the caller gave none."""
    given = job.parallelism
    if given.num_gpus is None:
        why = "the smallest multiple of tp * pp * cp and pp * ep * etp"
        yield "/parallelism/num_gpus", layout.num_gpus, "derived", why
    if given.etp is None:
        why = "tp under Megatron, and under torchtitan where ep is 1; else experts are not split"
        yield "/parallelism/etp", layout.etp, "framework", why
    if given.vpp is None:
        why = "what the layer split says; else 1"
        yield "/parallelism/vpp", layout.pipeline.vpp, "derived", why
    if given.sequence_parallel is None:
        why = "tp > 1, but not under DeepSpeed"
        yield "/parallelism/sequence_parallel", layout.sequence_parallel, "derived", why
    if given.data_parallel_sharding_strategy is None:
        why = "what use_distributed_optimizer says; else what the framework usually does"
        yield "/parallelism/data_parallel_sharding_strategy", layout.sharding, "derived", why
    if given.pipeline_schedule is None:
        why = "interleaved where vpp > 1"
        yield "/parallelism/pipeline_schedule", layout.pipeline.schedule, "derived", why
    if given.microbatch_group_size_per_vp_stage is None and layout.pipeline.vpp > 1:
        pointer = "/parallelism/microbatch_group_size_per_vp_stage"
        yield pointer, layout.pipeline.microbatch_group_size, "framework", "Megatron takes pp"
