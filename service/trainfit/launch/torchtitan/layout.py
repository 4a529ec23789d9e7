"""Degrees of parallelism, what data-parallel ranks share, and the split over pipeline stages.

Sources: torchtitan's distributed/parallel_dims.py, distributed/pipeline.py (v0.1.0) and
distributed/pipeline_parallel.py (v0.2.2), parallelisms/pipelining_utils.py (9dec370).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import ceil, prod
from typing import NamedTuple

from trainfit.launch.torchtitan.keys import (
    MULTI_STAGE_SCHEDULES,
    ROTATE_METHODS,
    SINGLE_STAGE_SCHEDULES,
)
from trainfit.launch.torchtitan.run import TorchtitanRun
from trainfit.launch.torchtitan.written import is_started_by_script
from trainfit.launch.values import names, size, whole, word

SECTION = "parallelism"
SHARD = f"{SECTION}.data_parallel_shard_degree"
REPLICATE = f"{SECTION}.data_parallel_replicate_degree"
TENSOR = f"{SECTION}.tensor_parallel_degree"
CONTEXT = f"{SECTION}.context_parallel_degree"
PIPELINE = f"{SECTION}.pipeline_parallel_degree"
EXPERT = f"{SECTION}.expert_parallel_degree"
EXPERT_TENSOR = f"{SECTION}.expert_tensor_parallel_degree"
DEFAULT_GPUS = 8
"""NGPU of torchtitan's own scripts."""


class Degrees(NamedTuple):
    """Sizes of the groups of ranks."""

    replicate: int
    shard: int
    tp: int
    cp: int
    pp: int
    ep: int

    @property
    def dp(self) -> int:
        """Ranks that each read data of their own."""
        return self.replicate * self.shard

    @property
    def shards(self) -> bool:
        """Whether weights are shared out: context-parallel ranks do so as well."""
        return self.shard > 1 or self.cp > 1 or self.ep > 1


