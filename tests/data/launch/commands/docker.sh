#!/bin/sh
# shape of a run in a container on one machine
IMAGE=${IMAGE:-nvcr.io/nvidia/pytorch:25.09-py3}
docker run --gpus all --rm --ipc=host --ulimit memlock=-1 \
  -v "$PWD":/workspace -w /workspace -e HF_TOKEN -e PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True \
  "$IMAGE" torchrun --standalone --nproc-per-node=8 pretrain_gpt.py --seq-length 8192
