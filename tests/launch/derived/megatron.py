"""Megatron-LM's command lines, and those of its forks."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, Refused, said

MICRO, BATCH, LENGTH = (
    "/training/micro_batch_size",
    "/training/global_batch_size",
    "/training/seq_length",
)
TP, SEQUENCE = "/parallelism/tp", "/parallelism/sequence_parallel"
RECOMPUTE = "/training/recompute/granularity"
SHARDING = "/parallelism/data_parallel_sharding_strategy"
PRETRAIN = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 2048 "
    "--num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 "
    "--micro-batch-size 2 --global-batch-size 64 --vocab-size 50257 --bf16 "
    "--tensor-model-parallel-size 2"
)

LM = Family(
    source="Megatron-LM core_v0.19.0: megatron/training/arguments.py (parse_args: "
    "ArgumentParser(allow_abbrev=False))",
    command=PRETRAIN,
    given={"framework_version": "core_v0.19.0"},
    rows={
        "--micro-batch-size 4": {MICRO: 4},
        "--micro-batch-size=4": {MICRO: 4},
        "--micro-batch-size 4 --micro-batch-size 1": {MICRO: 1},
        "--micro-batch-size 1_0": {MICRO: 10},
        "--micro-batch-size 4.0": Refused("must be a whole number"),
        "--micro_batch_size 4": LeftOut("--micro_batch_size"),
        "--micro-batch 4": LeftOut("--micro-batch"),
        "--sequence-parallel": {SEQUENCE: True},
        "--sequence-parallel=true": Refused("takes no value"),
        "--sequence-parallel true": LeftOut("true"),
        "--no-sequence-parallel": LeftOut("--no-sequence-parallel"),
        "--bf16 false": LeftOut("false"),
        "--use-distributed-optimizer": {SHARDING: "optim"},
        "--recompute-activations": {RECOMPUTE: "selective"},
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1": {
            RECOMPUTE: "full",
            "/training/recompute/method": "uniform",
            "/training/recompute/num_layers": 1,
        },
        "--recompute-granularity whole": Refused("must be one of"),
        "--swiglu": {"/model/spec/swiglu": True},
        "--lr 1e-4": {},
        "--log-interval 10 extra": LeftOut("extra"),
    },
)
DEEPSPEED = Family(
    source="microsoft/Megatron-DeepSpeed: megatron/arguments.py; deepspeed/runtime/config.py",
    command=PRETRAIN.replace("--bf16", "--bf16 --deepspeed --deepspeed_config config.json"),
    path="config.json",
    config={
        "train_batch_size": "64",
        "train_micro_batch_size_per_gpu": "2",
        "zero_optimization.stage": "1",
        "bf16.enabled": "true",
    },
    rows={
        "--checkpoint-activations": {
            # that of 2021, whose options are the fork's
            "/framework/transformer_impl": "local",
            RECOMPUTE: "full",
            "/training/recompute/method": "uniform",
        },
        "--deepspeed-activation-checkpointing": {},
        "--zero-stage 2": {},
    },
)
YAML = Family(
    source="Megatron-LM core_v0.12.0: training/yaml_arguments.py (load_yaml), arguments.py "
    "(parse_args: what else the command line says is gone)",
    command="torchrun --nproc_per_node 8 pretrain_gpt.py --yaml-cfg config.yaml --bf16",
    given={
        "framework_version": "core_v0.12.0",
        "overrides": {"model": {"spec": {"vocab_size": 50257}}},
    },
    config={
        "language_model.num_layers": "24",
        "language_model.hidden_size": "2048",
        "language_model.num_attention_heads": "16",
        "language_model.activation_func": "swiglu",
        "model_parallel.tensor_model_parallel_size": "2",
        "model_parallel.sequence_parallel": "false",
        "model_parallel.bf16": "true",
        "micro_batch_size": "2",
        "global_batch_size": "64",
        "seq_length": "2048",
        "max_position_embeddings": "2048",
    },
    rows={
        "--micro-batch-size 4": {},
        said(micro_batch_size="4"): {MICRO: 4},
        said(micro_batch_size="0x4"): {MICRO: 4},
        said(global_batch_size="1_28"): {BATCH: 128},
        said(model_parallel__sequence_parallel="on"): {SEQUENCE: True},
        said(model_parallel__tensor_model_parallel_size="4"): {TP: 4},
        said(language_model__activation_func="gelu"): {"/model/spec/swiglu": None},
        said(seq_len="4"): LeftOut("seq_len"),
    },
)
SLIME = Family(
    source="THUDM/slime: slime/utils/arguments.py (parse_args, over Megatron-LM's parser)",
    command="python3 train.py --hf-checkpoint Qwen/Qwen3-4B --actor-num-nodes 1 "
    "--actor-num-gpus-per-node 8 --tensor-model-parallel-size 2 --use-dynamic-batch-size "
    "--max-tokens-per-gpu 9216 --swiglu --num-layers 36 --hidden-size 2560 --ffn-hidden-size 9728 "
    "--num-attention-heads 32 --group-query-attention --num-query-groups 8 --disable-bias-linear "
    "--normalization RMSNorm --kv-channels 128 --qk-layernorm --vocab-size 151936 "
    "--global-batch-size 128 --rollout-num-gpus 8",
    rows={
        "--max-tokens-per-gpu=4096": {LENGTH: 4096},
        "--max-tokens-per-gpu 4096 --max-tokens-per-gpu 1024": {LENGTH: 1024},
        "--max-tokens 4096": LeftOut("--max-tokens"),
        "--tensor-model-parallel-size 4": {TP: 4},
        "--context-parallel-size 2": {"/parallelism/cp": 2, LENGTH: 2 * 9216},
        "--colocate": LeftOut("--colocate"),
        # slime/backends/megatron_utils/loss.py: get_log_probs_and_entropy
        "--rollout-temperature 0.6": {"/training/loss/log_probs_by": "slime-divided"},
        "--entropy-coef 0.01": {"/training/loss/entropy": "whole"},
        "--log-probs-chunk-size 512": {},
    },
)
