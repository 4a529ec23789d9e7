#!/bin/bash
# huggingface/accelerate examples/slurm/submit_multinode_fsdp.sh
#SBATCH --job-name=fsdp
#SBATCH -D .
#SBATCH --nodes=4                   # nodes
#SBATCH --ntasks-per-node=1         # launchers
#SBATCH --gres=gpu:4                # GPUs of a node
#SBATCH --time=01:59:00
source activate.sh
export GPUS_PER_NODE=4
head=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export DIR="${DIR:-/accelerate}"
export LAUNCHER="accelerate launch \
    --config_file ${DIR}/fsdp.yaml \
    --num_processes $((SLURM_NNODES * GPUS_PER_NODE)) \
    --num_machines $SLURM_NNODES \
    --rdzv_backend c10d \
    --main_process_ip $head \
    "
export SCRIPT="${DIR}/complete_nlp_example.py"
export SCRIPT_ARGS=" \
    --mixed_precision fp16 \
    "
export CMD="$LAUNCHER $SCRIPT $SCRIPT_ARGS"
srun $CMD
