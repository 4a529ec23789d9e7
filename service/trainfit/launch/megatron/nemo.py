"""NeMo 1's configs: `model` in names of its own, and `trainer` as PyTorch Lightning has it.

Source: examples/nlp/language_modeling/conf/megatron_gpt_config.yaml of NeMo up to 2.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from trainfit.launch.draft import Draft
from trainfit.launch.effects import Effect
from trainfit.launch.megatron.arguments import read_arguments
from trainfit.launch.megatron.configs import (
    Field,
    demand_dimensions,
    reading_of,
    without_idle_recompute,
)
from trainfit.launch.megatron.options import Defaults, MegatronParser
from trainfit.launch.settings import Setting
from trainfit.launch.values import WHOLE, size

RENAMED = {
    "activations_checkpoint_granularity": "recompute_granularity",
    "activations_checkpoint_method": "recompute_method",
    "activations_checkpoint_num_layers": "recompute_num_layers",
    "bias": "add_bias_linear",
    "bias_dropout_add_fusion": "bias_dropout_fusion",
    "encoder_seq_length": "seq_length",
    "fp8_params": "fp8_param_gather",
    "fsdp": "use_torch_fsdp2",
    "grad_allreduce_chunk_size_mb": "ddp_bucket_size",
    "grad_div_ar_fusion": "gradient_reduce_div_fusion",
    "mamba_ssm_ngroups": "mamba_num_groups",
    "override_vocab_size": "vocab_size",
    "qkv_bias": "add_qkv_bias",
    "num_micro_batches_with_partial_activation_checkpoints": (
        "num_microbatches_with_partial_activation_checkpoints"
    ),
    "rotary_percentage": "rotary_percent",
    "ub_tp_comm_overlap": "tp_comm_overlap",
    "use_flash_attention": "use_flash_attn",
}
"""Field of `model` -> argument or field of a dataclass, where the names differ."""
OPTIMIZER = {
    "average_in_collective": "average_in_collective",
    "bucket_cap_mb": "ddp_bucket_size",
    "check_for_nan_in_grad": "check_for_nan_in_grad",
    "ddp_bucket_size": "ddp_bucket_size",
    "num_distributed_optimizer_instances": "num_distributed_optimizer_instances",
    "overlap_grad_sync": "overlap_grad_reduce",
    "overlap_param_sync": "overlap_param_gather",
}
IRRELEVANT_OPTIMIZER = (
    "betas",
    "contiguous_grad_buffer",
    "contiguous_param_buffer",
    "eps",
    "lr",
    "sched",
    "weight_decay",
)
IRRELEVANT_SECTIONS = (
    "exp_manager",
    "run",
    "hydra",
    "cluster",
    "inference",
    "s3_checkpointing",
)
IRRELEVANT_TRAINER = frozenset(
    word
    for words in (
        """
        accelerator benchmark enable_checkpointing enable_model_summary enable_progress_bar
        gradient_clip_val limit_test_batches limit_train_batches limit_val_batches log_every_n_steps
        logger max_epochs max_steps max_time num_sanity_val_steps replace_sampler_ddp
        resume_from_checkpoint strategy use_distributed_sampler val_check_interval
        """,
    )
    for word in words.split()
)
IRRELEVANT_PARTS = ("data", "gc_interval", "nsys_profile", "optim", "tokenizer")
IRRELEVANT = frozenset(
    word
    for words in (
        """
        apex_transformer_log_level async_grad_allreduce attention_type contiguous_grad_bucket
        dist_ckpt_assume_constant_structure dist_ckpt_format dist_ckpt_parallel_dist_opt
        dist_ckpt_parallel_load
        dist_ckpt_load_on_device dist_ckpt_load_strictness dist_ckpt_parallel_save
        dist_ckpt_torch_dist_multiproc do_layer_norm_weight_decay enable_megatron_timers
        encoder_attn_mask_type fp8_e4m3 fp8_hybrid fsdp_grad_reduce_dtype fsdp_sharded_checkpoint
        fsdp_sharding_strategy gradient_as_bucket_view log_train_loss mcore_gpt
        megatron_timer_kwargs merges_file native_amp_growth_interval native_amp_init_scale
        normalize_attention_scores num_workers post_process pre_process precision reduce_amax
        restore_from_path resume_from_checkpoint scale_positional_embedding
        seq_len_interpolation_factor sharp sync_batch_comm tp_comm_atomic_ag tp_comm_atomic_rs
        ub_tp_comm_overlap_cfg use_emha use_mcore_dataset use_scaled_init_method use_te_rng_tracker
        validation_drop_last virtual_pipeline_model_parallel_overlap
        """,
    )
    for word in words.split()
)
"""Fields of `model` that do not change memory and have no name among Megatron's arguments."""

