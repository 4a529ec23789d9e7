"""Who shares out what over which ranks: DeepSpeed, FSDP or DDP, and how many GPUs there are.

Sources: transformers' training_args.py (_process_fsdp_args), accelerate's commands/launch.py,
utils/dataclasses.py and parallelism_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Literal, NamedTuple

from trainfit.launch.effects import Effect
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.changes import FSDP2_BY_DEFAULT, HOLDS_BACK_FSDP2
from trainfit.launch.transformers.run import TrainerRun, is_trl, need
from trainfit.launch.transformers.source import as_bool, as_int
from trainfit.launch.transformers.wrapping import check_wrapping

Name = Literal["ddp", "fsdp1", "fsdp2", "deepspeed"]
ENGINE = "/framework/data_parallel_engine"
SHARDING = "/parallelism/data_parallel_sharding_strategy"
REPLICAS = "/parallelism/data_parallel_replicate_size"
RESHARD = "/framework/reshard_after_forward"
ON_THE_HOST = "/framework/offload_params"
REDUCES_EACH = "/framework/sync_each_micro_batch"
NUM_GPUS = "/parallelism/num_gpus"
RAY_WORKERS = "ray_num_workers"
"""Processes that Ray starts for LLaMA-Factory and axolotl, each with a GPU."""

STRATEGIES = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2")
"""accelerate takes their numbers, from 1, as well."""


class TrainerEngine(NamedTuple):
    """Who shares states out, and whether anything is shared out."""

    name: Name
    sharded: bool
    named: Setting | None


def put_num_gpus(run: TrainerRun, engine: TrainerEngine, *, filled: bool) -> int | None:
    """Set the number of GPUs: what the launcher is given, else accelerate's config, else what the
    environment says, else what sizes make. Without any of these it is one only where no launcher
    could start more.
    """
    draft, program = run.draft, run.program
    processes = run.accelerate.get("num_processes")
    run.accelerate.get("num_machines")
    workers = run.arguments.get(RAY_WORKERS)
    started = processes or workers
    counts = program.num_gpus or (() if started is None else (started,)) or _exported(program)
    if not counts and engine.name != "deepspeed":
        counts = _fixed_by_sizes(run, filled=filled)
    total = 1
    for setting in counts:
        if setting.unknown is not None:
            draft.put(NUM_GPUS, None, setting)
            return None
        count = as_int(setting.value)
        if count is None or count < 1:
            draft.complain(setting, f"{setting.value!r} is no number of GPUs")
            return None
        total *= count
    if counts and draft.get(NUM_GPUS) is None:
        draft.put(NUM_GPUS, total, *counts)
    elif engine.name == "ddp" and _starts_itself(program):
        _one_gpu(run)
    need(draft, NUM_GPUS, "nothing says on how many GPUs it runs")
    overridden = as_int(draft.overridden(NUM_GPUS))
    return overridden if overridden is not None else draft.get(NUM_GPUS)


def _exported(program: TrainingProgram) -> tuple[Setting, ...]:
    """The number of processes as the environment says it: torchrun's, or that of LLaMA-Factory."""
    environment = program.environment
    if world := environment.get("WORLD_SIZE"):
        return (world,)
    each_node, nodes = environment.get("NPROC_PER_NODE"), environment.get("NNODES")
    return () if each_node is None else (each_node,) if nodes is None else (each_node, nodes)


def _starts_itself(program: TrainingProgram) -> bool:
    """Whether the command is python's own; tools with one of their own start several processes."""
    return program.launcher is None and (program.name or "").endswith(".py")


def _one_gpu(run: TrainerRun) -> None:
    """Without a launcher one process runs; of several cards Trainer makes copies on each."""
    visible = run.program.environment.get("CUDA_VISIBLE_DEVICES")
    cards = visible or run.program.allocation.gpus_per_node
    if visible is not None:
        several = "," in str(visible.value)
    else:
        several = cards is not None and (as_int(cards.value) or 0) > 1
    if cards is not None and several:
        run.draft.leave_out(cards, "DataParallel over these cards is not modelled")
    run.draft.default(NUM_GPUS, 1, "one process without a launcher")


def put_engine(run: TrainerRun) -> TrainerEngine:
    """Set who shares out what. DeepSpeed's config counts before FSDP's."""
    engine = _deepspeed(run) or _fsdp(run) or _ddp(run)
    if engine.named is not None:
        run.draft.put(ENGINE, engine.name, engine.named)
    else:
        whose = "DeepSpeed's config" if engine.name == "deepspeed" else "a run without another"
        run.draft.default(ENGINE, engine.name, whose)
    return engine


