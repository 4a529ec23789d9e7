"""What NeMo's helper for benchmarks sets of a recipe.

Source: scripts/performance/helpers.py (set_primary_perf_configs) of NeMo 2.4 and 2.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from trainfit.launch.settings import Setting

HELPER = "set_primary_perf_configs"
ORDER = (
    "recipe",
    "task",
    "num_nodes",
    "num_gpus_per_node",
    "mbs",
    "gbs",
    "max_steps",
    "tp_size",
    "pp_size",
    "cp_size",
    "vp_size",
    "ep_size",
    "etp_size",
)
"""The parameters of the helper that are given by their place."""
COPIED: Mapping[str, str] = {
    "num_nodes": "trainer.num_nodes",
    "num_gpus_per_node": "trainer.devices",
    "max_steps": "trainer.max_steps",
    "mbs": "data.micro_batch_size",
    "gbs": "data.global_batch_size",
    "tp_size": "trainer.strategy.tensor_model_parallel_size",
    "pp_size": "trainer.strategy.pipeline_model_parallel_size",
    "cp_size": "trainer.strategy.context_parallel_size",
    "ep_size": "trainer.strategy.expert_model_parallel_size",
    "etp_size": "trainer.strategy.expert_tensor_parallel_size",
    "enable_cuda_graphs": "model.config.enable_cuda_graph",
    "recompute_modules": "model.config.recompute_modules",
    "nccl_communicator_config_path": "trainer.strategy.nccl_communicator_config_path",
    "use_sharp": "trainer.strategy.use_sharp",
    "use_te_act_func": "model.config.use_te_activation_func",
    "act_func_fp8_input_store": "model.config.activation_func_fp8_input_store",
    "use_te_op_fuser": "model.config.use_transformer_engine_op_fuser",
    "use_user_buffer_registration": "trainer.strategy.ddp.nccl_ub",
    "use_fsdp_double_buffer": "trainer.strategy.ddp.fsdp_double_buffer",
    "keep_fsdp_fp8_transpose_cache": "trainer.strategy.ddp.keep_fp8_transpose_cache",
}
FSDP: Mapping[str, Any] = {
    "trainer.strategy.fsdp": "megatron",
    "trainer.strategy.ddp.data_parallel_sharding_strategy": "optim_grads_params",
    "model.config.init_model_with_meta_device": True,
    "model.config.gradient_accumulation_fusion": False,
    "trainer.callbacks.MegatronCommOverlapCallback.defer_embedding_wgrad_compute": False,
}
FP8: Mapping[Any, Mapping[str, Any]] = {
    "ds": {"fp8_recipe": "delayed"},
    "cs": {"fp8_recipe": "tensorwise", "first_last_layers_bf16": False},
    "mxfp8": {"fp8_recipe": "mxfp8"},
    "ss": {"fp8_recipe": "blockwise", "fp8_param_gather": False},
}


def configured(given: Mapping[str, Setting]) -> Iterator[Setting]:
    """The settings of the recipe after the helper, by what it is given."""
    given = {name: each for name, each in given.items() if name not in ORDER[:2]}
    for name, setting in given.items():
        if name in COPIED:
            yield replace(setting, key=COPIED[name])
        elif name == "vp_size":
            key = "trainer.strategy.virtual_pipeline_model_parallel_size"
            yield replace(setting, key=key, value=None if setting.value == 1 else setting.value)
        elif name not in SWITCHES:
            yield replace(setting, key=f"{HELPER}.{name}")
    tensor = given.get("tp_size")
    if tensor is not None and tensor.unknown is None:
        sequence = isinstance(tensor.value, int) and tensor.value > 1
        yield replace(tensor, key="trainer.strategy.sequence_parallel", value=sequence)
    anything = next(iter(given.values()), None)
    if anything is not None:
        key = "model.config.cross_entropy_fusion_impl"
        yield replace(anything, key=key, value="te", unknown=None)
    yield from _sharded(given)
    yield from _recomputed(given)
    yield from _precision(given)


SWITCHES = (
    "use_mcore_fsdp",
    "compute_dtype",
    "fp8_recipe",
    "recompute_layers",
    "activation_offload_layers",
)


def _sharded(given: Mapping[str, Setting]) -> Iterator[Setting]:
    switch = given.get("use_mcore_fsdp")
    if switch is not None and (switch.value or switch.unknown):
        yield from (replace(switch, key=key, value=value) for key, value in FSDP.items())


def _recomputed(given: Mapping[str, Setting]) -> Iterator[Setting]:
    layers, offloaded = given.get("recompute_layers"), given.get("activation_offload_layers")
    if layers is not None and (layers.value or layers.unknown):
        said = {"granularity": "full", "method": "block", "num_layers": layers.value}
        for name, value in said.items():
            yield replace(layers, key=f"model.config.recompute_{name}", value=value)
    if offloaded is not None and (offloaded.value or offloaded.unknown):
        yield replace(offloaded, key="model.config.cpu_offloading", value=True)
        yield replace(offloaded, key="model.config.cpu_offloading_num_layers")


def _precision(given: Mapping[str, Setting]) -> Iterator[Setting]:
    """Gradients are reduced in bf16, and in bf16 the optimizer is given the types of its states."""
    dtype, recipe = given.get("compute_dtype"), given.get("fp8_recipe")
    if dtype is None or dtype.value is None:
        return
    name = str(dtype.value).lower()
    if name == "bf16":
        key = "optim.config.use_precision_aware_optimizer"
        yield replace(dtype, key=key, value=True)
    if name == "fp8":
        scaling = "ds" if recipe is None or recipe.value is None else str(recipe.value).lower()
        said = FP8.get(scaling)
        setting = dtype if recipe is None or recipe.value is None else recipe
        whole = {"precision": "bf16-mixed", "fp8": "hybrid", "fp8_param_gather": True}
        whole |= said if said is not None else {"fp8_recipe": scaling}
        for field, value in whole.items():
            yield replace(setting, key=f"trainer.plugins.{field}", value=value)
    yield replace(dtype, key="trainer.plugins.grad_reduce_in_fp32", value=False)
