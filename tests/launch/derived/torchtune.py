"""torchtune's recipes."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, Refused, said

MICRO, STEPS, LENGTH = (
    "/training/micro_batch_size",
    "/training/num_microbatches",
    "/training/seq_length",
)
RECOMPUTE = "/training/recompute/granularity"
OFFLOAD = "/framework/offload_params"

FULL = Family(
    source="torchtune 0.6.1: config/_parse.py, config/_utils.py (_merge_yaml_and_cli_args), "
    "recipes/full_finetune_distributed.py",
    command="tune run --nproc_per_node 8 full_finetune_distributed --config config.yaml",
    config={
        "model._component_": "torchtune.models.llama3_1.llama3_1_8b",
        "tokenizer._component_": "torchtune.models.llama3.llama3_tokenizer",
        "tokenizer.max_seq_len": "2048",
        "optimizer._component_": "torch.optim.AdamW",
        "optimizer.fused": "true",
        "loss._component_": "torchtune.modules.loss.LinearCrossEntropyLoss",
        "batch_size": "2",
        "gradient_accumulation_steps": "4",
        "fsdp.cpu_offload": "true",
        "enable_activation_checkpointing": "true",
        "compile": "true",
        "dtype": "bf16",
    },
    rows={
        "batch_size=4": {MICRO: 4},
        "batch_size=4 batch_size=3": {MICRO: 3},
        "batch_size=0x4": {MICRO: 4},
        "batch_size=${gradient_accumulation_steps}": {MICRO: 4},
        "--batch_size=4": LeftOut("--batch_size"),
        "batch-size=4": LeftOut("batch-size"),
        "tokenizer.max_seq_len=4_096": {LENGTH: 4096},
        "tokenizer.max_seq_len=None": Refused("how long a sample may be"),
        "compile=off": LeftOut("loss._component_"),
        "fsdp=null": {OFFLOAD: None},
        "fsdp=None": {OFFLOAD: None},
        "~fsdp": {OFFLOAD: None},
        "~fsdp.cpu_offload": {OFFLOAD: None},
        "'fsdp={cpu_offload: false}'": {OFFLOAD: False},
        "enable_activation_checkpointing=False": {RECOMPUTE: None},
        "optimizer=torch.optim.SGD": {"/training/optimizer/name": "sgd"},
        "optimizer.fused=false": {"/training/optimizer/implementation": "foreach"},
        said(batch_size="${gradient_accumulation_steps}"): {MICRO: 4},
        said(compile__model="true", compile=""): {},
    },
)
