"""LLaMA-Factory's configs and arguments."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, Refused, said

MICRO, STEPS, LENGTH = (
    "/training/micro_batch_size",
    "/training/num_microbatches",
    "/training/seq_length",
)
PEFT = "/training/peft"
WITHOUT_RECOMPUTE = {
    "/training/recompute/granularity": None,
    "/training/recompute/use_reentrant": None,
}
CONFIG = {
    "model_name_or_path": "meta-llama/Meta-Llama-3-8B",
    "stage": "sft",
    "finetuning_type": "lora",
    "lora_rank": "16",
    "lora_target": "q_proj,v_proj",
    "template": "llama3",
    "cutoff_len": "1024",
    "flash_attn": "fa2",
    "per_device_train_batch_size": "2",
    "gradient_accumulation_steps": "8",
    "bf16": "true",
}
ONE = {"env": {"CUDA_VISIBLE_DEVICES": "0"}, "overrides": {"parallelism": {"num_gpus": 1}}}

CONFIGURED = Family(
    source="hiyouga/LLaMA-Factory 0.9.5: hparams/parser.py (read_args: OmegaConf.from_cli over the "
    "file), hparams/finetuning_args.py; transformers: HfArgumentParser.parse_dict",
    command="llamafactory-cli train config.yaml",
    given=ONE,
    config=CONFIG,
    rows={
        "per_device_train_batch_size=4": {MICRO: 4},
        "per_device_train_batch_size=4 per_device_train_batch_size=1": {MICRO: 1},
        "--per_device_train_batch_size 4": Refused("without dashes"),
        "cutoff_len=2_048": {LENGTH: 2048},
        "lora_rank=8 lora_dropout=1e-1": {f"{PEFT}/r": 8, f"{PEFT}/dropout": 0.1},
        "lora_target=all": {f"{PEFT}/target_modules": "all-linear"},
        "lora_target=[q_proj,k_proj]": {f"{PEFT}/target_modules": ["q_proj", "k_proj"]},
        "quantization_bit=4": {
            f"{PEFT}/quantization": "nf4",
            f"{PEFT}/double_quantization": True,
        },
        "finetuning_type=full": {
            f"{PEFT}/{each}": None for each in ("method", "r", "base_dtype", "target_modules")
        },
        "disable_gradient_checkpointing=yes": WITHOUT_RECOMPUTE,
        "cut_off_len=4": LeftOut("cut_off_len"),
        said(gradient_accumulation_steps=""): {STEPS: None},
        said(lora_rank=""): {f"{PEFT}/r": 8},
        said(lora_target=""): {f"{PEFT}/target_modules": "all-linear"},
        said(lora_target="[q_proj, v_proj]"): {},
        said(cutoff_len=""): {LENGTH: 2048},
        said(pure_bf16="true", bf16=""): {
            "/training/precision": "bf16-pure",
            f"{PEFT}/base_dtype": None,
        },
        said(max_seq_length="4096"): LeftOut("max_seq_length"),
    },
)
ARGUMENTS = Family(
    source="hiyouga/LLaMA-Factory 0.9.5: hparams/parser.py; transformers: hf_argparser.py",
    command="llamafactory-cli train --stage sft --do_train True --finetuning_type lora "
    "--model_name_or_path meta-llama/Meta-Llama-3-8B --template llama3 --cutoff_len 1024 "
    "--per_device_train_batch_size 2 --bf16 True --flash_attn fa2 --lora_target q_proj,v_proj",
    given=ONE,
    rows={
        "--per_device_train_batch_size=4": {MICRO: 4},
        "--per-device-train-batch-size 4": {MICRO: 4},
        "--per_device_train_batch_size 4 --per_device_train_batch_size 1": {MICRO: 1},
        "--lora_rank 32": {f"{PEFT}/r": 32},
        "--disable_gradient_checkpointing": WITHOUT_RECOMPUTE,
        "--disable_gradient_checkpointing f": {},
    },
)
