"""Keys of TrainingArguments, of TRL's configs and of the scripts beside them that are read.

Read from transformers 4.36 to 5.23 (training_args.py), TRL 0.9.6 to 1.9.0 (sft_config.py,
dpo_config.py, model_config.py, scripts/utils.py) and the scripts of transformers' examples, open-r1
and alignment-handbook. What decides memory is read by the modules beside this; which release has
which key stands in `changes`, and what no field is read from by `keys.json`.
"""

from __future__ import annotations

from trainfit.launch.keys import words

DECIDING = words("""
bf16 fp16 dtype do_eval eval_strategy per_device_eval_batch_size attn_implementation
pad_to_multiple_of max_length cutoff_len block_size model_max_length seq_length seq_len
max_seq_len deepspeed deepspeed_config
""")
"""Keys that decide memory where no other that decides the same counts before them."""

RENAMED = {
    "evaluation_strategy": "eval_strategy",
    "torch_dtype": "dtype",
    "activation_checkpointing": "gradient_checkpointing",
    "per_gpu_train_batch_size": "per_device_train_batch_size",
    "per_gpu_eval_batch_size": "per_device_eval_batch_size",
    "max_seq_length": "max_length",
    "use_liger": "use_liger_kernel",
    "model_init_kwargs.torch_dtype": "dtype",
    "model_init_kwargs.dtype": "dtype",
    "model_init_kwargs.attn_implementation": "attn_implementation",
    "model_init_kwargs.revision": "model_revision",
    "model_init_kwargs.use_cache": "use_cache",
    "model_init_kwargs.trust_remote_code": "trust_remote_code",
    "model_init_kwargs.device_map": "device_map",
    "base_model_revision": "model_revision",
    "peft_lora_r": "lora_r",
    "lora_rank": "lora_r",
    "peft_lora_alpha": "lora_alpha",
    "fsdp_transformer_layer_cls_to_wrap": "fsdp_config.transformer_layer_cls_to_wrap",
    "fsdp_min_num_params": "fsdp_config.min_num_params",
}
"""Names that mean the same in another release or another script, and the one they are read by."""