UNSUPPORTED = {
    "activations_checkpoint_layers_per_pipeline": "recompute that differs from stage to stage",
    "activations_checkpoint_recurrent": "recompute of some kinds of layers alone",
    "ffn_dropout": "dropout within the feed-forward network",
    "headscale": "a scale for each head",
    "megatron_legacy": "a model from before megatron-core",
    "transformer_block_type": "this order of norms",
}
"""What such a field is for; none of it is modelled."""
AT_DEFAULT: Mapping[str, tuple[Any, ...]] = {
    "activations_checkpoint_layers_per_pipeline": (0,),
    "activations_checkpoint_recurrent": (False,),
    "drop_path_rate": (0.0,),
    "ffn_dropout": (0.0,),
    "headscale": (False,),
    "mcore_customization_config.new_decoder_architecture": (False,),
    "mcore_customization_config.parallel_attention": (False,),
    "megatron_amp_O2": (True,),
    "megatron_legacy": (False,),
    "transformer_block_type": ("pre_ln",),
}
AUTOCAST = Effect(
    "without O2 weights, their gradients and what passes between layers are in fp32, and products "
    "are autocast",
    "either",
    "nemo/collections/nlp/parts/nlp_overrides.py, models/language_modeling/megatron_base_model.py",
    within={"/training/precision": "fp32"},
)
"""Nothing that a step keeps is wider than where all of it is in fp32."""
ACTIVATIONS = {
    "fast-swiglu": "swiglu",
    "fast-geglu": "geglu",
    "squared-relu": "squared_relu",
}
NORMS = {
    "layernorm": "LayerNorm",
    "layernorm1p": "LayerNorm",
    "low_precision_layernorm": "LayerNorm",
    "rmsnorm": "RMSNorm",
}
PRECISIONS = {"bf16": "bf16", "16": "fp16", "32": "fp32", "bf16-mixed": "bf16", "16-mixed": "fp16"}
DIFFERING: Mapping[str, Any] = {
    "create_attention_mask_in_dataloader": False,
    "data_parallel_sharding_strategy": "no_shard",
}


def is_nemo(settings: Mapping[str, Setting]) -> bool:
    """Whether a trainer of PyTorch Lightning stands beside the model."""
    return any(key.startswith("trainer.") for key in settings)


def read_nemo(settings: Mapping[str, Setting], draft: Draft) -> None:
    """Put such a config into a draft."""
    settings = {key: _resolved(key, each, settings) for key, each in settings.items()}
    _read_trainer(settings, draft)
    defaults = MegatronParser(None).defaults()
    nemo = Defaults("NeMo", {**defaults.values, **DIFFERING}, None)
    fields = list(without_idle_recompute(_fields(settings, draft), draft))
    demand_dimensions(fields, draft, "a config that was not sent")
    read_arguments(reading_of(fields, draft), nemo, hybrid=MAMBA in settings)


MAMBA = "model.mamba_ssm_ngroups"
"""What configs of megatron_mamba_pretraining.py have, and no others."""
_REFERENCE = re.compile(r"\$\{\.(\w+)\}")
_PRODUCT = re.compile(r"\$\{multiply:\s*(\w+)\s*,\s*(\w+)\s*\}")
_INTERPOLATION = "is worked out by OmegaConf; write the value, or give it as overrides"


def _resolved(key: str, setting: Setting, settings: Mapping[str, Setting]) -> Setting:
    """A setting with references to its neighbours and products of two numbers worked out; any
    other interpolation is not known.
    """
    text = setting.value
    if not isinstance(text, str) or "${" not in text:
        return setting
    section = key.rpartition(".")[0]
    text = _REFERENCE.sub(lambda found: _neighbour(found, section, settings), text)
    text = _PRODUCT.sub(_multiplied, text)
    return replace(setting, value=text, unknown=_INTERPOLATION if "${" in text else None)


def _neighbour(found: re.Match[str], section: str, settings: Mapping[str, Setting]) -> str:
    neighbour = settings.get(f"{section}.{found[1]}")
    return found[0] if neighbour is None else str(neighbour.value)


def _multiplied(found: re.Match[str]) -> str:
    factors = [number for number in found.groups() if WHOLE.fullmatch(number)]
    return str(prod(map(int, factors))) if len(factors) == 2 else found[0]


