#!/bin/bash
# hiyouga/LLaMA-Factory examples/extras/fsdp_qlora/train.sh
# DO NOT use GPTQ here
CUDA_VISIBLE_DEVICES=0,1 accelerate launch \
    --config_file examples/accelerate/fsdp_config.yaml \
    src/train.py examples/extras/fsdp_qlora/llama3_lora_sft.yaml
