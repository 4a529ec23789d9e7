"""Fields of Megatron's config dataclasses, as files set them -> arguments.

A file has values of YAML where a command line has flags and text, and for some things the name of
a dataclass's field where Megatron-LM's namespace has another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from trainfit.launch.draft import Draft, Reading
from trainfit.launch.megatron.dimensions import is_of_the_hub
from trainfit.launch.megatron.known import VALUE_IRRELEVANT
from trainfit.launch.megatron.options import Option, releases
from trainfit.launch.settings import Setting
from trainfit.launch.values import flag, size, whole

RENAMED = {
    "average_in_collective": "ddp_average_in_collective",
    "bucket_size": "ddp_bucket_size",
    "check_for_nan_in_grad": "check_for_nan_in_loss_and_grad",
    "fp4_param": "fp4_param_gather",
    "fp8_param": "fp8_param_gather",
    "num_buckets": "ddp_num_buckets",
    "num_layers_in_first_pipeline_stage": "decoder_first_pipeline_num_layers",
    "num_layers_in_last_pipeline_stage": "decoder_last_pipeline_num_layers",
    "num_moe_experts": "num_experts",
    "pad_buckets_for_high_nccl_busbw": "ddp_pad_buckets_for_high_nccl_busbw",
    "param_name_patterns_for_fp32_local_accumulation": (
        "ddp_param_name_patterns_for_fp32_local_accumulation"
    ),
    "reduce_scatter_with_fp32_accumulation": "ddp_reduce_scatter_with_fp32_accumulation",
    "should_pad_vocab": "pad_vocab_size",
    "virtual_pipeline_model_parallel_size": "num_virtual_stages_per_pipeline_rank",
}
"""Field of a dataclass -> name in the namespace."""

OPPOSITES = {
    "grad_reduce_in_fp32": "grad_reduce_in_bf16",
    "persist_layer_norm": "no_persist_layer_norm",
    "share_embeddings_and_output_weights": "untie_embeddings_and_output_weights",
}
"""Field of a dataclass -> the name in the namespace that says the opposite."""

BUFFERS_IN_FP32 = "accumulate_allreduce_grads_in_fp32"
"""What decides the type of buffers of gradients. Of arguments it follows from others; a dataclass
says it, and its main_grads_dtype, which megatron-core only compares with other fields
(optimizer_config.py), changes nothing.
"""

ACTIVATIONS = {
    "gelu": {},
    "silu": {},
    "swiglu": {"swiglu": True},
    "squared_relu": {"squared_relu": True},
    "squaredrelu": {"squared_relu": True},
    "quick_gelu": {},
    "geglu": {"quick_geglu": True},
}
"""Last name of an activation function -> arguments that say it."""
GATED = {
    "geglu": "quick_geglu",
    "quick_gelu": "quick_geglu",
    "silu": "swiglu",
    "swiglu": "swiglu",
}
"""Activation function -> the argument that says it has a gate."""

DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "half": "fp16", "float": "fp32"}
_DTYPE_ARGUMENTS = ("exp_avg_dtype", "exp_avg_sq_dtype", "main_grads_dtype", "main_params_dtype")


LAYOUT = "pipeline_model_parallel_layout"
LAYERS = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
"""A kind of layer in a list of stages -> its letter in the text of a layout."""

MODULES = ("recompute_modules",)
RECOMPUTE = ("recompute_method", "recompute_num_layers", *MODULES)


class Field(NamedTuple):
    """A field of a dataclass, the setting that sets it, and to what."""

    name: str
    setting: Setting
    value: Any


def reading_of(fields: Iterable[Field], draft: Draft) -> Reading:
    """A reading of fields under the names of arguments, with values as a command line would have
    set them. What is null sets nothing, and of two the later counts.

    Complains of values of a wrong kind.
    """
    named: dict[str, Setting] = {}
    values: dict[str, Any] = {}
    for field, setting, said in fields:
        if said is None:
            draft.ignore(setting)
            continue
        dest = RENAMED.get(field) or OPPOSITES.get(field) or field
        if (before := named.get(dest)) not in (None, setting):
            draft.ignore(before)
        named[dest] = setting
        if setting.unknown is not None:
            continue
        try:
            value = said if dest in VALUE_IRRELEVANT else _value(dest, said)
        except ValueError as error:
            draft.complain(setting, str(error))
            del named[dest]
            continue
        values[dest] = not value if field in OPPOSITES else value
        if field == "grad_reduce_in_fp32":
            named[BUFFERS_IN_FP32], values[BUFFERS_IN_FP32] = setting, value
    _say_activation(named, values, draft)
    if (groups := named.get("num_query_groups")) is not None:
        named["group_query_attention"], values["group_query_attention"] = groups, True
    return Reading(named, draft, values)


def without_idle_recompute(fields: Iterable[Field], draft: Draft) -> Iterator[Field]:
    """Fields without those of a recompute that no granularity switches on, and without modules
    where whole layers are made again: a dataclass ignores what a command line refuses
    (transformer_config.py of megatron-core, NeMo's transformer.py).
    """
    listed = list(fields)
    granularity = [each.value for each in listed if each.name == "recompute_granularity"]
    off = not granularity or granularity[-1] is None
    idle = RECOMPUTE if off else MODULES if granularity[-1] == "full" else ()
    for each in listed:
        if each.name in idle:
            draft.ignore(each.setting)
        else:
            yield each


WITHIN_A_REPLICA = tuple(
    f"{name}_parallel_size" for name in ("tensor_model", "pipeline_model", "context")
)


def sizes_within(settings: Mapping[str, Setting], section: str) -> dict[str, int]:
    """How many ranks share a replica of the model, each way, by the keys of a `section`. A size
    that is none, or not known, is taken for one: it is complained of where it is read.
    """
    return {name: _size(settings.get(f"{section}.{name}")) for name in WITHIN_A_REPLICA}


def _size(setting: Setting | None) -> int:
    try:
        return 1 if setting is None or setting.unknown is not None else size(setting.value)
    except ValueError:
        return 1


def demand_dimensions(fields: Iterable[Field], draft: Draft, base: str) -> None:
    """Complain where overrides of a base that is not read leave the model's dimensions to it."""
    given = {field.name for field in fields if field.value is not None}
    dimensions = ("num_layers", "hidden_size", "num_attention_heads")
    missing = [f"model.{name}" for name in dimensions if name not in given]
    if missing and not is_of_the_hub(draft):
        message = (
            f"{', '.join(missing)} would come from {base}, which is not read; give them, "
            "or give /model/hf_id in overrides"
        )
        draft.require("/model/spec/num_layers", message)


def is_argument(field: str) -> bool:
    """Whether Megatron has an argument for a field of this name."""
    return field in RENAMED or field in OPPOSITES or field in _options()


def _value(dest: str, value: Any) -> Any:
    """A value in the type of its argument. Raises ValueError."""
    option = _options().get(dest)
    flags = (*OPPOSITES.values(), "deallocate_pipeline_outputs")
    if dest in flags or (option is not None and option.takes == 0):
        return flag(value)
    if dest in _DTYPE_ARGUMENTS:
        name = str(value).rpartition(".")[2]
        return DTYPES.get(name, name)
    if option is None or dest in ("moe_layer_freq", "window_attn_skip_freq", "window_size"):
        return value
    if dest == LAYOUT and isinstance(value, list):
        return _layout(value)
    if option.takes == 1:
        return _one(option, value)
    return [_one(option, each) for each in (value if isinstance(value, list) else [value])]


def _layout(stages: list[Any]) -> str:
    """The lists of a layout, one for each stage, as their text. Raises ValueError."""
    try:
        return "|".join("".join(LAYERS[str(each)] for each in stage) for stage in stages)
    except (KeyError, TypeError):
        kinds = ", ".join(LAYERS)
        raise ValueError(f"must be a text, or for each stage a list of {kinds}") from None


def _one(option: Option, value: Any) -> Any:
    """Raises ValueError for a value of another kind."""
    if option.type == "int":
        return whole(value)
    if option.type == "float":
        return _number(value)
    if option.type == "bool":
        return flag(value)
    if isinstance(value, dict | list):
        raise ValueError("must be one value")
    return value if isinstance(value, str) else str(value)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError("must be a number") from None


@cache
def _options() -> Mapping[str, Option]:
    """The latest shape of an option of each name."""
    return {shapes[-1].dest: shapes[-1] for shapes in releases().options.values()}


def _say_activation(named: dict[str, Setting], values: dict[str, Any], draft: Draft) -> None:
    """The activation function of a dataclass, with its gate, in arguments."""
    setting, gate = named.pop("activation_func", None), named.pop("gated_linear_unit", None)
    activation = values.pop("activation_func", None)
    gated = gate is not None and values.get("gated_linear_unit") in (True, "true", "True")
    if setting is None:
        if gate is not None and gated:
            draft.leave_out(gate, "the activation behind the gate is not said")
        elif gate is not None:
            draft.ignore(gate)
        return
    function = str(activation).rpartition(".")[2].casefold()
    if function not in ACTIVATIONS or (gated and function not in GATED):
        draft.leave_out(setting, "this activation is not modelled")
        return
    said = {GATED[function]: True} if gated else ACTIVATIONS[function]
    for name, value in said.items():
        named[name], values[name] = setting, value
    for each in (setting, gate):
        if each is not None:
            draft.recognise(each)