def _read_trainer(settings: Mapping[str, Setting], draft: Draft) -> None:
    counts = [settings[key] for key in ("trainer.devices", "trainer.num_nodes") if key in settings]
    try:
        if len(counts) == 2:
            gpus = prod(size(each.value) for each in counts)
            draft.put("/parallelism/num_gpus", gpus, *counts)
    except ValueError as error:
        draft.complain(counts[0], f"with num_nodes, {error}")


def _fields(settings: Mapping[str, Setting], draft: Draft) -> Iterator[Field]:
    for key, setting in settings.items():
        section, _, name = key.partition(".")
        if key in ("trainer.devices", "trainer.num_nodes"):
            draft.recognise(setting)
        elif key == "trainer.precision":
            yield from _precision(setting, draft)
        elif key.startswith("model.optim."):
            yield from _optimizer(name.removeprefix("optim."), setting, draft)
        elif _is_irrelevant(key, setting.value):
            draft.ignore(setting)
        elif section == "model":
            yield from _model_field(name, setting, draft)
        else:
            draft.leave_out(setting, "no list of this format has this key")


def _is_irrelevant(key: str, value: Any) -> bool:
    section, _, name = key.partition(".")
    part = name.partition(".")[0]
    if section == "trainer":
        return part in IRRELEVANT_TRAINER or (part, value) == ("accumulate_grad_batches", 1)
    if section == "model":
        return part in IRRELEVANT_PARTS
    return section in ("name", "defaults", "restore_from_path", *IRRELEVANT_SECTIONS)


def _model_field(name: str, setting: Setting, draft: Draft) -> Iterator[Field]:
    value = setting.value
    if name in IRRELEVANT or value in AT_DEFAULT.get(name, ()):
        draft.ignore(setting)
    elif name == "activation":
        yield Field("activation_func", setting, ACTIVATIONS.get(str(value), value))
    elif name == "normalization":
        yield Field(name, setting, NORMS.get(str(value), value))
    elif name == "transformer_engine" and value is not None:
        yield Field("transformer_impl", setting, "transformer_engine" if value else "local")
    elif name == "get_attention_mask_from_fusion" and value is not None:
        yield Field("create_attention_mask_in_dataloader", setting, not value)
    elif name == "fp8":
        yield Field(name, setting, "hybrid" if value else None)
    elif name == "megatron_amp_O2" and value is not None:
        draft.leave_out(setting, AUTOCAST)
    elif name in UNSUPPORTED and value is not None:
        draft.leave_out(setting, f"{UNSUPPORTED[name]} is not modelled")
    else:
        yield Field(RENAMED.get(name, name), setting, value)


def _precision(setting: Setting, draft: Draft) -> Iterator[Field]:
    name = PRECISIONS.get(str(setting.value))
    if name is None:
        draft.leave_out(setting, "this precision is not modelled")
    elif name == "fp32":
        draft.recognise(setting)
    else:
        yield Field(name, setting, True)


BUCKET_MB = 400
"""The largest that configs of NeMo ask for; without bucket_cap_mb Apex takes 100."""
APEX = Effect(
    "Apex's distributed optimizer is read as Megatron's own: it holds at most four buckets "
    "besides, and may share gradients out as soon as a bucket is full",
    "either",
    "nemo/core/optim/distributed_adam.py, apex/contrib/optimizers/distributed_fused_adam.py",
    within={"/parallelism/data_parallel_sharding_strategy": "optim_grads_params"},
    bytes=4 * BUCKET_MB * 2**20,
)


def _optimizer(name: str, setting: Setting, draft: Draft) -> Iterator[Field]:
    """The distributed optimizers share states out; that of Apex has buffers of its own."""
    value = setting.value
    if name == "name" and value in ("mcore_distributed_optim", "distributed_fused_adam"):
        yield Field("use_distributed_optimizer", setting, True)
        if value == "distributed_fused_adam":
            draft.leave_out(setting, APEX)
    elif name == "name" and value not in ("fused_adam", "adam", "adamw", "megatron_fused_adam"):
        draft.leave_out(setting, "this optimizer is not modelled")
    elif name == "name":
        draft.recognise(setting)
    elif name == "grad_sync_dtype" and value is not None:
        yield Field("grad_reduce_in_bf16", setting, value == "bf16")
    elif name in OPTIMIZER:
        yield Field(OPTIMIZER[name], setting, value)
    elif name.partition(".")[0] in IRRELEVANT_OPTIMIZER:
        draft.ignore(setting)
    else:
        draft.leave_out(setting, "no list of this format has this key")
