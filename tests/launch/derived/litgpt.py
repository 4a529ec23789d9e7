"""litgpt's commands."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, Refused, said

MICRO, LENGTH = "/training/micro_batch_size", "/training/seq_length"
RANK, TARGETS = "/training/peft/r", "/training/peft/target_modules"
MODEL = "/model/hf_id"
CONFIG = {
    "checkpoint_dir": "checkpoints/meta-llama/Meta-Llama-3-8B",
    "precision": "bf16-true",
    "devices": "2",
    "quantize": "null",
    "lora_r": "32",
    "lora_key": "false",
    "lora_mlp": "true",
    "train.global_batch_size": "64",
    "train.micro_batch_size": "4",
    "train.max_seq_length": "512",
}

ALL = ["q_proj", "v_proj", "gate_proj", "up_proj", "down_proj"]

LORA = Family(
    source="litgpt 0.5.13: __main__.py, finetune/lora.py (setup), args.py; jsonargparse 4.53: what "
    "is given later counts, a file and an argument without a name too",
    command="litgpt finetune_lora --config config.yaml",
    config=CONFIG,
    rows={
        "--train.micro_batch_size 8": {MICRO: 8},
        "--train.micro_batch_size=1_0": {MICRO: 10},
        "--train.micro_batch_size 8 --train.micro_batch_size 2": {MICRO: 2},
        "--train.micro 8": LeftOut("train.micro"),
        "--train.micro_batch_size 8 --config config.yaml": {},
        "meta-llama/Llama-3.2-1B": {MODEL: "meta-llama/Llama-3.2-1B"},
        "--lora_r 8 checkpoints/meta-llama/Llama-3.2-1B": {
            RANK: 8,
            MODEL: "meta-llama/Llama-3.2-1B",
        },
        "--lora_key yes": {TARGETS: ["q_proj", "k_proj", *ALL[1:]]},
        "--lora_mlp off": {TARGETS: ["q_proj", "v_proj"]},
        "--train.max_seq_length null": Refused("the longest sample decides"),
        "--train.max_seq_len 4": LeftOut("train.max_seq_len"),
        "--quantize bnb.nf4": {
            "/training/peft/quantization": "nf4",
            "/training/peft/double_quantization": False,
            "/training/optimizer/paged": True,
            "/training/optimizer/implementation": "fused",
        },
        "--precision null": {},
        "--precision 32-true": {"/training/precision": "fp32"},
        "--lora_dropout 1e-1": {"/training/peft/dropout": 0.1},
        "--devices auto": Refused("how many devices"),
        "--devices 4 --num_nodes 2": {"/parallelism/num_gpus": 8},
        said(train__micro_batch_size="8"): {MICRO: 8},
        said(train__micro_batch_size="null"): {MICRO: 1},
        said(train__max_seq_length="null"): Refused("the longest sample decides"),
        said(lora_key="on"): {TARGETS: ["q_proj", "k_proj", *ALL[1:]]},
        said(quantize="bnb.int8"): LeftOut("quantize"),
    },
)
