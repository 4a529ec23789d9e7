"""NeMo AutoModel's recipes."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, Refused, said

MICRO, LENGTH = "/training/micro_batch_size", "/training/seq_length"
RECOMPUTE = "/training/recompute/granularity"
PEFT = "/training/peft"
WITHOUT_ADAPTERS = {
    f"{PEFT}/method": None,
    f"{PEFT}/r": None,
    f"{PEFT}/dropout": None,
    f"{PEFT}/target_modules": None,
    f"{PEFT}/adapter_dtype": None,
}

FINETUNE = Family(
    source="NVIDIA-NeMo/Automodel 36044ad3: components/config/_arg_parser.py (parse_cli_argv), "
    "components/config/loader.py (translate_value, set_by_dotted)",
    command="torchrun --nproc_per_node 8 finetune.py --config config.yaml",
    config={
        "step_scheduler.global_batch_size": "32",
        "step_scheduler.local_batch_size": "4",
        "model._target_": "nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained",
        "model.pretrained_model_name_or_path": "meta-llama/Llama-3.1-8B",
        "model.torch_dtype": "bf16",
        "distributed.strategy": "fsdp2",
        "distributed.tp_size": "1",
        "peft._target_": "nemo_automodel.components._peft.lora.PeftConfig",
        "peft.target_modules": "'*_proj'",
        "peft.dim": "8",
        "packed_sequence.packed_sequence_size": "2048",
        "optimizer._target_": "torch.optim.Adam",
    },
    rows={
        "--step_scheduler.local_batch_size 2": {MICRO: 2},
        "--step_scheduler.local_batch_size=2 --step_scheduler.local_batch_size=1": {MICRO: 1},
        "--step_scheduler.local-batch-size 2": LeftOut("step_scheduler.local-batch-size"),
        "--distributed.activation_checkpointing": {RECOMPUTE: "full"},
        "--distributed.activation_checkpointing True": {RECOMPUTE: "full"},
        "--distributed.activation_checkpointing false": {},
        "--distributed.activation_checkpointing yes": LeftOut(
            "distributed.activation_checkpointing"
        ),
        "--peft none": WITHOUT_ADAPTERS,
        "--peft.dim 16": {f"{PEFT}/r": 16},
        "--peft.dropout 1e-1": {f"{PEFT}/dropout": 0.1},
        "--distributed.tp_size none": {"/parallelism/tp": None},
        "--distributed.tp_size 2 --distributed.sequence_parallel": {
            "/parallelism/tp": 2,
            "/parallelism/sequence_parallel": True,
        },
        "--packed_sequence.packed_sequence_size 0": Refused("the longest sample decides"),
        "--fp8": LeftOut("fp8"),
        "--model.torch_dtype float32": {
            "/training/precision": "bf16",
            f"{PEFT}/adapter_dtype": "fp32",
        },
        said(step_scheduler__local_batch_size="0x2"): {MICRO: 2},
        said(distributed__strategy="ddp"): {
            "/framework/data_parallel_engine": "ddp",
            "/parallelism/data_parallel_sharding_strategy": "no_shard",
        },
    },
)
OWN = Family(
    source="NVIDIA-NeMo/Automodel 36044ad3: cli/app.py (build_parser)",
    command="automodel config.yaml",
    config={**FINETUNE.config, "distributed.dp_size": "4"},
    rows={
        "--nproc-per-node 8": {"/parallelism/num_gpus": 8},
        "--nproc_per_node=2": {"/parallelism/num_gpus": 2},
        "--fp8 none": {},
    },
)
