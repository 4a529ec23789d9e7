#!/bin/bash
# shape of scripts that ask the machine
GPUS=$(nvidia-smi -L | wc -l)
if [ "$GPUS" -gt 4 ]; then TP=8; FLAGS="--bf16 --fp8"; else TP=4; FLAGS="--bf16"; fi
if command -v nvcc > /dev/null; then export CUDA_HOME=/usr/local/cuda; fi
nohup torchrun --nproc_per_node $GPUS pretrain_gpt.py --tensor-model-parallel-size $TP $FLAGS &
