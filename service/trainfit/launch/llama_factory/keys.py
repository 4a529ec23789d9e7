"""Keys of LLaMA-Factory beside those of TrainingArguments."""

from __future__ import annotations

RENAMED = {
    "cutoff_len": "max_length",
    "lora_rank": "lora_r",
    "lora_target": "lora_target_modules",
    "additional_target": "lora_modules_to_save",
    "enable_liger_kernel": "use_liger_kernel",
    "double_quantization": "use_bnb_nested_quant",
    "evaluation_strategy": "eval_strategy",
    "per_gpu_train_batch_size": "per_device_train_batch_size",
    "per_gpu_eval_batch_size": "per_device_eval_batch_size",
    "fsdp_min_num_params": "fsdp_config.min_num_params",
    "fsdp_transformer_layer_cls_to_wrap": "fsdp_config.transformer_layer_cls_to_wrap",
    "max_length": "generated_length",
    "activation_checkpointing": "gradient_checkpointing",
}
"""Arguments that mean what another tool's do, and the name that they are read by here."""
