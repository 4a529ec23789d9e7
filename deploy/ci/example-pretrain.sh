#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gpus-per-node=8
# Mixtral 8x7B with Megatron-LM.

SEQ_LENGTH=${SEQ_LENGTH:-4096}

MODEL=(
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --swiglu
    --num-attention-heads 32 --group-query-attention --num-query-groups 8
    --normalization RMSNorm --position-embedding-type rope --disable-bias-linear
    --untie-embeddings-and-output-weights --vocab-size 32000
    --seq-length "$SEQ_LENGTH" --max-position-embeddings 32768
    --attention-dropout 0 --hidden-dropout 0
)
EXPERTS=(
    --num-experts 8 --moe-router-topk 2 --moe-grouped-gemm
    --moe-token-dispatcher-type alltoall --moe-aux-loss-coeff 1e-2
)
LAYOUT=(
    --tensor-model-parallel-size 1 --pipeline-model-parallel-size 4
    --expert-model-parallel-size 8 --use-distributed-optimizer
)
STEP=(
    --micro-batch-size 2 --global-batch-size 256 --bf16 --lr 1e-4 --train-iters 500000
    --overlap-grad-reduce --overlap-param-gather
)

srun torchrun --nnodes "$SLURM_NNODES" --nproc-per-node 8 --rdzv-endpoint "$HEAD:29500" \
    pretrain_gpt.py "${MODEL[@]}" "${EXPERTS[@]}" "${LAYOUT[@]}" "${STEP[@]}" \
    --save "$CHECKPOINTS" --tensorboard-dir "$CHECKPOINTS/logs"
