"""ZeRO's buffers and what it keeps on the host, from DeepSpeed's config or accelerate's short form.

Source: DeepSpeed's runtime/zero/config.py and offload_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainfit.launch.settings import Setting
from trainfit.launch.transformers.run import TrainerRun
from trainfit.launch.transformers.source import TrainerSource, as_bool, as_int

SIZES = (
    "reduce_bucket_size",
    "allgather_bucket_size",
    "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold",
    "stage3_max_live_parameters",
)
SWITCHES = ("overlap_comm", "contiguous_gradients")
OFFLOADED = ("offload_optimizer", "offload_param")
LEGACY = {"offload_optimizer": "cpu_offload", "offload_param": "cpu_offload_param"}
AT = "/framework/deepspeed"
ZERO = "zero_optimization"

MARKS = (
    ZERO,
    "train_micro_batch_size_per_gpu",
    "train_batch_size",
)
"""Keys that a config of DeepSpeed has and no other file."""


def put_zero(run: TrainerRun) -> None:
    """Set ZeRO's buffers. An auto size stays what it is: the model decides it."""
    source = run.deepspeed
    if source is not None:
        for name in SIZES:
            _put_size(run, source, name)
        for name in SWITCHES:
            _put_switch(run, source, name)
    for name in OFFLOADED:
        _put_offload(run, source, name)


def _zero(source: TrainerSource, name: str) -> Setting | None:
    """A key of the section; those of stage 3 have a short name too."""
    short = name.removeprefix("stage3_")
    return source.get(f"{ZERO}.{name}") or source.get(f"{ZERO}.{short}")


def _put_size(run: TrainerRun, source: TrainerSource, name: str) -> None:
    setting = _zero(source, name)
    if setting is None:
        return
    if setting.value == "auto" and name in AUTOMATIC:
        run.draft.put(f"{AT}/{name}", "auto", setting)
    elif (number := as_int(setting.value)) is None:
        run.draft.complain(setting, f"{setting.value!r} is no number of elements")
    else:
        run.draft.put(f"{AT}/{name}", number, setting)


AUTOMATIC = (
    "reduce_bucket_size",
    "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold",
)
"""Sizes that transformers makes of the model's hidden size where they are auto."""


def _put_switch(run: TrainerRun, source: TrainerSource, name: str) -> None:
    setting = _zero(source, name)
    if setting is None:
        return
    value = as_bool(setting.value)
    if value is None:
        run.draft.complain(setting, f"{setting.value!r} is neither true nor false")
    else:
        run.draft.put(f"{AT}/{name}", value, setting)


def _put_offload(run: TrainerRun, source: TrainerSource | None, name: str) -> None:
    """The device, or the switch of old releases; where auto, accelerate's own."""
    setting = None
    if source is not None:
        setting = source.get(f"{ZERO}.{name}.device")
        switch = source.get(f"{ZERO}.{LEGACY[name]}")
        setting = setting or (switch if switch is not None and as_bool(switch.value) else None)
    if setting is None or setting.value == "auto":
        setting = run.accelerate.get(f"{name}_device") or setting
    if setting is None or str(setting.value).lower() in ("none", "auto"):
        return
    if name == "offload_param" and _stage(run, source) in (0, 1, 2):
        run.draft.ignore(setting)
    else:
        run.draft.put(f"{AT}/{name}", True, setting)


def _stage(run: TrainerRun, source: TrainerSource | None) -> int | None:
    """The stage, as far as it is said. Only the optimizer of stage 3 is given what is said of
    parameters' offload: DeepSpeed's runtime/engine.py (_configure_zero_optimizer).
    """
    setting = source.get(f"{ZERO}.stage") if source is not None else None
    setting = setting or run.accelerate.get("zero_stage")
    return None if setting is None else as_int(setting.value)


def is_config(keys: Mapping[str, object]) -> bool:
    """Whether these are the keys of a config of DeepSpeed."""
    return any(key in keys for key in MARKS) or isinstance(keys.get("bf16"), dict)