UNTOLD = Effect(
    "nothing says who shares states out, so that every rank is priced with all of them: send the "
    "config of accelerate, or the command that starts it",
    "lowers",
    "huggingface/accelerate src/accelerate/commands/launch.py",
)


def leave_out_unknown_engine(run: TrainerRun, engine: TrainerEngine, num_gpus: int | None) -> None:
    """A config of TRL by itself is of no launcher, whose config may name FSDP or DeepSpeed."""
    known = engine.named is not None or engine.name != "ddp" or run.program.name is not None
    settled = any(run.draft.overridden(pointer) is not None for pointer in (ENGINE, SHARDING))
    model = run.arguments.settings.get("model_name_or_path")
    if known or settled or num_gpus == 1 or not is_trl(run) or model is None:
        return
    run.draft.leave_out(Setting("accelerate", None, model.file, model.line), UNTOLD)


def _is(run: TrainerRun, kind: str, flag: str) -> Setting | None:
    """The setting by which accelerate launches this kind of engine: its flag, else its config."""
    if run.accelerate.is_on(flag):
        return run.accelerate.get(flag)
    named = run.accelerate.get("distributed_type")
    return named if named is not None and run.accelerate.word("distributed_type") == kind else None


def _deepspeed(run: TrainerRun) -> TrainerEngine | None:
    named = run.arguments.get("deepspeed") or _is(run, "deepspeed", "use_deepspeed")
    if run.deepspeed is None and named is None:
        return None
    source = run.deepspeed
    if source is not None:
        stage = source.get("zero_optimization.stage")
        number = 0 if stage is None else as_int(stage.value)
        named = named or stage
        if stage is not None and stage.value == "auto":
            stage = run.accelerate.get("zero_stage")
            number = 2 if stage is None else as_int(stage.value)
    else:
        stage = run.accelerate.get("zero_stage")
        number = 2 if stage is None else as_int(stage.value)
    strategy = dict(enumerate(("no_shard", "optim", "optim_grads", "optim_grads_params"))).get(
        -1 if number is None else number
    )
    if strategy is None:
        assert stage is not None
        run.draft.complain(stage, f"{stage.value!r} is no stage of ZeRO: 0, 1, 2 or 3")
    elif stage is not None:
        run.draft.put(SHARDING, strategy, stage)
    else:
        whose = "DeepSpeed" if source is not None else "accelerate"
        run.draft.default(SHARDING, strategy, whose)
    return TrainerEngine("deepspeed", number != 0, named)


def _fsdp(run: TrainerRun) -> TrainerEngine | None:
    wanted = run.arguments.get("fsdp")
    launched = _is(run, "fsdp", "use_fsdp")
    options = [] if wanted is None else run.arguments.words("fsdp")
    if wanted is not None and as_bool(wanted.value) is not False and options:
        return _trainers_fsdp(run, wanted, options)
    if launched is not None:
        return _launched_fsdp(run, launched)
    return None


def _trainers_fsdp(run: TrainerRun, named: Setting, options: list[str]) -> TrainerEngine:
    """FSDP as TrainingArguments has it: `fsdp` names a strategy, or is a switch since release 5."""
    arguments, draft = run.arguments, run.draft
    given = _fsdp_key(run, "version")
    modern = run.releases.has(FSDP2_BY_DEFAULT)
    version = _version(run, given, "2" if modern else "1")
    strategy = next((each.upper() for each in options if each.upper() in STRATEGIES), "FULL_SHARD")
    reshard = _fsdp_key(run, "reshard_after_forward")
    if "offload" in options or _on(run, "cpu_offload") or _on(run, "offload_params"):
        draft.put(ON_THE_HOST, True, named)
    if _on(run, "xla"):
        draft.leave_out(named, "FSDP of XLA is not modelled")
    wraps = "auto_wrap" in options or modern or _fsdp_key(run, "transformer_layer_cls_to_wrap")
    policy = _fsdp_key(run, "auto_wrap_policy")
    if not wraps and policy is None:
        draft.leave_out(named, "without auto_wrap the whole model is one unit: not modelled")
    classes, least = (
        _fsdp_key(run, key) for key in ("transformer_layer_cls_to_wrap", "min_num_params")
    )
    check_wrapping(run, policy, classes, least)
    _fsdp_recompute(run, _fsdp_key(run, "activation_checkpointing"))
    arguments.get("fsdp_config")
    if version == "fsdp2" and reshard is None and strategy == "SHARD_GRAD_OP":
        draft.put(RESHARD, False, named)
    elif version == "fsdp2" and reshard is None and strategy != "FULL_SHARD":
        draft.complain(named, f"{strategy.lower()} goes with FSDP1: fsdp_config.version 1")
    return _sharded(run, version, named, strategy, named, reshard)


