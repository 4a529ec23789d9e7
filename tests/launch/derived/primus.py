"""Experiments of Primus, and what its command line says over them."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, Refused, said

MICRO, LENGTH, BATCH = (
    "/training/micro_batch_size",
    "/training/seq_length",
    "/training/global_batch_size",
)
OVER = "modules.pre_trainer.overrides"
HEAD = {
    "exp_name": "run",
    "modules.pre_trainer.framework": "megatron",
    "modules.pre_trainer.config": "pre_trainer.yaml",
    "modules.pre_trainer.model": "llama3.1_8B.yaml",
}

MEGATRON = Family(
    source="AMD-AGI/Primus v26.5.1: core/config/yaml_loader.py, core/utils/arg_utils.py "
    "(parse_cli_overrides)",
    command="primus-cli direct -- train pretrain --config config.yaml",
    given={"framework_version": "v26.5.1"},
    config=HEAD
    | {
        f"{OVER}.micro_batch_size": "${PRIMUS_MBS:2}",
        f"{OVER}.global_batch_size": "128",
        f"{OVER}.seq_length": "8192",
        f"{OVER}.max_position_embeddings": "8192",
        f"{OVER}.recompute_granularity": "null",
        f"{OVER}.mock_data": "true",
    },
    rows={
        "--micro_batch_size 4": {MICRO: 4},
        "--micro_batch_size=4": {MICRO: 4},
        "micro_batch_size=4": {MICRO: 4},
        "micro_batch_size=4 --micro_batch_size 8": {MICRO: 8},
        "--recompute_granularity full --recompute_method block --recompute_num_layers 2": {
            "/training/recompute/granularity": "full",
            "/training/recompute/method": "block",
            "/training/recompute/num_layers": 2,
        },
        "--recompute_granularity None": {},
        "--tensor_model_parallel_size 2": {
            "/parallelism/tp": 2,
            # its preset asks for it, and one rank has none
            "/parallelism/sequence_parallel": True,
        },
        "--use_distributed_optimizer False": {
            "/parallelism/data_parallel_sharding_strategy": "no_shard"
        },
        "--no_such_key 1": LeftOut("no_such_key"),
        said(**{f"{OVER}.micro_batch_size": "${PRIMUS_MBS}"}): Refused("PRIMUS_MBS"),
        said(**{f"{OVER}.micro_batch_size": "'${PRIMUS_MBS:4}'"}): {MICRO: 4},
        said(**{f"{OVER}.seq_length": "0x1000"}): {LENGTH: 4096},
        said(**{f"{OVER}.global_batch_size": ""}): {BATCH: 16},
    },
)
