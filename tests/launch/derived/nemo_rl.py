"""NeMo-RL's configs."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, Refused, said

MICRO, BATCH, LENGTH = (
    "/training/micro_batch_size",
    "/training/global_batch_size",
    "/training/seq_length",
)
GPUS, RECOMPUTE = "/parallelism/num_gpus", "/training/recompute"
M = "policy.megatron_cfg"

GRPO = Family(
    source="NVIDIA-NeMo/RL 7ea279a: nemo_rl/models/megatron/setup.py, algorithms/grpo.py (setup), "
    "utils/config.py, distributed/model_utils.py, examples/configs/grpo_math_1B_megatron.yaml",
    command="uv run examples/run_grpo.py --config grpo.yaml",
    path="grpo.yaml",
    config={
        "grpo.num_prompts_per_step": "32",
        "policy.model_name": "Qwen/Qwen2.5-7B",
        "policy.train_global_batch_size": "512",
        "policy.train_micro_batch_size": "4",
        "policy.max_total_sequence_length": "4096",
        "policy.precision": "bfloat16",
        "policy.sequence_packing.enabled": "false",
        "policy.sequence_packing.train_mb_tokens": (
            "${mul:${policy.max_total_sequence_length}, ${policy.train_micro_batch_size}}"
        ),
        f"{M}.enabled": "true",
        f"{M}.activation_checkpointing": "false",
        f"{M}.recompute_granularity": "full",
        f"{M}.tensor_model_parallel_size": "2",
        f"{M}.sequence_parallel": "true",
        f"{M}.mtp_num_layers": "0",
        f"{M}.moe_router_dtype": "fp64",
        f"{M}.optimizer.use_distributed_optimizer": "true",
        f"{M}.optimizer.use_precision_aware_optimizer": "true",
        f"{M}.distributed_data_parallel_config.grad_reduce_in_fp32": "false",
        "policy.generation.backend": "vllm",
        "policy.generation.colocated.enabled": "true",
        "cluster.gpus_per_node": "8",
        "cluster.num_nodes": "2",
    },
    rows={
        "policy.train_micro_batch_size=2": {MICRO: 2},
        "++policy.max_total_sequence_length=8192": {LENGTH: 8192},
        "policy.max_total_sequence_length=8_192": {LENGTH: 8192},
        # packs have as many tokens as micro-batches would
        "policy.sequence_packing.enabled=true": {LENGTH: 16_384, MICRO: 1, BATCH: 128},
        "policy.sequence_packing.enabled=true policy.sequence_packing.train_mb_tokens=8192": {
            LENGTH: 8192,
            MICRO: 1,
            BATCH: 256,
        },
        f"{M}.activation_checkpointing=true": {
            f"{RECOMPUTE}/granularity": "full",
            f"{RECOMPUTE}/method": "uniform",
            f"{RECOMPUTE}/num_layers": 1,
        },
        f"{M}.activation_checkpointing=yes": Refused("must be true or false"),
        f"{M}.activation_checkpointing=true {M}.recompute_granularity=selective": {
            f"{RECOMPUTE}/granularity": "selective",
        },
        f"{M}.context_parallel_size=2": {"/parallelism/cp": 2},
        f"{M}.distributed_data_parallel_config.grad_reduce_in_fp32=true": {
            "/training/precision": "bf16",
            "/training/precision/gradients": None,
            "/training/precision/main_params": None,
        },
        "cluster.num_nodes=4": {GPUS: 32},
        # one of two nodes generates
        "policy.generation.colocated.enabled=false "
        "++policy.generation.colocated.resources.num_nodes=1": {GPUS: 8},
        "policy.generation.backend=megatron": LeftOut("policy.generation.colocated.enabled"),
        "++policy.logprob_chunk_size=1024": LeftOut("policy.logprob_chunk_size"),
        f"++{M}.defer_fp32_logits=true": LeftOut(f"{M}.defer_fp32_logits"),
        f"++{M}.peft.enabled=true": LeftOut(f"{M}.peft.enabled"),
        f"++{M}.tensor_parallel=4": LeftOut(f"{M}.tensor_parallel"),
        f"{M}.enabled=false": Refused("those over Megatron are read"),
        # nothing says that fp32 is another type
        said(policy__precision="float32"): {
            "/training/precision": "fp32",
            "/training/precision/gradients": None,
            "/training/precision/main_params": None,
        },
        said(policy__model_name=""): Refused("names no model"),
    },
)
