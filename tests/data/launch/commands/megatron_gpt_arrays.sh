#!/bin/bash
# NVIDIA/Megatron-LM examples/gpt3/train_gpt3_175b_distributed.sh
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS=8
NODES=16
CKPT=$1 # where checkpoints go
DATA=$2

RUN=(
    --nproc_per_node $GPUS
    --nnodes $NODES
    --master_addr ${MASTER_ADDR:-localhost}
)
MODEL=(
    --num-layers 96      # depth
    --hidden-size 12288
    --num-attention-heads 96
    --seq-length 2048
)
LAYOUT=(
	--tensor-model-parallel-size 8
	--pipeline-model-parallel-size 16
)
torchrun ${RUN[@]} pretrain_gpt.py \
    ${MODEL[@]} \
    ${LAYOUT[@]} \
    --data-path $DATA --save "$CKPT/last" --fp16
