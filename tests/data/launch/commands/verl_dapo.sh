#!/usr/bin/env bash
# volcengine/verl recipe/dapo/run_dapo_qwen2.5_32b.sh
set -euxo pipefail
adv_estimator=grpo
max_prompt_length=$((1024 * 2))
max_response_length=$((1024 * 20))
sp_size=8
use_dynamic_bsz=True
actor_ppo_max_token_len=$((max_prompt_length + max_response_length))
NNODES=${NNODES:-16}
RAY_DATA_HOME=${RAY_DATA_HOME:-"${HOME}/verl"}
MODEL_PATH=${MODEL_PATH:-"${RAY_DATA_HOME}/models/Qwen2.5-32B"}
ray job submit --no-wait --runtime-env="${RUNTIME_ENV:-env.yaml}" -- \
    python3 -m recipe.dapo.main_dapo \
    algorithm.adv_estimator=${adv_estimator} \
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=${actor_ppo_max_token_len} \
    actor_rollout_ref.actor.ulysses_sequence_parallel_size=${sp_size} \
    actor_rollout_ref.model.path="${MODEL_PATH}" \
    trainer.nnodes="${NNODES}"
