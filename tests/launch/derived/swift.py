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