def read_layout(run: TorchtitanRun) -> Degrees:
    """Read all degrees but those of a pipeline's split."""
    value = run.reading.value
    tp, cp, pp, ep = (value(key, 1, size) for key in (TENSOR, CONTEXT, PIPELINE, EXPERT))
    replicate, shard = value(REPLICATE, 1, size), value(SHARD, -1, whole)
    rest = replicate * tp * cp * pp
    world = _world(run, rest, shard)
    if shard < 1:
        shard = max(1, world // rest)
    degrees = Degrees(replicate, shard, tp, cp, pp, ep)
    _share_out(run, degrees)
    _exchange_keys(run, degrees)
    return degrees


_PRESET = re.compile(r"\s*#.*\bpreset for (\d{1,5}) [\w-]+ GPUs\b")


def _noted(run: TorchtitanRun) -> tuple[int, str] | None:
    """The number of GPUs that torchtitan's own configs are presets for, as their first lines say,
    and where.
    """
    for path, file in run.program.files.items():
        if not path.endswith(".toml"):
            continue
        for number, line in enumerate(file.content.splitlines(), 1):
            if found := _PRESET.match(line):
                return int(found[1]), f"the note in {path}, line {number}: {line.strip(' #')[:80]}"
    return None


def _world(run: TorchtitanRun, rest: int, shard: int) -> int:
    """The number of GPUs. Where only the degrees tell, it is their product."""
    draft, pointer = run.draft, "/parallelism/num_gpus"
    environment = run.program.environment
    counts = list(run.program.num_gpus)
    if not counts and is_started_by_script(run.program):
        counts = [environment["NGPU"]] if "NGPU" in environment else []
        if not counts:
            draft.default(pointer, DEFAULT_GPUS, "torchtitan's script")
    if counts:
        try:
            draft.put(pointer, prod(size(each.value) for each in counts), *counts)
        except ValueError as error:
            draft.complain(counts[0], str(error), pointer)
    elif shard > 0 and draft.get(pointer) is None and draft.overridden(pointer) is None:
        run.decide(pointer, rest * shard, SHARD, REPLICATE, TENSOR, CONTEXT, PIPELINE)
    elif (noted := _noted(run)) is not None:
        draft.default(pointer, *noted)
    draft.require(
        pointer,
        "the number of GPUs is not said: give the command that starts them, "
        f"{SHARD}, or /parallelism/num_gpus in overrides",
    )
    world = draft.overridden(pointer) or draft.get(pointer) or rest
    if not isinstance(world, int):
        return rest
    given = run.given(SHARD, REPLICATE, TENSOR, CONTEXT, PIPELINE)
    fits = world % rest == 0 if shard < 1 else rest * shard == world
    if given and not fits:
        made = rest * max(1, shard)
        draft.complain(given[0], f"the degrees make {made} GPUs, the launch has {world}")
    return world


def runs_fsdp(run: TorchtitanRun, degrees: Degrees) -> bool:
    """Whether FSDP runs, be it to narrow weights alone."""
    return degrees.shards or run.release.always_fully_shards


def _share_out(run: TorchtitanRun, degrees: Degrees) -> None:
    """FSDP shares everything out, in groups where it is replicated; DDP and one GPU nothing, where
    a release has it so.
    """
    pointer = "/parallelism/data_parallel_sharding_strategy"
    if runs_fsdp(run, degrees):
        run.decide(pointer, "optim_grads_params", SHARD)
        if degrees.replicate > 1:
            run.draft.put(
                "/parallelism/data_parallel_replicate_size",
                degrees.replicate,
                *run.given(REPLICATE),
            )
        return
    run.decide(pointer, "no_shard", SHARD)
    if degrees.replicate > 1 and degrees.tp * degrees.pp > 1:
        message = "DDP runs beside no other parallelism; set data_parallel_shard_degree"
        run.draft.complain(run.given(REPLICATE)[0], message)


def divide_experts(run: TorchtitanRun, degrees: Degrees) -> None:
    """Divide experts over tensor-parallel ranks where they are not over ranks of their own."""
    if degrees.ep > 1:
        run.reading.copy(EXPERT_TENSOR, "/parallelism/etp")
    elif degrees.tp > 1:
        run.decide("/parallelism/etp", degrees.tp, TENSOR)


def _exchange_keys(run: TorchtitanRun, degrees: Degrees) -> None:
    key = f"{SECTION}.context_parallel_rotate_method"
    if degrees.cp == 1 and not run.given(key):
        return
    method = run.reading.value(key, "allgather", word)
    if method in ROTATE_METHODS:
        run.decide("/parallelism/cp_comm_type", ROTATE_METHODS[method], key)
    else:
        run.draft.complain(run.given(key)[0], f"must be one of {', '.join(ROTATE_METHODS)}")


SCHEDULES = {
    name.lower(): schedule
    for name, schedule in {**SINGLE_STAGE_SCHEDULES, **MULTI_STAGE_SCHEDULES}.items()
}
"""In small letters: PyTorch does not mind how a name is written (get_schedule_class)."""
SINGLE_STAGE = frozenset(SINGLE_STAGE_SCHEDULES.values())
SCHEDULE = f"{SECTION}.pipeline_parallel_schedule"
SPLIT_POINTS = f"{SECTION}.pipeline_parallel_split_points"
MODULES = f"{SECTION}.module_fqns_per_model_part"
PER_STAGE = f"{SECTION}.pipeline_parallel_layers_per_stage"
FIRST_LESS = f"{SECTION}.pipeline_parallel_first_stage_less_layers"
LAST_LESS = f"{SECTION}.pipeline_parallel_last_stage_less_layers"
SPLIT = (SPLIT_POINTS, MODULES, PER_STAGE, FIRST_LESS, LAST_LESS)


def read_pipeline(run: TorchtitanRun, pp: int, layers: int | None) -> None:
    """The schedule, and how many layers each stage has; `layers` is None where not known."""
    if pp == 1:
        run.idle.update((SCHEDULE, f"{SECTION}.pipeline_parallel_schedule_csv", *SPLIT))
        return
    name = run.reading.value(SCHEDULE, "1F1B", word)
    schedule = SCHEDULES.get(name.lower())
    if schedule is None:
        why = f"the schedule {name} is not modelled"
        for setting in run.given(SCHEDULE, *SPLIT):
            run.draft.leave_out(setting, why)
        return
    run.decide("/parallelism/pipeline_schedule", schedule, SCHEDULE)
    _split(run, pp, layers, 1 if schedule in SINGLE_STAGE else 2)


def _split(run: TorchtitanRun, pp: int, layers: int | None, stages_of_rank: int) -> None:
    """What the service does of itself is the default of releases that weigh both ends."""
    reading, given = run.reading, run.given(*SPLIT)
    ends = reading.value(FIRST_LESS, 1, whole), reading.value(LAST_LESS, 1, whole)
    points, modules = reading.value(SPLIT_POINTS, [], names), reading.value(MODULES)
    per_stage = reading.value(PER_STAGE)
    usual = not points and modules is None and per_stage is None and ends == (1, 1)
    if usual and run.release.weighs_ends:
        if stages_of_rank > 1:
            run.decide("/parallelism/vpp", stages_of_rank, SCHEDULE)
        return
    if layers is None:
        for setting in given:
            run.draft.leave_out(setting, "the number of layers is known of listed models only")
        return
    try:
        if modules is not None:
            counts = _counts_of_modules(modules)
        elif points:
            counts = _counts_between(points, layers)
        elif not run.release.weighs_ends:
            counts = _counts_of_2024(layers, pp * stages_of_rank)
        else:
            total = layers + sum(ends)
            stages = ceil(total / size(per_stage)) if per_stage else pp * stages_of_rank
            counts = _counts_weighed(total, stages, ends)
    except ValueError as error:
        message = f"the layers are not split over stages: {error}"
        run.draft.complain((given or run.given(PIPELINE))[0], message)
        return
    pointer = "/parallelism/pipeline_model_parallel_layout"
    run.draft.put(pointer, _layout(counts), *(given or run.given(PIPELINE)))


def _counts_weighed(total: int, stages: int, ends: tuple[int, int]) -> list[int]:
    """Even, embedding and head counted, with what is left over on the first stages."""
    if stages > total:
        raise ValueError(f"there are more stages ({stages}) than layers")
    each, more = divmod(total, stages)
    counts = [each + (stage < more) for stage in range(stages)]
    counts[0] -= ends[0]
    counts[-1] -= ends[1]
    if min(counts) < 0:
        raise ValueError("an end of the pipeline has fewer layers than it is to be lessened by")
    return counts


def _counts_of_2024(layers: int, stages: int) -> list[int]:
    """Even, with what is left over on the stages after the first, and the rest on the last."""
    if stages > layers:
        raise ValueError(f"there are more stages ({stages}) than layers")
    each, more = divmod(layers, stages)
    counts = [each, *(each + (stage <= more) for stage in range(1, stages - 1))]
    return [*counts, layers - sum(counts)]


def _counts_between(points: Sequence[str], layers: int) -> list[int]:
    starts = [0]
    for point in points:
        found = re.fullmatch(r"layers\.(\d{1,4})", point)
        if found is None:
            raise ValueError(f"{point} is not the name of a layer")
        starts.append(int(found[1]))
    ends = [*starts[1:], layers]
    counts = [end - start for start, end in zip(starts, ends, strict=True)]
    if min(counts) < 0:
        raise ValueError("the points are not in order")
    return counts


def _counts_of_modules(modules: object) -> list[int]:
    """Layers of each part; the embedding stands in the first and the head in the last."""
    parts = modules if isinstance(modules, list) else []
    if not parts or not all(isinstance(part, list) for part in parts):
        raise ValueError("must be a list of lists of names")
    if "tok_embeddings" not in parts[0] or "output" not in parts[-1]:
        raise ValueError("tok_embeddings has to be in the first part and output in the last")
    return [sum(str(name).startswith("layers.") for name in part) for part in parts]


def _layout(counts: Sequence[int]) -> str:
    """Megatron's layout string: E embedding, t a layer, L head and loss."""
    return f"E{'|'.join(f't*{count}' if count else '' for count in counts)}L"
