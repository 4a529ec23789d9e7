"""ms-swift, over transformers and over Megatron."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, Refused

MICRO, STEPS, LENGTH = (
    "/training/micro_batch_size",
    "/training/num_microbatches",
    "/training/seq_length",
)
RECOMPUTE = "/training/recompute/granularity"
PEFT = "/training/peft"

SFT = Family(
    source="modelscope/ms-swift 4.6.0: swift/arguments (sft_args.py, base_args), "
    "swift/utils/utils.py (parse_args); transformers: hf_argparser.py",
    command="swift sft --model Qwen/Qwen2.5-7B-Instruct --tuner_type lora --max_length 2048 "
    "--per_device_train_batch_size 2 --gradient_accumulation_steps 4 --torch_dtype bfloat16",
    given={"env": {"NPROC_PER_NODE": "2"}},
    rows={
        "--per_device_train_batch_size=4": {MICRO: 4},
        "--per-device-train-batch-size 4": {MICRO: 4},
        "--per_device_train_batch_size 4 --per_device_train_batch_size 1": {MICRO: 1},
        "--max_length 1_024": {LENGTH: 1024},
        "--gradient_checkpointing false": {RECOMPUTE: None},
        "--no_gradient_checkpointing": {RECOMPUTE: None},
        "--gradient_checkpointing no": {RECOMPUTE: None},
        "--gradient_checkpointing": {},
        "--lora_rank 16": {f"{PEFT}/r": 16},
        "--target_modules q_proj v_proj": {f"{PEFT}/target_modules": ["q_proj", "v_proj"]},
        # quant_args.py: nothing is quantised by bits alone
        "--quant_bits 4": {},
        "--quant_method bnb --quant_bits 4": {
            f"{PEFT}/quantization": "nf4",
            f"{PEFT}/double_quantization": True,
        },
        "--tuner_type full": {
            **{f"{PEFT}/{each}": None for each in ("method", "r", "dropout", "target_modules")},
            f"{PEFT}/base_dtype": None,
            "/training/precision": "bf16-pure",
        },
        "--lora_ranks 4": LeftOut("lora_ranks"),
    },
)
MEGATRON = Family(
    source="modelscope/ms-swift 4.6.0: swift/megatron/arguments/megatron_args.py",
    command="megatron sft --model Qwen/Qwen2.5-7B --max_length 2048 --micro_batch_size 2 "
    "--global_batch_size 64 --cross_entropy_loss_fusion true",
    given={"env": {"NPROC_PER_NODE": "8"}},
    rows={
        "--micro_batch_size 4": {MICRO: 4},
        "--micro-batch-size=4": {MICRO: 4},
        "--micro_batch_size 4 --micro_batch_size 1": {MICRO: 1},
        "--tensor_model_parallel_size 2 --sequence_parallel": {
            "/parallelism/tp": 2,
            "/parallelism/sequence_parallel": True,
        },
        "--tensor_model_parallel_size 2 --sequence_parallel false": {"/parallelism/tp": 2},
        # megatron_args.py: self.fp8 = self.fp8_format
        "--fp8_format e4m3 --fp8_recipe blockwise --fp8_param_gather true": {
            "/training/precision": None,
            "/training/precision/gradients": "fp32",
            "/training/precision/main_params": "fp32",
            "/training/precision/fp8_recipe": "blockwise",
            "/training/precision/fp8_param_gather": True,
        },
        "--use_distributed_optimizer false": {
            "/parallelism/data_parallel_sharding_strategy": "no_shard"
        },
        "--recompute_granularity none": {RECOMPUTE: None},
        "--recompute_granularity full --recompute_method uniform --recompute_num_layers 2": {
            RECOMPUTE: "full",
            "/training/recompute/method": "uniform",
            "/training/recompute/num_layers": 2,
        },
        "--use_distributed_optimizer maybe": Refused("use_distributed_optimizer"),
        "--tensor_parallel 2": LeftOut("tensor_parallel"),
    },
)
LOSS, BATCH = "/training/loss", "/training/global_batch_size"
DPO = Family(
    source="modelscope/ms-swift 4.6.0: swift/megatron/trainers (rlhf_mixin.py, dpo_trainer.py, "
    "kto_trainer.py, grpo_trainer.py, reward_trainer.py), arguments/megatron_args.py",
    command="megatron rlhf --rlhf_type dpo --model Qwen/Qwen2.5-7B --max_length 2048 "
    "--micro_batch_size 2 --global_batch_size 64 --cross_entropy_loss_fusion true "
    "--pipeline_model_parallel_size 2",
    given={"env": {"NPROC_PER_NODE": "8"}},
    rows={
        # a pair is two samples, of the batch too
        "--micro_batch_size 4": {MICRO: 8},
        "--global_batch_size 32": {BATCH: 64},
        "--packing true": LeftOut("packing"),
        "--tuner_type full": {},
        "--rlhf_type kto": {MICRO: 2, BATCH: 64},
        "--rlhf_type rm": LeftOut("rlhf_type"),
        "--rlhf_type gkd": LeftOut("rlhf_type"),
        "--beta 0.5 --rpo_alpha 1.0 --loss_type sigmoid --reference_free true": {},
    },
)
GRPO = Family(
    source=DPO.source,
    command="megatron rlhf --rlhf_type grpo --model Qwen/Qwen2.5-7B --max_length 2048 "
    "--max_completion_length 1024 --micro_batch_size 2 --global_batch_size 64 --vllm_mode server "
    "--tensor_model_parallel_size 2",
    given={"env": {"NPROC_PER_NODE": "8"}},
    rows={
        "--max_completion_length 6144": {LENGTH: 8192},
        "--max_length 1_024": {LENGTH: 2048},
        "--multi_turn_scheduler m --vllm_max_model_len 16384": {LENGTH: 16_384},
        "--multi_turn_scheduler m": LeftOut("multi_turn_scheduler"),
        "--vllm_mode colocate --sleep_level 2": LeftOut("vllm_mode"),
        "--vllm_mode colocate --vllm_gpu_memory_utilization 0.4": LeftOut("vllm_mode"),
        "--cross_entropy_loss_fusion true": {},
        "--log_entropy true": LeftOut("log_entropy"),
        "--temperature 0.7 --num_generations 4 --beta 0": {},
    },
)
