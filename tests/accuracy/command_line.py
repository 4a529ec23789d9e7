"""Megatron-LM's command line, as continuous-integration rows give it -> a job.

Every argument is in one of two tables: those that become a field of the job, and those that are
known not to change memory. An argument in neither makes the row unusable. What the command line
leaves out has Megatron's default, not the job's.
"""

from __future__ import annotations

import re
from typing import Any

from tests.accuracy.outcomes import UnusableRowError
from tests.accuracy.published_runs import gpu_of, stated
from trainfit.specs.job import Job

Row = dict[str, Any]
Arguments = dict[str, Any]

MODEL = {
    "num-layers": "num_layers",
    "hidden-size": "hidden_size",
    "num-attention-heads": "num_attention_heads",
    "ffn-hidden-size": "ffn_hidden_size",
    "kv-channels": "kv_channels",
    "normalization": "normalization",
    "position-embedding-type": "position_embedding_type",
    "max-position-embeddings": "max_position_embeddings",
    "untie-embeddings-and-output-weights": "untie_embeddings_and_output_weights",
    "swiglu": "swiglu",
    "add-qkv-bias": "add_qkv_bias",
    "qk-layernorm": "qk_layernorm",
    "attention-output-gate": "attention_output_gate",
    "num-experts": "num_moe_experts",
    "moe-router-topk": "moe_router_topk",
    "moe-ffn-hidden-size": "moe_ffn_hidden_size",
    "moe-shared-expert-intermediate-size": "moe_shared_expert_intermediate_size",
    "moe-shared-expert-gate": "moe_shared_expert_gate",
    "moe-latent-size": "moe_latent_size",
    "multi-latent-attention": "multi_latent_attention",
    "q-lora-rank": "q_lora_rank",
    "kv-lora-rank": "kv_lora_rank",
    "qk-head-dim": "qk_head_dim",
    "qk-pos-emb-head-dim": "qk_pos_emb_head_dim",
    "v-head-dim": "v_head_dim",
    "mtp-num-layers": "mtp_num_layers",
}
PARALLELISM = {
    "tensor-model-parallel-size": "tp",
    "pipeline-model-parallel-size": "pp",
    "context-parallel-size": "cp",
    "expert-model-parallel-size": "ep",
    "expert-tensor-parallel-size": "etp",
    "num-virtual-stages-per-pipeline-rank": "vpp",
    "num-layers-per-virtual-pipeline-stage": "num_layers_per_virtual_pipeline_stage",
    "microbatch-group-size-per-virtual-pipeline-stage": "microbatch_group_size_per_vp_stage",
    "decoder-first-pipeline-num-layers": "num_layers_in_first_pipeline_stage",
    "decoder-last-pipeline-num-layers": "num_layers_in_last_pipeline_stage",
    "account-for-embedding-in-pipeline-split": "account_for_embedding_in_pipeline_split",
    "account-for-loss-in-pipeline-split": "account_for_loss_in_pipeline_split",
    "pipeline-model-parallel-layout": "pipeline_model_parallel_layout",
    "cp-comm-type": "cp_comm_type",
    "num-distributed-optimizer-instances": "data_parallel_replicate_size",
    "hierarchical-context-parallel-sizes": "hierarchical_context_parallel_sizes",
}
TRAINING = {
    "micro-batch-size": "micro_batch_size",
    "global-batch-size": "global_batch_size",
    "seq-length": "seq_length",
    "offload-modules": "offload_modules",
}
RECOMPUTE = {
    "recompute-granularity": "granularity",
    "recompute-method": "method",
    "recompute-num-layers": "num_layers",
    "distribute-saved-activations": "distribute_saved_activations",
}
MOE = {
    "moe-router-dtype": "router_dtype",
    "moe-expert-capacity-factor": "expert_capacity_factor",
    "moe-shared-expert-overlap": "shared_expert_overlap",
}
FRAMEWORK = {
    "transformer-impl": "transformer_impl",
    "make-vocab-size-divisible-by": "make_vocab_size_divisible_by",
    "defer-embedding-wgrad-compute": "defer_embedding_wgrad_compute",
    "deterministic-mode": "deterministic_mode",
    "overlap-moe-expert-parallel-comm": "overlap_moe_expert_parallel_comm",
    "wgrad-deferral-limit": "wgrad_deferral_limit",
    "pad-buckets-for-high-nccl-busbw": "pad_buckets_for_high_nccl_busbw",
}
"""Arguments whose value is that of a field of the job."""

