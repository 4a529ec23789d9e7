"""What becomes of each key of torchtune's recipes.

Sources: recipes/{full,lora}_finetune_{single_device,distributed}.py and recipes/configs at v0.4.0
to v0.6.1 and bd2a0fc (2026-04-23). Keys that decide together are in no table: `read` asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainfit.specs.optimizers import choices

COPIED: Mapping[str, str] = {
    "batch_size": "/training/micro_batch_size",
    "gradient_accumulation_steps": "/training/num_microbatches",
    "optimizer_in_bwd": "/training/optimizer/in_backward",
    "enable_activation_offloading": "/training/offload_activations",
    "fsdp_reshard_after_forward": "/framework/reshard_after_forward",
    "tensor_parallel_dim": "/parallelism/tp",
    "context_parallel_dim": "/parallelism/cp",
}

PRECISIONS: Mapping[str, str] = {"bf16": "bf16-pure", "fp32": "fp32"}
"""dtype -> that of weights, gradients, moments and activations."""

OPTIMIZERS = choices("torchtune")

LOSSES: Mapping[str, str] = {
    "torch.nn.CrossEntropyLoss": "unfused",
    "torchtune.modules.loss.CEWithChunkedOutputLoss": "fused",
    "torchtune.modules.loss.LinearCrossEntropyLoss": "fused",
}
"""A compiled loss of chunks keeps the logits as they are, and backward reaches the head when the
gradients of all chunks are there."""
CHUNKED = "fused"

ATTENTION_MODULES: Mapping[str, str] = {
    "q_proj": "q_proj",
    "k_proj": "k_proj",
    "v_proj": "v_proj",
    "output_proj": "o_proj",
}
MLP_MODULES = ("gate_proj", "up_proj", "down_proj")
HEAD_MODULE = "lm_head"
"""torchtune's names of linears that get adapters -> transformers'."""

RECIPES = (
    "full_finetune_single_device",
    "full_finetune_distributed",
    "lora_finetune_single_device",
    "lora_finetune_distributed",
)
OTHER_RECIPES: Mapping[str, str] = {
    "dpo": "a reference model beside the one that is trained is not modelled",
    "knowledge_distillation": "a teacher beside the model that is trained is not modelled",
    "ppo": "policy, value and reward models on one card are not modelled",
    "grpo": "policy and reference models on one card are not modelled",
    "qat": "fake quantisation keeps tensors that are not modelled",
    "early_exit": "losses of early layers are not modelled",
    "generate": "trains nothing",
    "eval": "trains nothing",
    "quantize": "trains nothing",
}
"""Words in the names of other recipes -> why they are refused."""

SECTIONS = (
    "checkpointer",
    "dataloader",
    "dataset",
    "dataset_val",
    "lr_scheduler",
    "metric_logger",
    "profiler",
    "tokenizer",
)
"""Sections whose keys do not change memory, but for those that `read` asks for."""

IRRELEVANT = {
    "clip_grad_norm",
    "collate_fn",
    "dataset",
    "datasets",
    "device",
    "enable_async_checkpointing",
    "epochs",
    "log_every_n_steps",
    "log_level",
    "log_peak_memory_stats",
    "loss.ignore_index",
    "loss.num_output_chunks",
    "low_cpu_ram",
    "max_steps_per_epoch",
    "metric_logger",
    "model.lora_alpha",
    "model.max_seq_len",
    "optimizer.betas",
    "optimizer.eps",
    "optimizer.lr",
    "optimizer.maximize",
    "optimizer.momentum_dtype",
    "optimizer.weight_decay",
    "output_dir",
    "profile_memory",
    "resume_from_checkpoint",
    "save_adapter_weights_only",
    "save_every_n_steps",
    "seed",
    "shuffle",
    "context_parallel_rotate_method",
}

WITHOUT_EFFECT: Mapping[str, Sequence[Any]] = {
    "ac_mode": (None, "none"),
    "activation_offloading_use_streams": (True,),
    "cudnn_deterministic_mode": (None,),
    "custom_sharded_layers": (None, []),
    "enable_fp8_training": (False,),
    "fp8_recipe_name": (None,),
    "fsdp_cpu_offload": (False,),
    "fsdp.cpu_offload": (False,),
    "memory_efficient_fsdp_wrap": (False,),
    "model.attn_dropout": (0, 0.0),
    "model.use_dora": (False,),
    "optimizer.amsgrad": (False,),
    "optimizer.foreach": (None,),
    "resize_token_embeddings": (False,),
    "run_val_every_n_steps": (None,),
    "tensor_parallel_plan": (None,),
    "tensor_parallel_plan._component_": ("torchtune.models.llama3.base_llama_tp_plan",),
}

UNSUPPORTED: Mapping[str, str] = {
    "ac_mode": "it is read as full and as selective with a number of layers only",
    "activation_offloading_use_streams": "offloading without streams of its own is not modelled",
    "cudnn_deterministic_mode": "deterministic kernels take other workspaces",
    "custom_sharded_layers": "an embedding and a head that are FSDP units of their own are not "
    "modelled under torchtune",
    "enable_fp8_training": "float8 of weights in bf16 is not modelled",
    "fp8_recipe_name": "float8 of weights in bf16 is not modelled",
    "fsdp_cpu_offload": "weights and optimizer states in host memory are not modelled under FSDP",
    "fsdp.cpu_offload": "weights and optimizer states in host memory are not modelled under FSDP",
    "memory_efficient_fsdp_wrap": "embedding and head as units of their own are not modelled",
    "model.attn_dropout": "dropout within torchtune's attention is not modelled",
    "model.use_dora": "DoRA's magnitudes and merged weights are not modelled",
    "optimizer.amsgrad": "a third moment is not modelled",
    "optimizer.foreach": "give optimizer.fused",
    "resize_token_embeddings": "how many rows the embedding gets is not said",
    "tensor_parallel_plan": "a plan is a component: tensor_parallel_plan._component_",
    "tensor_parallel_plan._component_": "only the plan of Llama 3 is modelled",
}