def _launched_fsdp(run: TrainerRun, named: Setting) -> TrainerEngine:
    """FSDP as accelerate launches it."""
    accelerate, draft = run.accelerate, run.draft
    version = _version(run, accelerate.get("fsdp_version"), "1")
    given = accelerate.get("fsdp_sharding_strategy")
    strategy = str(accelerate.value("fsdp_sharding_strategy", "FULL_SHARD")).upper()
    if strategy in map(str, range(1, len(STRATEGIES) + 1)):
        strategy = STRATEGIES[int(strategy) - 1]
    if accelerate.is_on("fsdp_offload_params"):
        offload = accelerate.get("fsdp_offload_params")
        assert offload is not None
        draft.put(ON_THE_HOST, True, offload)
    policy = accelerate.get("fsdp_auto_wrap_policy")
    if policy is None:
        draft.leave_out(
            named, "without fsdp_auto_wrap_policy the whole model is one unit: not modelled"
        )
    classes = accelerate.get("fsdp_transformer_layer_cls_to_wrap")
    check_wrapping(run, policy, classes, accelerate.get("fsdp_min_num_params"))
    _fsdp_recompute(run, accelerate.get("fsdp_activation_checkpointing"))
    reshard = accelerate.get("fsdp_reshard_after_forward")
    return _sharded(run, version, named, strategy, given or named, reshard)


def _fsdp_key(run: TrainerRun, key: str) -> Setting | None:
    """A key of TrainingArguments' fsdp_config, with or without the prefix that it may have."""
    return run.arguments.get(f"fsdp_config.{key}") or run.arguments.get(f"fsdp_config.fsdp_{key}")


def _on(run: TrainerRun, key: str) -> bool:
    setting = _fsdp_key(run, key)
    return setting is not None and as_bool(setting.value) is True


def _version(run: TrainerRun, setting: Setting | None, default: str) -> Literal["fsdp1", "fsdp2"]:
    value = default if setting is None else str(setting.value)
    if value not in ("1", "2"):
        assert setting is not None
        run.draft.complain(setting, f"{value!r} is no version of FSDP: 1 or 2")
    return "fsdp1" if value == "1" else "fsdp2"


def _sharded(
    run: TrainerRun,
    version: Literal["fsdp1", "fsdp2"],
    named: Setting,
    strategy: str,
    given: Setting,
    reshard: Setting | None,
) -> TrainerEngine:
    """What a strategy shares out. Weights are shared out between steps in all but NO_SHARD; those
    that keep them whole from a layer's forward to its backward do not reshard.
    """
    draft = run.draft
    if version == "fsdp2":
        if reshard is not None and (wanted := as_bool(reshard.value)) is not None:
            draft.put(RESHARD, wanted, reshard)
        elif strategy != "FULL_SHARD" and given is not named:
            draft.leave_out(given, "FSDP2 has fsdp_reshard_after_forward in its place")
        draft.put(SHARDING, "optim_grads_params", given)
        return TrainerEngine(version, True, named)
    if reshard is not None and as_bool(reshard.value) is None:
        strategy, given = str(reshard.value).upper(), reshard
    if strategy not in STRATEGIES:
        draft.complain(given, f"{strategy!r} is none of {', '.join(STRATEGIES)}")
        return TrainerEngine(version, True, named)
    if strategy == "NO_SHARD":
        draft.put(SHARDING, "no_shard", given)
        return TrainerEngine(version, False, named)
    draft.put(SHARDING, "optim_grads_params", given)
    if strategy in ("SHARD_GRAD_OP", "HYBRID_SHARD_ZERO2"):
        draft.put(RESHARD, False, given)
    if strategy.startswith("HYBRID"):
        machines = run.accelerate.get("num_machines")
        if machines is not None:
            draft.put(REPLICAS, machines.value, given, machines)
        message = "shards lie within a node; nothing says how many nodes there are"
        need(draft, REPLICAS, message, given)
    return TrainerEngine(version, True, named)


def _fsdp_recompute(run: TrainerRun, setting: Setting | None) -> None:
    if setting is not None and as_bool(setting.value):
        run.draft.put("/training/recompute/granularity", "full", setting)


def put_communication(run: TrainerRun, engine: TrainerEngine) -> None:
    """Set whether gradients are reduced after every micro-batch."""
    key = "accelerator_config.gradient_accumulation_kwargs.sync_each_batch"
    setting = run.arguments.get(key)
    if setting is not None:
        run.draft.put(REDUCES_EACH, as_bool(setting.value), setting)
    elif engine.name == "fsdp2" and not run.releases.has(HOLDS_BACK_FSDP2):
        run.draft.default(REDUCES_EACH, True, "accelerate before 1.11, under FSDP2")


