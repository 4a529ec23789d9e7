#!/bin/bash
# shape of bigscience-workshop/Megatron-DeepSpeed: the config is written by the script
ZERO_STAGE=1
config_json="./ds_config.$SLURM_JOBID.json"
cat <<EOT > $config_json
{
  "train_micro_batch_size_per_gpu": 1,
  "zero_optimization": {"stage": $ZERO_STAGE}
}
EOT
export LAUNCHER="python -u -m torch.distributed.run \
    --nproc_per_node 8 --nnodes ${NNODES:-4} \
    --max_restarts 0 \
    "
export CMD=" \
    `pwd`/pretrain_gpt.py \
    --num-layers 70 --deepspeed \
    --deepspeed_config ${config_json} \
    "
bash -c "$LAUNCHER $CMD" 2>&1 | tee -a main_log.txt
