"""What becomes of each key of torchtune's recipes.

Sources: recipes/{full,lora}_finetune_{single_device,distributed}.py and recipes/configs at v0.4.0
to v0.6.1 and bd2a0fc (2026-04-23). Keys that decide together are in no table: `read` asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainfit.specs.optimizers import choices

COPIED: Mapping[str, str] = {
    "batch_size": "/training/micro_batch_size",
    "gradient_accumulation_steps": "/training/num_microbatches",
    "optimizer_in_bwd": "/training/optimizer/in_backward",
    "fsdp_cpu_offload": "/framework/offload_params",
    "fsdp.cpu_offload": "/framework/offload_params",
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
