"""nanotron's configs."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, Refused, said

MICRO, STEPS, LENGTH = (
    "/training/micro_batch_size",
    "/training/num_microbatches",
    "/training/seq_length",
)
RECOMPUTE = "/training/recompute/granularity"
SHARDING = "/parallelism/data_parallel_sharding_strategy"

TRAIN = Family(
    source="huggingface/nanotron 2411b022: run_train.py, config/config.py (get_config_from_dict), "
    "config/parallelism_config.py, config/models_config.py",
    command="torchrun --nproc_per_node 8 run_train.py --config-file config.yaml",
    config={
        "model.dtype": "bfloat16",
        "model.make_vocab_size_divisible_by": "1",
        "model.model_config.is_llama_config": "true",
        "model.model_config.hidden_size": "4096",
        "model.model_config.num_hidden_layers": "32",
        "model.model_config.num_attention_heads": "32",
        "model.model_config.intermediate_size": "11008",
        "model.model_config.vocab_size": "32000",
        "optimizer.accumulate_grad_in_fp32": "true",
        "optimizer.zero_stage": "1",
        "optimizer.optimizer_factory.name": "adamW",
        "optimizer.optimizer_factory.torch_adam_is_fused": "true",
        "parallelism.dp": "2",
        "parallelism.tp": "2",
        "parallelism.pp": "2",
        "parallelism.pp_engine": "1f1b",
        "parallelism.tp_mode": "REDUCE_SCATTER",
        "parallelism.recompute_layer": "false",
        "tokens.batch_accumulation_per_replica": "4",
        "tokens.micro_batch_size": "2",
        "tokens.sequence_length": "4096",
        "general.ignore_sanity_checks": "true",
    },
    rows={
        said(tokens__micro_batch_size="4"): {MICRO: 4},
        said(tokens__micro_batch_size="1_0"): {MICRO: 10},
        said(tokens__sequence_length="0x800"): {LENGTH: 2048},
        said(tokens__batch_accumulation_per_replica="1"): {STEPS: 1},
        said(tokens__limit_val_batches="0"): {},
        said(tokens__micro_batch="4"): LeftOut("tokens.micro_batch"),
        said(parallelism__recompute_layer="yes"): {RECOMPUTE: "full"},
        said(parallelism__recompute_layer=""): {},
        said(parallelism__pp_engine="afab"): {"/parallelism/pipeline_schedule": "gpipe"},
        said(parallelism__tp_mode="all_reduce"): {"/parallelism/sequence_parallel": False},
        said(parallelism__pp_engine="1F"): Refused("must be one of 1f1b, afab"),
        said(parallelism__dp="4"): Refused("make 16 GPUs, 8 are started"),
        said(parallelism__expert_parallel_size="1"): {"/parallelism/ep": 1},
        said(parallelism__context_parallel_size="null"): Refused("must be a whole number"),
        said(optimizer__zero_stage="0"): {SHARDING: "no_shard"},
        said(optimizer__zero_stage="3"): {},
        said(optimizer__accumulate_grad_in_fp32="no"): {"/training/precision": "bf16-pure"},
        said(optimizer__optimizer_factory__name="sgd"): {"/training/optimizer/name": "sgd"},
        said(model__dtype="float32"): LeftOut("model.dtype"),
        said(model__make_vocab_size_divisible_by="128"): {
            "/framework/make_vocab_size_divisible_by": 128
        },
        said(general__ignore_sanity_checks="false"): LeftOut("general.ignore_sanity_checks"),
    },
)
