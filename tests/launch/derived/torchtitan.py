"""torchtitan's TOML and options."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, said

MICRO, LENGTH = "/training/micro_batch_size", "/training/seq_length"
RECOMPUTE, EVERY = "/training/recompute/granularity", "/training/recompute/every_nth_layer"
LOSS = "/training/loss/cross_entropy"
TP, PP = "/parallelism/tp", "/parallelism/pp"

TRAIN = Family(
    source="torchtitan v0.2.2: config/manager.py, config/job_config.py; tyro 1.0",
    command="torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file config.toml",
    path="config.toml",
    given={"framework_version": "v0.2.2"},
    config={
        "model.name": '"llama3"',
        "model.flavor": '"8B"',
        "training.local_batch_size": "2",
        "training.seq_len": "4096",
        "compile.enable": "true",
        "activation_checkpoint.mode": '"selective"',
        "activation_checkpoint.selective_ac_option": '"op"',
        "parallelism.tensor_parallel_degree": "2",
    },
    rows={
        "--training.local_batch_size 4": {MICRO: 4},
        "--training.local-batch-size=4": {MICRO: 4},
        "--training.local_batch_size 4 --training.local_batch_size 8": {MICRO: 8},
        "--training.local_batch 4": LeftOut("training.local_batch"),
        "--training.seq_len 1_024": {LENGTH: 1024},
        "--training.global_batch_size -1": {},
        "--compile.enable": {},
        "--compile.no-enable": {"/framework/compile": False, LOSS: None},
        "--compile.no_enable": {"/framework/compile": False, LOSS: None},
        "--compile.components model": {LOSS: None},
        "--compile.components loss": {"/framework/compile": False},
        "--compile.components model,loss": {},
        "--activation_checkpoint.mode full": {RECOMPUTE: "full"},
        "--activation-checkpoint.mode none": {RECOMPUTE: None},
        "--activation_checkpoint.selective_ac_option 2": {RECOMPUTE: "full", EVERY: 2},
        "--parallelism.tensor_parallel_degree=4": {TP: 4},
        "--parallelism.enable_async_tensor_parallel": LeftOut(
            "parallelism.enable_async_tensor_parallel"
        ),
        "--parallelism.fsdp_reshard_after_forward never": {
            "/framework/fsdp_reshard_after_forward": "never"
        },
        "--optimizer.implementation foreach": {"/training/optimizer/implementation": "foreach"},
        "--training.foo 3": LeftOut("training.foo"),
        said(training__local_batch_size="0x4"): {MICRO: 4},
        said(training__local_batch_size="1_0"): {MICRO: 10},
        said(training__dtype='"bfloat16"'): {"/training/precision/params": "bf16"},
        said(compile__enable=""): {"/framework/compile": False, LOSS: None},
        said(activation_checkpoint__mode=""): {},
        said(activation_checkpoint__selective_ac_option=""): {RECOMPUTE: "full", EVERY: 2},
        said(training__local_batch_size=""): {MICRO: 8},
        said(training__seq_len=""): {LENGTH: 2048},
    },
)
