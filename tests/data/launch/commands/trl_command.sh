#!/bin/bash
# huggingface/trl commands/run_sft.sh
set -eu
MODEL_NAME=${MODEL_NAME:?"name a model"}
EXTRA=""
if [ -n "${LORA:-}" ]; then EXTRA="--use_peft --lora_r 16"; fi
trl sft --model_name $MODEL_NAME --dataset_name imdb ${EXTRA} --max_length 512
