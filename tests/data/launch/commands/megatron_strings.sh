#! /bin/bash
# alibaba/Pai-Megatron-Patch examples/qwen3/run_mcore_qwen3.sh
set -e
ENV=$1
MODEL_SIZE=$2
BATCH_SIZE=$3
TP=$4
AC=${5:-none}
if [ $ENV = dsw ]; then
    NNODES=1
    GPUS_PER_NODE=8
elif [ $ENV = dlc ]; then
    NNODES=${WORLD_SIZE}
    GPUS_PER_NODE=${KUBERNETES_CONTAINER_RESOURCE_GPU}
fi
if [ $MODEL_SIZE = 8B ]; then
    NUM_LAYERS=36
    moe_options=" \
        "
elif [ $MODEL_SIZE = A3B ]; then
    NUM_LAYERS=48
    moe_options=" \
        --moe-grouped-gemm \
        --num-experts 128 \
        --moe-router-topk 8"
fi
if [ $AC = full ]; then
    activation_checkpoint_options=" \
        --recompute-method uniform \
        --recompute-num-layers 1 \
        --recompute-granularity full"
elif [ $AC = none ]; then
    activation_checkpoint_options=" \
    "
fi
megatron_options="  \
        --num-layers ${NUM_LAYERS} \
        --micro-batch-size ${BATCH_SIZE} \
        --tensor-model-parallel-size ${TP} \
        "
DISTRIBUTED_ARGS="--nproc_per_node $GPUS_PER_NODE --nnodes $NNODES"
run_cmd="torchrun $DISTRIBUTED_ARGS ../qwen3/pretrain_qwen.py
 ${megatron_options} ${activation_checkpoint_options} ${moe_options}"
echo ${run_cmd}
eval ${run_cmd}
set +x
