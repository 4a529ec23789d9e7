#!/bin/bash
# NVIDIA/Megatron-LM examples/llama/train_llama3_8b_h100_fp8.sh
export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-1}
OUT=${1:-"runs/llama"}
TOKENIZER=${2:-"MOCK"}
mkdir -p "$(dirname "$OUT")"
PER_NODE=8
NODES=1
WORLD=$(($PER_NODE*$NODES))
SCRIPT="pretrain_gpt.py"
DTYPE="fp8"
ARGS=(--num-layers 32 --global-batch-size $((WORLD * 16)))
DTYPE_ARGS=()
if [[ "$DTYPE" == "fp8" ]]; then
    DTYPE_ARGS+=(
        "--fp8-format hybrid"
        "--fp8-param-gather"
    )
fi
DDP=(--use-distributed-optimizer --overlap-grad-reduce)
ARGS+=("${DDP[@]}")
if [[ "$TOKENIZER" == "MOCK" ]] || [[ -z "$TOKENIZER" ]]; then
    DATA=("--mock-data" "--vocab-size 128256" "--split '99,1,0'")
else
    DATA=("--tokenizer-model $TOKENIZER")
fi
if [ ! -f "$SCRIPT" ]; then
    echo "$SCRIPT is missing"
    exit 1
fi
torchrun --nproc_per_node $PER_NODE --nnodes $NODES "$SCRIPT" \
    ${ARGS[@]} ${DTYPE_ARGS[@]} ${DATA[@]} --save "$OUT"
set +x
