#!/bin/bash
# NVIDIA/Megatron-LM examples/mamba/train.sh, under mpirun
MODEL_SCALE="8B"
case "${MODEL_SCALE}" in
    "800M")
        TENSOR=1
        LAYERS=48
        ;;
    "8B")
        TENSOR=4
        LAYERS=56
        ;;
    *)
        echo "Invalid version specified"
        exit 1
        ;;
esac
SEQ_LEN=4096
TRAIN_SAMPLES=$((1000000000 / SEQ_LEN))
options=" \
       --tensor-model-parallel-size ${TENSOR} \
       --num-layers ${LAYERS} \
       --seq-length ${SEQ_LEN} \
       --train-samples ${TRAIN_SAMPLES} \
       --hybrid-layer-pattern M-M*M-M-"
mpirun --allow-run-as-root -np 8 --bind-to none -x NCCL_DEBUG=WARN -mca pml ob1 \
    python -u pretrain_mamba.py ${options}
