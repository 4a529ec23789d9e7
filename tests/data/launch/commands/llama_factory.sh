#!/bin/bash
# hiyouga/LLaMA-Factory examples/README.md
export FORCE_TORCHRUN=1
NNODES=2 NPROC_PER_NODE=8 NODE_RANK=${NODE_RANK:-0} MASTER_ADDR=10.0.0.1 \
  llamafactory-cli train examples/train_full/llama3_full_sft.yaml \
  learning_rate=1e-5 deepspeed=ds_z3.json