READ = frozenset(
    {
        "attention-backend",
        "attention-dropout",
        "bf16",
        "cross-entropy-fusion-impl",
        "cross-entropy-loss-fusion",
        "data-parallel-sharding-strategy",
        "disable-bias-linear",
        "exp-avg-dtype",
        "exp-avg-sq-dtype",
        "fp16",
        "fp8-format",
        "fp8-param-gather",
        "fp8-recipe",
        "grad-reduce-in-bf16",
        "group-query-attention",
        "hidden-dropout",
        "main-grads-dtype",
        "main-params-dtype",
        "moe-grouped-gemm",
        "moe-layer-freq",
        "moe-pad-expert-input-to-capacity",
        "moe-permute-fusion",
        "moe-token-dispatcher-type",
        "no-create-attention-mask-in-dataloader",
        "no-gradient-accumulation-fusion",
        "num-query-groups",
        "fine-grained-activation-offloading",
        "optimizer",
        "optimizer-cpu-offload",
        "optimizer-offload-fraction",
        "overlap-grad-reduce",
        "overlap-param-gather",
        "recompute-modules",
        "sequence-parallel",
        "squared-relu",
        "use-distributed-optimizer",
        "use-flash-attn",
        "use-megatron-fsdp",
        "use-precision-aware-optimizer",
        "use-rotary-position-embeddings",
        "vocab-size",
    }
)
"""Arguments that become fields in another shape or together with others."""

WITHOUT_EFFECT = frozenset(
    {
        # The order of work on the same tensors.
        "delay-wgrad-compute",
        "overlap-param-gather-with-optimizer-step",
        # Which rank owns which shard.
        "no-use-layer-wise-param-layout",
        # Data, schedule of the run, logging, checkpoints, garbage collection.
        "async-ckpt-use-cpu-shm",
        "async-strategy",
        "auto-detect-ckpt-format",
        "check-for-large-grads",
        "check-weight-hash-across-dp-replicas-interval",
        "ckpt-assume-constant-structure",
        "ckpt-drop-redundant-extra-state",
        "ckpt-format",
        "clip-grad",
        "ddp-average-in-collective",
        "decoupled-lr",
        "decoupled-min-lr",
        "dist-ckpt-optim-fully-reshardable",
        "dist-ckpt-strictness",
        "distributed-backend",
        "disable-gloo-process-groups",
        "fim-data",
        "fim-rate",
        "fim-spm-rate",
        "finetune",
        "init-method-std",
        "logging-level",
        "manual-gc",
        "manual-gc-interval",
        "mock-data",
        "no-check-for-nan-in-loss-and-grad",
        "num-workers",
        "no-mmap-bin-files",
        "override-opt-param-scheduler",
        "override-opt_param-scheduler",
        "rerun-mode",
        "seed",
        "te-rng-tracker",
        "test-mode",
        "tiktoken-pattern",
        "tokenizer-model",
        "tokenizer-type",
        "train-iters",
        "train-samples",
        "use-checkpoint-opt_param-scheduler",
        "use-mcore-models",
        "use-persistent-ckpt-worker",
        "use-tp-pp-dp-mapping",
        "verify-integrity",
        # Arithmetic with the same tensors.
        "apply-layernorm-1p",
        "apply-query-key-layer-scaling",
        "apply-wd-to-qk-layernorm",
        "attention-softmax-in-fp32",
        "calculate-per-token-loss",
        "mscale",
        "mscale-all-dim",
        "mtp-loss-scaling-factor",
        "muon-extra-scale-factor",
        "muon-momentum",
        "muon-scale-mode",
        "no-persist-layer-norm",
        "norm-epsilon",
        "rotary-base",
        "rotary-interleaved",
        "rotary-percent",
        "rotary-scaling-factor",
        # Routing scores: a few values per token and expert, and a buffer of one per expert.
        "moe-aux-loss-coeff",
        "moe-router-bias-update-rate",
        "moe-router-load-balancing-type",
        "moe-z-loss-coeff",
        "moe-router-enable-expert-bias",
        "moe-router-group-topk",
        "moe-router-num-groups",
        "moe-router-pre-softmax",
        "moe-router-score-function",
        "moe-router-topk-scaling-factor",
        # The unfused rope and GeLU let go of what they read: the saved tensors are as many.
        "no-bias-gelu-fusion",
        "no-rope-fusion",
    }
)
"""Arguments that do not change the peak, or by less than an estimate can tell."""

AS_BY_DEFAULT = {
    "outer-dp-sharding-strategy": "no_shard",
    "megatron-fsdp-main-params-dtype": "fp32",
    "megatron-fsdp-main-grads-dtype": "fp32",
    "megatron-fsdp-grad-comm-dtype": "fp32",
}
"""Arguments without a field of the job, at the value that the service takes."""

ARGUMENTS = frozenset().union(
    MODEL, PARALLELISM, TRAINING, RECOMPUTE, MOE, FRAMEWORK, READ, WITHOUT_EFFECT
)


def job_of(row: Row) -> Job:
    """The job of a row with `training.raw_args`. Vocabulary and world size are the row's."""
    arguments: Arguments = row["training"]["raw_args"]
    by_default = {name for name, value in AS_BY_DEFAULT.items() if arguments.get(name) == value}
    if unknown := sorted(set(arguments) - ARGUMENTS - by_default):
        raise UnusableRowError(f"a job has no field for {', '.join(unknown)}")
    return Job.model_validate(
        {
            "model": {"spec": _model(arguments, row["model"]["vocab"])},
            "parallelism": _parallelism(arguments, row["parallelism"]["world_size"]),
            "training": _training(arguments),
            "framework": _framework(arguments),
            "gpu": gpu_of(row),
        }
    )


