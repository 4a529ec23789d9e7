"""Arguments of the data types in which a step computes and keeps its states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainfit.launch.draft import Reading
from trainfit.launch.megatron.options import Defaults
from trainfit.specs.precision import WIDE_LAYERS

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "bf16": {"gradients": "fp32", "main_params": "fp32"},
    "fp16": {"params": "fp16", "compute": "fp16", "gradients": "fp16", "main_params": "fp32"},
    "fp32": {"params": "fp32", "compute": "fp32", "gradients": "fp32", "main_params": "fp32"},
}
"""The data types of a job's presets under Megatron."""

GRADIENTS_OF_THEIR_OWN = "core_v0.19.0"
"""Since this release Megatron-FSDP keeps main gradients in the type of the parameters, whatever
--accumulate-allreduce-grads-in-fp32 and the default of bf16 say, unless it is given their type
(mcore_fsdp_adapter.py: MixedPrecisionPolicy)."""
LATER, EARLIER = (
    f"{GRADIENTS_OF_THEIR_OWN} and later, where Megatron-FSDP keeps gradients in the weights' type",
    f"releases before {GRADIENTS_OF_THEIR_OWN}, where Megatron-FSDP keeps them in fp32",
)


def read_precision(reading: Reading, defaults: Defaults) -> None:
    """bf16 accumulates gradients in fp32 unless told otherwise, fp16 in fp16."""
    pointer, draft = "/training/precision", reading.draft
    settings = [
        setting
        for name in (
            "fp8",
            "bf16",
            "fp16",
            "fp8_recipe",
            "fp8_param_gather",
            "accumulate_allreduce_grads_in_fp32",
            "grad_reduce_in_bf16",
            "main_grads_dtype",
            "megatron_fsdp_main_grads_dtype",
            "main_params_dtype",
            "fp4",
            "fp4_recipe",
            "fp4_param_gather",
            "reuse_grad_buf_for_mxfp8_param_ag",
            "fp8_dot_product_attention",
            "fp8_output_proj",
            "first_last_layers_bf16",
            "num_layers_at_start_in_bf16",
            "num_layers_at_end_in_bf16",
        )
        if (setting := reading.get(name)) is not None
    ]
    precision = _dtypes(reading)
    if shards_with_fsdp(reading):
        precision["gradients"] = _gradients_of_fsdp(reading, defaults, precision)
    if reading.value("fp8") is not None:
        precision["fp8_recipe"] = reading.value("fp8_recipe") or defaults.get("fp8_recipe")
        precision["fp8_param_gather"] = bool(reading.value("fp8_param_gather"))
    if precision.get("fp8_recipe") == "custom":
        draft.leave_out(reading.settings["fp8_recipe"], "a custom recipe is not modelled")
        del precision["fp8_recipe"]
    _read_narrow(reading, defaults, precision)
    preset = next((name for name, dtypes in PRESETS.items() if dtypes == precision), None)
    if settings:
        draft.put(pointer, preset or precision, *settings)
    else:
        draft.default(pointer, preset or precision, defaults.name)


def _read_narrow(reading: Reading, defaults: Defaults, precision: dict[str, Any]) -> None:
    """What of fp4, and of what else is in fp8, goes with a recipe, and which layers do not."""
    if reading.value("fp4") is not None:
        recipe = reading.value("fp4_recipe") or "nvfp4"
        if recipe == "nvfp4":
            precision["fp4_recipe"] = recipe
            precision["fp4_param_gather"] = bool(reading.value("fp4_param_gather"))
        else:
            reading.draft.leave_out(reading.settings["fp4_recipe"], "a custom recipe")
    if precision.get("fp8_recipe") == "mxfp8" and precision.get("fp8_param_gather"):
        reused = bool(reading.value("reuse_grad_buf_for_mxfp8_param_ag"))
        precision["reuse_grad_buf_for_mxfp8_param_ag"] = reused
    for name in ("fp8_dot_product_attention", "fp8_output_proj"):
        if precision.get("fp8_recipe") is not None and reading.value(name):
            precision[name] = True
    recipe = precision.get("fp8_recipe") or precision.get("fp4_recipe")
    if recipe is not None and reading.value("first_last_layers_bf16"):
        for name in WIDE_LAYERS:
            precision[name] = reading.value(name, defaults.get(name))


def _dtypes(reading: Reading) -> dict[str, Any]:
    """Without bf16 or fp16 weights are in fp32, and what linears in fp8 make as well."""
    held = next((dtype for dtype in ("bf16", "fp16") if reading.value(dtype)), "fp32")
    reduced = reading.value("grad_reduce_in_bf16") or reading.value("main_grads_dtype") == "bf16"
    gradients = held if held != "bf16" or reduced else "fp32"
    if reading.value("accumulate_allreduce_grads_in_fp32"):
        gradients = "fp32"
    main = reading.value("main_params_dtype") or "fp32"
    dtypes = {"gradients": gradients, "main_params": main}
    return dtypes if held == "bf16" else {"params": held, "compute": held} | dtypes


def shards_with_fsdp(reading: Reading) -> bool:
    """Whether Megatron-FSDP, which was called a custom one, shares out the states."""
    return bool(reading.value("use_megatron_fsdp") or reading.value("use_custom_fsdp"))


def _gradients_of_fsdp(reading: Reading, defaults: Defaults, precision: Mapping[str, Any]) -> str:
    """The type of the gradients that Megatron-FSDP keeps. `precision` is that of other optimizers;
    a release that is not named may be an earlier one, which goes by it where that is fp32.
    """
    held = str(precision.get("params", "bf16"))
    own = reading.value("megatron_fsdp_main_grads_dtype", "auto")
    later = held if own == "auto" else str(own)
    earlier = "fp32" if precision["gradients"] == "fp32" else later
    if later == earlier:
        return later
    if defaults.release is None:
        reading.draft.releases = reading.draft.fork.choose((LATER, EARLIER))
        return later if reading.draft.releases == LATER else earlier
    return earlier if defaults.before(GRADIENTS_OF_THEIR_OWN) else later
