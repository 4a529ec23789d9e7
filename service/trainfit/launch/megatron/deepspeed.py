"""Megatron-DeepSpeed: Megatron-LM's model under DeepSpeed's engine, whose config is a file.

Sources: bigscience-workshop/Megatron-DeepSpeed (megatron/arguments.py, megatron/model/gpt_model.py)
and microsoft/Megatron-DeepSpeed; DeepSpeed's runtime/bf16_optimizer.py and runtime/zero/
stage_1_and_2.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainfit.launch.documents import document_of
from trainfit.launch.draft import Draft, Reading
from trainfit.launch.effects import Effect
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.keys import table_of
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting, settings_of
from trainfit.launch.transformers.source import as_int
from trainfit.launch.values import whole

SHARDING = "/parallelism/data_parallel_sharding_strategy"
PRECISION = "/training/precision"
OFFLOADED = "/training/optimizer/cpu_offload_fraction"
BUCKET = 500_000_000
"""Elements of a bucket where the config does not say (runtime/zero/config.py)."""
BUCKETS = 3
"""Two to reduce gradients while the next fills, one to gather weights, each of 2 bytes."""
ACCUMULATES = "data_types.grad_accum_dtype"
"""With fp32 for weights in bf16, the first stage is the engine without one. Source: DeepSpeed's
runtime/engine.py (_do_optimizer_sanity_check)."""
WIDE = ("fp32", "float32")
READ = ("stage", "reduce_bucket_size", "allgather_bucket_size")


@dataclass(frozen=True, slots=True)
class DeepSpeedEngine:
    """What DeepSpeed does with the states: its stage and what says so; `bf16` is of its config."""

    stage: int
    switch: Setting
    setting: Setting
    bf16: bool
    bucket: int
    offloads: Setting | None


def engine_of(program: TrainingProgram, reading: Reading) -> DeepSpeedEngine | None:
    """The engine that --deepspeed switches on, if it does. Its file counts before --zero-stage,
    which says the same to Megatron-DeepSpeed itself. Raises LaunchError where that was not sent.
    """
    switch, path = reading.get("deepspeed"), reading.get("deepspeed_config")
    stage, offloads = reading.get("zero_stage"), reading.get("cpu_optimizer")
    for name in ("deepspeed_mpi", "deepspeed_activation_checkpointing", "no_pipeline_parallel"):
        reading.get(name)
    if switch is None or not reading.value("deepspeed"):
        return None
    if path is None:
        setting = stage or switch
        return DeepSpeedEngine(
            reading.value("zero_stage", 0, whole), switch, setting, False, BUCKET, offloads
        )
    file = program.file(str(path.value))
    if file is None:
        raise LaunchError(Complaint.at(path, f"names {path.value}; send that file too"))
    config = Reading(settings_of(document_of(file, ".json"), file.path), reading.draft)
    return _engine(config, switch, stage or path, offloads)


def _engine(
    config: Reading, switch: Setting, setting: Setting, offloads: Setting | None
) -> DeepSpeedEngine:
    """What the file says; sizes of a batch are Megatron's own."""
    zero = {name: _size(config, f"zero_optimization.{name}") for name in READ}
    config.get("zero_optimization.overlap_comm")
    for key in ("train_batch_size", "train_micro_batch_size_per_gpu"):
        config.get(key)
    config.get("gradient_accumulation_steps")
    half = config.value("bf16.enabled") or config.value("bfloat16.enabled")
    config.get("fp16.enabled")
    device = config.get("zero_optimization.offload_optimizer.device")
    config.get("zero_optimization.contiguous_gradients")
    if device is not None and device.value not in (None, "none"):
        offloads = device
    stage = zero["stage"]
    accumulates = config.settings.get(ACCUMULATES)
    if half and stage <= 1 and accumulates is not None and str(accumulates.value) in WIDE:
        config.get(ACCUMULATES)
        stage = 0
    config.close(table_of("trainfit.launch.deepspeed"))
    bucket = max(zero[name] or BUCKET for name in READ[1:])
    said = config.settings.get("zero_optimization.stage", setting)
    return DeepSpeedEngine(stage, switch, said, bool(half), bucket, offloads)


def _size(config: Reading, key: str) -> int:
    """A number of the file, which may be written as 5e8; 0 where it says none."""
    setting = config.get(key)
    if setting is None or setting.value in ("auto", None):
        return 0
    number = as_int(setting.value)
    if number is None:
        config.draft.complain(setting, f"{setting.value!r} is no whole number")
    return number or 0


def put_engine(draft: Draft, engine: DeepSpeedEngine) -> None:
    """Set what data-parallel ranks share out. In bf16 the engine without a stage shares states out
    too, and accumulates in fp32; from stage 1 on gradients have the type of the weights.
    """
    if engine.stage >= 3:
        why = "weights that ZeRO shards beside Megatron's parallelism are not modelled"
        draft.leave_out(engine.setting, why)
        return
    precision = draft.get(PRECISION)
    if engine.stage > 0 and precision == "bf16":
        narrow = {"gradients": "bf16", "main_params": "fp32"}
        draft.put(PRECISION, narrow, engine.setting)
    shares = engine.stage > 0 or engine.bf16
    draft.put(SHARDING, "optim" if shares else "no_shard", engine.setting)
    if engine.offloads is not None:
        draft.put(OFFLOADED, 1.0, engine.offloads)
    if shares:
        _leave_out_buffers(draft, engine)
    if engine.stage == 2:
        within = {SHARDING: "optim_grads_params"}
        draft.leave_out(engine.switch, Effect(SHARES_GRADIENTS, "lowers", STAGES, within))


SHARES_GRADIENTS = "gradients that ZeRO shards too are priced as whole"
STAGES = "DeepSpeed's runtime/zero/stage_1_and_2.py"


def _leave_out_buffers(draft: Draft, engine: DeepSpeedEngine) -> None:
    """Beside the states: buckets, and what a micro-batch or a step makes of gradients in another
    type, which is no more than what is shared out of the states.
    """
    effect = Effect(
        "buckets of gradients and weights, and copies of gradients in another type: at most three "
        "buckets, and what a rank would hold of states that were not sharded",
        "raises",
        f"{STAGES}, runtime/bf16_optimizer.py",
        within={SHARDING: "no_shard"},
        bytes=2 * BUCKETS * engine.bucket,
    )
    draft.leave_out(engine.setting, effect)
