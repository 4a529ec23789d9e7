# volcengine/verl examples/ppo_trainer/run_deepseek7b_llm.sh
set -x
gsm8k=$HOME/data/gsm8k/train.parquet
math=$HOME/data/math/train.parquet
files="['$gsm8k', '$math']"
python3 -m verl.trainer.main_ppo \
    data.train_files="$files" \
    actor_rollout_ref.model.path=deepseek-ai/deepseek-llm-7b-chat \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16 \
    trainer.logger='["console","wandb"]' \
    trainer.n_gpus_per_node=8 \
    trainer.nnodes=1 $@
