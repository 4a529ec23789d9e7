"""verl's trainers."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, Refused

A, M, R = "actor_rollout_ref.actor", "actor_rollout_ref.model", "actor_rollout_ref.rollout"
MICRO, LENGTH = "/training/micro_batch_size", "/training/seq_length"
STEPS = "/training/num_microbatches"
SCORED = "/training/loss/scored_tokens"
RECOMPUTE = "/training/recompute/granularity"

PPO = Family(
    source="verl 0.7: trainer/main_ppo.py, trainer/config/ppo_trainer.yaml; Hydra 1.3 "
    "(grammar/OverrideLexer.g4): words are true, false and null alone, numbers decimal",
    command="python3 -m verl.trainer.main_ppo "
    f"{M}.path=Qwen/Qwen2.5-7B-Instruct {A}.ppo_micro_batch_size_per_gpu=8 "
    f"{A}.ppo_mini_batch_size=64 {R}.n=4 {R}.log_prob_micro_batch_size_per_gpu=8 "
    "data.max_prompt_length=512 data.max_response_length=1024 trainer.n_gpus_per_node=8 "
    "algorithm.adv_estimator=grpo",
    rows={
        f"{A}.ppo_micro_batch_size_per_gpu=4": {MICRO: 4, STEPS: 8},
        f"++{A}.ppo_micro_batch_size_per_gpu=4": {MICRO: 4, STEPS: 8},
        f"{A}.ppo_micro_batch_size_per_gpu=4 {A}.ppo_micro_batch_size_per_gpu=2": {
            MICRO: 2,
            STEPS: 16,
        },
        f"'{A}={{ppo_micro_batch_size_per_gpu: 4}}'": {MICRO: 4, STEPS: 8},
        f"{A}.ppo_micro_batch_size_per_gpu=null": Refused("how many samples a micro-batch has"),
        "data.max_prompt_length=1_024": {LENGTH: 2048, SCORED: 8 * 2048},
        "data.max_prompt_length=0x10": Refused("data.max_prompt_length"),
        "data.max_prompt_length=${data.max_response_length}": {LENGTH: 2048, SCORED: 8 * 2048},
        f"{A}.use_dynamic_bsz=yes": Refused("must be true or false"),
        f"{A}.use_dynamic_bsz=TRUE {A}.ppo_max_token_len_per_gpu=6144": {
            LENGTH: 6144,
            MICRO: 1,
            STEPS: 8,
            SCORED: None,
        },
        f"{M}.enable_gradient_checkpointing=false": {RECOMPUTE: None},
        f"{M}.enable_gradient_checkpointing=off": Refused("must be true or false"),
        f"{A}.strategy=fsdp2": {"/framework/data_parallel_engine": "fsdp2"},
        f"{A}.fsdp_config.fsdp_size=4": {"/parallelism/data_parallel_replicate_size": 2},
        f"'{A}.fsdp_config={{fsdp_size: 4}}'": {"/parallelism/data_parallel_replicate_size": 2},
        f"{A}.ulysses_sequence_parallel_size=2": {
            "/parallelism/cp": 2,
            "/parallelism/cp_comm_type": "a2a",
            STEPS: 8,
            SCORED: 4 * 1536,
        },
        f"{M}.lora_rank=16": {
            "/training/peft/method": "lora",
            "/training/peft/r": 16,
            "/training/peft/target_modules": "all-linear",
        },
        f"{M}.lora_rank=16 {M}.target_modules=[q_proj,v_proj]": {
            "/training/peft/method": "lora",
            "/training/peft/r": 16,
            "/training/peft/target_modules": ["q_proj", "v_proj"],
        },
        f"{A}.entropy_coeff=1e-3": {"/training/loss/entropy": "compiled"},
        f"{A}.entropy_coeff=0e0": {},
        f"+{A}.ppo_micro_batch=2": LeftOut(f"{A}.ppo_micro_batch"),
        "trainer.nnodes=2": {"/parallelism/num_gpus": 16, STEPS: 2},
        "'trainer.nnodes=\"2\"'": {"/parallelism/num_gpus": 16, STEPS: 2},
    },
)
