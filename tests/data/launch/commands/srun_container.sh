#!/bin/bash
# NVIDIA/Megatron-LM docs of a Slurm launch with a container
#SBATCH -N 8 --exclusive
#SBATCH --ntasks-per-node=8 --gpus-per-node=H200:8
DIR=$(pwd)
options="--num-layers 61 --num-experts 256 \
  --expert-model-parallel-size 64"
run_cmd="cd $DIR && python -u ${DIR}/pretrain_gpt.py ${options}"
srun -l \
     --container-image "nvcr.io/x:y" \
     --container-mounts "/lustre:/lustre" \
     --output=$DIR/logs/%x_%j.log sh -c "${run_cmd}"
set +x
