"""lingua's apps/main."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, Refused, said

MICRO, STEPS, LENGTH = (
    "/training/micro_batch_size",
    "/training/num_microbatches",
    "/training/seq_length",
)

MAIN = Family(
    source="facebookresearch/lingua 437d680: apps/main/train.py (main, TrainArgs); OmegaConf 2.3 "
    "(from_cli, structured, merge)",
    command="torchrun --nproc_per_node 8 -m apps.main.train config=config.yaml",
    config={
        "grad_acc_steps": "4",
        "distributed.fsdp_type": "full_shard",
        "distributed.compile": "true",
        "distributed.model_dtype": "bf16",
        "distributed.tp_size": "1",
        "model.dim": "4096",
        "model.n_layers": "32",
        "model.n_heads": "32",
        "data.batch_size": "2",
        "data.seq_len": "4096",
        "data.tokenizer.name": "bytes",
    },
    rows={
        "data.batch_size=4": {MICRO: 4},
        "data.batch_size=4 data.batch_size=3": {MICRO: 3},
        "'data={batch_size: 4}'": {MICRO: 4},
        "data.seq_len=1_024": {LENGTH: 1024},
        "data.seqlen=1024": LeftOut("data.seqlen"),
        "data.seq_len=${model.dim}": {},
        "grad_acc_steps=1": {STEPS: 1},
        "distributed.tp_size=2": {"/parallelism/tp": 2, "/framework/loss_parallel": False},
        "distributed.dp_shard=4": {"/parallelism/data_parallel_replicate_size": 2},
        "distributed.dp_shard=3": Refused("does not divide 8 GPUs"),
        "distributed.compile=no": LeftOut("distributed.compile"),
        "distributed.fsdp_type=no_shard": LeftOut("distributed.fsdp_type"),
        "distributed.selective_activation_checkpointing=yes": LeftOut(
            "distributed.selective_activation_checkpointing"
        ),
        "--data.batch_size=4": LeftOut("--data.batch_size"),
        said(data__batch_size="8"): {MICRO: 8},
        said(data__batch_size=""): {},
        said(data__seq_len=""): {LENGTH: 2048},
        said(grad_acc_steps=""): {STEPS: 1},
        said(distributed__fsdp_type=""): LeftOut("fsdp_type"),
    },
)
