"""GPT-NeoX's configs."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, Refused, said

MICRO, LENGTH = "/training/micro_batch_size", "/training/seq_length"
STEPS = "/training/num_microbatches"
PRECISION = "/training/precision"
NARROW = {f"{PRECISION}/gradients": None, f"{PRECISION}/main_params": None}
"""What ZeRO sets beside bf16."""
GPUS = {"overrides": {"parallelism": {"num_gpus": 8}}}
CONFIG = {
    "pipe_parallel_size": "2",
    "model_parallel_size": "2",
    "num_layers": "32",
    "hidden_size": "4096",
    "num_attention_heads": "32",
    "seq_length": "4096",
    "max_position_embeddings": "4096",
    "pos_emb": "rotary",
    "no_weight_tying": "true",
    "attention_config": '[[["flash"], "all"]]',
    "zero_optimization.stage": "1",
    "train_micro_batch_size_per_gpu": "2",
    "gradient_accumulation_steps": "4",
    "tokenizer_type": "GPT2BPETokenizer",
}

DEEPY = Family(
    source="EleutherAI/gpt-neox ea7aefd8: neox_arguments/arguments.py (consume_deepy_args, "
    "from_ymls, calculate_derived)",
    command="python deepy.py train.py -d configs config.yml other.yml",
    path="configs/config.yml",
    given=GPUS,
    files={
        "configs/other.yml": "precision: bfloat16\n",
        "configs/unnamed.yml": "num_layers: 2\nhidden-size: 8\n",
    },
    config=CONFIG,
    rows={
        "third": Refused("third.yml was not sent"),
        "--hostfile hosts": {},
        said(train_micro_batch_size_per_gpu="0x4"): {MICRO: 4},
        said(train_micro_batch_size_per_gpu="", **{"train-micro-batch-size-per-gpu": "4"}): {
            MICRO: 4
        },
        said(model_parallel_size="4"): {"/parallelism/tp": 4},
        said(pipe_parallel_size="0"): {"/parallelism/pp": 1},
        said(seq_length="2048"): {LENGTH: 2048},
        said(gradient_accumulation_steps="null"): {STEPS: 1},
        said(gradient_accumulation_steps=""): {STEPS: 1},
        said(gradient_accumulation_steps="", train_batch_size="64"): {
            STEPS: None,
            "/training/global_batch_size": 64,
        },
        **{
            said(
                gradient_accumulation_steps="2",
                train_micro_batch_size_per_gpu=micro,
                train_batch_size="64",
            ): {MICRO: 16, STEPS: None, "/training/global_batch_size": 64}
            for micro in ("", "null")
        },
        said(num_layer="2"): LeftOut("num_layer"),
        said(checkpoint_activations="yes"): {
            "/training/recompute/granularity": "full",
            "/training/recompute/method": "uniform",
        },
    },
)
OF_PRECISION = Family(
    source="EleutherAI/gpt-neox ea7aefd8: neox_arguments/arguments.py: derive precision",
    path="config.yml",
    given=GPUS,
    config=CONFIG | {"precision": "bfloat16"},
    rows={
        said(precision="", bf16__enabled="true"): {},
        said(precision="", fp16__enabled="false", bf16__enabled="true"): {},
        said(precision="null", bf16__enabled="true"): {},
        said(precision="", bf16__enabled="false"): {**NARROW, PRECISION: "fp32"},
        said(precision=""): {**NARROW, PRECISION: "fp32"},
        said(precision="fp32"): {**NARROW, PRECISION: "fp32"},
        said(precision="fp16"): {**NARROW, PRECISION: "fp16"},
        said(precision="", fp16__enabled="true"): {**NARROW, PRECISION: "fp16"},
    },
)
