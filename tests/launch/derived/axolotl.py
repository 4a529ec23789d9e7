"""axolotl's configs."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, said

MICRO, STEPS, LENGTH = (
    "/training/micro_batch_size",
    "/training/num_microbatches",
    "/training/seq_length",
)
PEFT = "/training/peft"
WITHOUT_RECOMPUTE = {
    "/training/recompute/granularity": None,
    "/training/recompute/use_reentrant": None,
}

TRAIN = Family(
    source="axolotl 0.19: cli/config.py (load_cfg), utils/schemas/config.py; cli/utils/args.py "
    "(options over the file)",
    command="axolotl train config.yaml",
    given={"overrides": {"parallelism": {"num_gpus": 8}}},
    config={
        "base_model": "NousResearch/Meta-Llama-3-8B",
        "load_in_4bit": "true",
        "adapter": "qlora",
        "lora_r": "32",
        "lora_target_modules": "[q_proj, v_proj]",
        "sequence_len": "4096",
        "sample_packing": "true",
        "flash_attention": "true",
        "micro_batch_size": "2",
        "gradient_accumulation_steps": "4",
        "gradient_checkpointing": "true",
        "optimizer": "adamw_torch_fused",
        "bf16": "auto",
    },
    rows={
        "--micro-batch-size 4": {MICRO: 4},
        "--micro-batch-size=4": {MICRO: 4},
        "--lora-r 8": {f"{PEFT}/r": 8},
        "--no-gradient-checkpointing": WITHOUT_RECOMPUTE,
        said(micro_batch_size="'4'"): {MICRO: 4},
        said(micro_batch_size=""): {MICRO: 1},
        said(gradient_accumulation_steps="null"): {STEPS: None},
        said(gradient_checkpointing="'true'"): {},
        said(gradient_checkpointing="no"): WITHOUT_RECOMPUTE,
        said(sequence_len="0x400"): {LENGTH: 1024},
        said(sequence_length="4"): LeftOut("sequence_length"),
    },
)
