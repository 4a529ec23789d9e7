"""Scripts of others that train by Trainer's loop, or by one like it."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, said

MICRO, BATCH, LENGTH = (
    "/training/micro_batch_size",
    "/training/global_batch_size",
    "/training/seq_length",
)
STEPS = "/training/num_microbatches"
RECOMPUTE = "/training/recompute/granularity"
SHARDING = "/parallelism/data_parallel_sharding_strategy"
PEFT = "/training/peft"

OPENRLHF = Family(
    source="OpenRLHF 0.9: openrlhf/cli/train_sft.py (argparse), utils/deepspeed/deepspeed_utils.py",
    command="deepspeed --num_gpus 8 --module openrlhf.cli.train_sft --pretrain Qwen/Qwen3-8B "
    "--max_len 2048 --micro_train_batch_size 2 --train_batch_size 64 --zero_stage 3 --bf16 "
    "--flash_attn --packing_samples",
    rows={
        "--micro_train_batch_size=4": {MICRO: 4, STEPS: 2},
        "--micro_train_batch_size 4 --micro_train_batch_size 1": {MICRO: 1, STEPS: 8},
        "--max_len 1_024": {LENGTH: 1024},
        "--zero_stage 2": {SHARDING: "optim_grads"},
        "--gradient_checkpointing": {RECOMPUTE: "full"},
        "--lora_rank 16": {
            f"{PEFT}/method": "lora",
            f"{PEFT}/r": 16,
            f"{PEFT}/dropout": 0,
            f"{PEFT}/target_modules": "all-linear",
            f"{PEFT}/adapter_dtype": "bf16",
        },
        "--lora_rank 0": {},
        "--micro_train_batch 4": LeftOut("micro_train_batch"),
        "--seed 1": {},
    },
)
LLAMA_RECIPES = Family(
    source="meta-llama/llama-cookbook: finetuning.py (fire.Fire), configs/training.py, fsdp.py",
    command="torchrun --nproc_per_node 8 finetuning.py --enable_fsdp --model_name "
    "meta-llama/Llama-2-7b-hf --batch_size_training 2 --context_length 2048 --pure_bf16",
    rows={
        "--batch_size_training=4": {MICRO: 4},
        "--batch-size-training 4": {MICRO: 4},
        "--batch_size_training 4 --batch_size_training 1": {MICRO: 1},
        "--context_length 1_024": {LENGTH: 1024},
        "--gradient_accumulation_steps 4": {STEPS: 4},
        "--nouse_peft": LeftOut("nouse_peft"),
        "--no_such_key": LeftOut("no_such_key"),
    },
)
LLAVA = Family(
    source="haotian-liu/LLaVA: llava/train/train.py (HfArgumentParser)",
    command="deepspeed --num_gpus 8 llava/train/train_mem.py --deepspeed zero3.json "
    "--model_name_or_path lmsys/vicuna-7b-v1.5 --vision_tower openai/clip-vit-large-patch14-336 "
    "--mm_projector_type mlp2x_gelu --mm_vision_select_layer -2 --bf16 True "
    "--per_device_train_batch_size 4 --model_max_length 2048 --gradient_checkpointing True",
    files={"zero3.json": '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 3}}'},
    rows={
        "--per_device_train_batch_size=2": {MICRO: 2},
        "--model_max_length 1024": {LENGTH: 1024},
        "--gradient_checkpointing False": {RECOMPUTE: None},
        "--tune_mm_mlp_adapter True": {"/training/frozen": ["vision_tower", "language_model"]},
        "--no_such_key 1": LeftOut("no_such_key"),
    },
)
ARCTIC = Family(
    source="snowflakedb/ArcticTraining 0.8: config/trainer.py, config/data.py, model/config.py",
    command="arctic_training run.yaml --num_gpus 8",
    path="run.yaml",
    config={
        "type": "sft",
        "micro_batch_size": "2",
        "gradient_accumulation_steps": "4",
        "model.name_or_path": "meta-llama/Llama-3.1-8B-Instruct",
        "model.attn_implementation": "flash_attention_2",
        "model.dtype": "bf16",
        "data.max_length": "4096",
        "deepspeed.zero_optimization.stage": "3",
    },
    rows={
        said(micro_batch_size="4"): {MICRO: 4},
        said(micro_batch_size=""): {MICRO: 1},
        said(gradient_accumulation_steps=""): {STEPS: 1},
        said(data__max_length="0x800"): {LENGTH: 2048},
        said(deepspeed__zero_optimization__stage="2"): {SHARDING: "optim_grads"},
        said(model__dtypes="bf16"): LeftOut("model.dtypes"),
        said(micro_batch="2"): LeftOut("micro_batch"),
    },
)
OPEN_INSTRUCT = Family(
    source="allenai/open-instruct: open_instruct/finetune.py (ArgumentParserPlus)",
    command="accelerate launch --num_processes 8 --use_deepspeed --deepspeed_config_file ds.json "
    "--mixed_precision bf16 open_instruct/finetune.py --model_name_or_path Qwen/Qwen3-8B "
    "--max_seq_length 4096 --per_device_train_batch_size 2 --gradient_accumulation_steps 4 "
    "--use_flash_attn",
    files={"ds.json": '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 3}}'},
    rows={
        "--per_device_train_batch_size=4": {MICRO: 4},
        "--max_seq_length 2048": {LENGTH: 2048},
        "--gradient_checkpointing": {RECOMPUTE: "full"},
        "--gradient_checkpointing False": {},
        "--no_such_key 1": LeftOut("no_such_key"),
    },
)