def _model(arguments: Arguments, vocabulary: int) -> Row:
    spec = _fields(arguments, MODEL) | {
        "vocab_size": vocabulary,
        "add_bias_linear": not arguments.get("disable-bias-linear", False),
    }
    if arguments.get("group-query-attention"):
        spec["num_query_groups"] = arguments["num-query-groups"]
    if arguments.get("use-rotary-position-embeddings"):
        spec["position_embedding_type"] = "rope"
    if arguments.get("squared-relu"):
        spec["activation_func"] = "squared_relu"
    if "moe-layer-freq" in arguments:
        spec["moe_layer_freq"] = layer_frequency(arguments["moe-layer-freq"])
    return spec


def layer_frequency(words: str | int) -> int | list[int]:
    """`--moe-layer-freq`: a number, or an expression like ([0]*3+[1]*5)."""
    if isinstance(words, int) or words.isdecimal():
        return int(words)
    return [
        int(flag)
        for flags, times in re.findall(r"\[([\d, ]+)\](?:\*(\d+))?", words)
        for flag in flags.split(",") * int(times or 1)
    ]


def _parallelism(arguments: Arguments, world_size: int) -> Row:
    fsdp = arguments.get("use-megatron-fsdp", False)
    strategy = arguments.get("data-parallel-sharding-strategy", "no_shard")
    distributed = arguments.get("use-distributed-optimizer", False)
    return _fields(arguments, PARALLELISM) | {
        "num_gpus": world_size,
        "sequence_parallel": arguments.get("sequence-parallel", False),
        "data_parallel_sharding_strategy": strategy
        if fsdp
        else "optim"
        if distributed
        else "no_shard",
    }


def _training(arguments: Arguments) -> Row:
    fused = arguments.get("cross-entropy-loss-fusion", False)
    fusion = f"{arguments.get('cross-entropy-fusion-impl', 'native')}_fused"
    return _fields(arguments, TRAINING) | {
        "precision": _precision(arguments),
        "optimizer": _optimizer(arguments),
        "recompute": _recompute(arguments),
        "attention": {
            "backend": _attention_backend(arguments),
            "dropout": float(arguments.get("attention-dropout", 0.1)),
        },
        "hidden_dropout": float(arguments.get("hidden-dropout", 0.1)),
        "loss": {"cross_entropy": fusion if fused else "unfused"},
        "moe": _moe(arguments) if "num-experts" in arguments else {},
    }


def _precision(arguments: Arguments) -> Row | str:
    """bf16 accumulates gradients in fp32 unless told otherwise."""
    if "fp8-format" in arguments:
        return {
            "fp8_recipe": arguments.get("fp8-recipe", "delayed"),
            "fp8_param_gather": arguments.get("fp8-param-gather", False),
        }
    if arguments.get("fp16"):
        return "fp16"
    if not arguments.get("bf16"):
        return "fp32"
    reduced = arguments.get("grad-reduce-in-bf16", False)
    return {
        "gradients": arguments.get("main-grads-dtype", "bf16" if reduced else "fp32"),
        "main_params": arguments.get("main-params-dtype", "fp32"),
    }


def _optimizer(arguments: Arguments) -> Row:
    return stated(
        {
            "name": arguments.get("optimizer", "adam"),
            "exp_avg_dtype": arguments.get("exp-avg-dtype"),
            "exp_avg_sq_dtype": arguments.get("exp-avg-sq-dtype"),
            "precision_aware": arguments.get("use-precision-aware-optimizer"),
            "cpu_offload_fraction": arguments.get("optimizer-offload-fraction", 1.0)
            if arguments.get("optimizer-cpu-offload")
            else None,
        }
    )


def _recompute(arguments: Arguments) -> Row:
    modules = arguments.get("recompute-modules")
    listed = {} if modules is None else {"modules": re.findall(r"\w+", str(modules))}
    return _fields(arguments, RECOMPUTE) | listed


def _attention_backend(arguments: Arguments) -> str:
    backend: str = arguments.get("attention-backend", "auto")
    return "flash" if backend == "auto" and arguments.get("use-flash-attn") else backend


def _moe(arguments: Arguments) -> Row:
    return _fields(arguments, MOE) | {
        "token_dispatcher_type": arguments.get("moe-token-dispatcher-type", "allgather"),
        "grouped_gemm": arguments.get("moe-grouped-gemm", False),
        "permute_fusion": arguments.get("moe-permute-fusion", False),
        "pad_expert_input_to_capacity": arguments.get("moe-pad-expert-input-to-capacity", False),
    }


def _framework(arguments: Arguments) -> Row:
    return _fields(arguments, FRAMEWORK) | {
        "name": "megatron",
        "create_attention_mask_in_dataloader": not arguments.get(
            "no-create-attention-mask-in-dataloader"
        ),
        "gradient_accumulation_fusion": not arguments.get("no-gradient-accumulation-fusion"),
        "overlap_grad_reduce": arguments.get("overlap-grad-reduce", False),
        "overlap_param_gather": arguments.get("overlap-param-gather", False),
    }


def _fields(arguments: Arguments, names: dict[str, str]) -> Row:
    return {field: arguments[name] for name, field in names.items() if name in arguments}
