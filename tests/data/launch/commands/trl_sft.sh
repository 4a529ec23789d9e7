#!/bin/bash
# huggingface/trl examples/scripts/sft.py, its docstring
accelerate launch --num_processes 8 --mixed_precision=bf16 \
    trl/scripts/sft.py \
    --model_name_or_path Qwen/Qwen2-0.5B \
    --dataset_name trl-lib/Capybara \
    --learning_rate 2.0e-5 \
    --packing \
    --output_dir Qwen2-0.5B-SFT 2>&1 | tee sft.log
