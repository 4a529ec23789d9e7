"""What is said over a launch: it counts before what the launch says, and what cannot stand beside
it yields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainfit.launch.account import Replaced
from trainfit.launch.fields import named_as_fields

PARALLELISM = "/parallelism"
TRAINING = "/training"

RIVALS: Sequence[Sequence[str]] = (
    (f"{TRAINING}/num_microbatches", f"{TRAINING}/global_batch_size"),
    (
        f"{PARALLELISM}/use_distributed_optimizer",
        f"{PARALLELISM}/data_parallel_sharding_strategy",
    ),
    (f"{PARALLELISM}/vpp", f"{PARALLELISM}/num_layers_per_virtual_pipeline_stage"),
    ("/model/hf_id", "/model/hf_config", "/model/spec"),
)
"""Fields that say the same in different ways, so that a job has one of them."""

DEPENDENT: Mapping[str, Sequence[str]] = {
    "/model/hf_config": ("/model/revision",),
    "/model/spec": ("/model/revision",),
    f"{PARALLELISM}/pp": (f"{PARALLELISM}/pipeline_model_parallel_layout",),
    f"{PARALLELISM}/vpp": (f"{PARALLELISM}/pipeline_model_parallel_layout",),
    f"{PARALLELISM}/num_layers_per_virtual_pipeline_stage": (
        f"{PARALLELISM}/pipeline_model_parallel_layout",
    ),
    f"{PARALLELISM}/pipeline_model_parallel_layout": (
        f"{PARALLELISM}/num_layers_in_first_pipeline_stage",
        f"{PARALLELISM}/num_layers_in_last_pipeline_stage",
        f"{PARALLELISM}/account_for_embedding_in_pipeline_split",
        f"{PARALLELISM}/account_for_loss_in_pipeline_split",
    ),
    f"{TRAINING}/recompute/granularity": (
        f"{TRAINING}/recompute/method",
        f"{TRAINING}/recompute/num_layers",
        f"{TRAINING}/recompute/modules",
        f"{TRAINING}/recompute/distribute_saved_activations",
    ),
    f"{TRAINING}/optimizer/name": (
        f"{TRAINING}/optimizer/momentum",
        f"{TRAINING}/optimizer/paged",
    ),
    "/model/hf_id": ("/model/revision",),
}
"""Fields that hold for one value of another, so that they yield where that becomes another."""

KINDS: Mapping[str, str] = {
    "/framework/name": "/framework",
    f"{TRAINING}/peft/method": f"{TRAINING}/peft",
}
"""Fields that say what the part that they stand in is: of another kind nothing of it holds."""


def at(part: Any, pointer: str) -> Any:
    """The value at a pointer into a part of a job; None where there is none."""
    for name in pointer.strip("/").split("/"):
        part = part.get(name) if isinstance(part, Mapping) else None
    return part


def replaces(patch: Mapping[str, Any], pointer: str) -> bool:
    """Whether a merge patch sets the field, takes it away, or does so to what it is part of."""
    part: Any = patch
    for name in pointer.strip("/").split("/"):
        if not isinstance(part, Mapping):
            return True
        if name not in part:
            return False
        part = part[name]
    return True


def settles(patch: Mapping[str, Any], pointer: str) -> bool:
    """Whether a patch sets this field, or one that says the same in another way."""
    same = next((each for each in RIVALS if pointer in each), (pointer,))
    return any(at(patch, each) is not None for each in same)


def merged(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON Merge Patch (RFC 7396) applied: null takes a field away."""
    result = dict(target)
    for name, value in patch.items():
        before = result.get(name)
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = merged(before if isinstance(before, dict) else {}, value)
        else:
            result[name] = value
    return result


def overridden(
    job: Mapping[str, Any], overrides: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Replaced]]:
    """The job of a launch with overrides over it, and what of the launch they took the place of."""
    patch = named_as_fields(overrides)
    kept = dict(job)
    yielded = list(_yielding(job, patch))
    for each in yielded:
        kept = merged(kept, _taken_away(each.pointer))
    result = merged(kept, patch)
    changed = (
        Replaced(pointer, at(job, pointer), pointer)
        for pointer in _leaves(patch, "")
        if at(job, pointer) is not None and at(job, pointer) != at(patch, pointer)
    )
    return result, [*changed, *(each for each in yielded if not replaces(patch, each.pointer))]


def _yielding(job: Mapping[str, Any], patch: Mapping[str, Any]) -> Iterator[Replaced]:
    """What the launch says and overrides do not, and cannot stand beside what these say."""
    for pointer, part in KINDS.items():
        kind = at(patch, pointer)
        if kind is not None and at(job, part) is not None and at(job, pointer) != kind:
            yield Replaced(part, at(job, part), pointer)
    config = "/model/hf_config"
    if at(patch, f"{config}/model_type") is not None and at(job, config) is not None:
        yield Replaced(config, at(job, config), config)
    for fields in RIVALS:
        given = next((each for each in fields if at(patch, each) is not None), None)
        for each in fields:
            if given not in (None, each) and at(job, each) is not None:
                yield Replaced(each, at(job, each), str(given))
    for pointer, fields in DEPENDENT.items():
        given = at(patch, pointer)
        if given is not None and given != at(job, pointer):
            for each in fields:
                if at(job, each) is not None and not replaces(patch, each):
                    yield Replaced(each, at(job, each), pointer)


def _taken_away(pointer: str) -> dict[str, Any]:
    patch: Any = None
    for name in reversed(pointer.strip("/").split("/")):
        patch = {name: patch}
    return dict(patch)


def _leaves(part: Mapping[str, Any], parent: str) -> Iterator[str]:
    for name, value in part.items():
        pointer = f"{parent}/{name}"
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, pointer)
        else:
            yield pointer