def _ddp(run: TrainerRun) -> TrainerEngine:
    """Nothing is shared out, unless parallelism_config says so."""
    named = _is(run, "multi_gpu", "multi_gpu")
    other = run.accelerate.get("distributed_type")
    known = ("multi_gpu", "no", "false", "tp")
    if other is not None and run.accelerate.word("distributed_type") not in known:
        run.draft.leave_out(other, f"{other.value} is not modelled")
    return TrainerEngine("ddp", False, named)


SIZE = "parallelism_config_{}_size"
SIZES = ("dp_replicate", "dp_shard", "tp", "cp", "sp")
"""Sizes of accelerate's parallelism_config, whose product is the number of processes."""


def put_parallel_sizes(
    run: TrainerRun, engine: TrainerEngine, num_gpus: int | None, *, filled: bool
) -> None:
    """Set the sizes of parallelism_config, which goes with FSDP2. Complains of those that make
    another number of GPUs; `filled` says that ranks of which nothing is said are made replicas or
    shards, as axolotl does.
    """
    given = {name: run.accelerate.get(SIZE.format(name)) for name in SIZES}
    run.accelerate.is_on("use_parallelism_config")
    sizes = {name: as_int(each.value) for name, each in given.items() if each is not None}
    for name in ("tp", "cp"):
        if (setting := given[name]) is not None:
            run.draft.put(f"/parallelism/{name}", setting.value, setting)
    sequence = given["sp"]
    if sequence is not None and sizes["sp"] != 1 and engine.name == "deepspeed":
        run.draft.put("/parallelism/cp", sequence.value, sequence)
        run.draft.put("/parallelism/cp_comm_type", "a2a", sequence)
    elif sequence is not None and sizes["sp"] != 1:
        run.draft.leave_out(sequence, "Ulysses' sequence parallelism goes with DeepSpeed here")
    if engine.name != "deepspeed" and num_gpus is not None:
        for name, setting in given.items():
            if setting is not None and sizes[name] == 0:
                run.draft.complain(setting, "must be 1 or more")
        stated = {name: size for name, size in sizes.items() if size}
        if filled:
            stated = _filled(run, given, stated, engine, num_gpus)
        _check_product(run, given, stated, num_gpus)
    replicas = given["dp_replicate"]
    if replicas is not None and (not filled or sizes["dp_replicate"] != 1):
        run.draft.put(REPLICAS, replicas.value, replicas)


def _filled(
    run: TrainerRun,
    given: Mapping[str, Setting | None],
    sizes: Mapping[str, int],
    engine: TrainerEngine,
    num_gpus: int,
) -> dict[str, int]:
    """The sizes with what is left of the ranks: replicas of the shards that are asked for, shards
    where none are, or where nothing is shared out and no replicas are asked for, replicas.

    Source: axolotl's utils/distributed.py (_get_parallel_config_kwargs).
    """
    asked = {name: size for name, size in sizes.items() if size != 1}
    shards = given["dp_shard"]
    if "dp_shard" in asked and not engine.sharded and shards is not None:
        run.draft.complain(shards, "goes with FSDP, which nothing switches on: give fsdp_config")
        return {}
    count, rest = divmod(num_gpus, prod(asked.values()))
    if rest or count < 2 or {"dp_replicate", "dp_shard"} <= asked.keys():
        return asked
    if "dp_shard" in asked and shards is not None:
        run.draft.put(REPLICAS, count, shards)
        return asked | {"dp_replicate": count}
    if "dp_replicate" in asked and not engine.sharded:
        return asked
    return asked | {"dp_shard": count}


def _check_product(
    run: TrainerRun, given: Mapping[str, Setting | None], sizes: Mapping[str, int], num_gpus: int
) -> None:
    """Complain of sizes that do not make the number of GPUs. Where all are one, they say nothing.

    Source: accelerate's parallelism_config.py (_validate_accelerator).
    """
    product = prod(sizes.values())
    settings = [each for name in SIZES if (each := given[name]) is not None]
    if product > 1 and product != num_gpus and settings:
        listed = " x ".join(f"{each.key} {each.value}" for each in settings)
        message = f"{listed} make {product} GPUs, the run has {num_gpus}"
        run.draft.complain(settings[0], message)


def _fixed_by_sizes(run: TrainerRun, *, filled: bool) -> tuple[Setting, ...]:
    """The sizes whose product is the number of processes: those of accelerate where any is more
    than one, of axolotl where replicas and shards are stated.
    """
    given = {name: run.accelerate.get(SIZE.format(name)) for name in SIZES}
    settings = {name: each for name, each in given.items() if each is not None}
    if filled and not {"dp_replicate", "dp_shard"} <= settings.keys():
        return ()
    more = any(as_int(each.value) not in (None, 1) for each in settings.values())
    return tuple(settings.values()) if more else ()
