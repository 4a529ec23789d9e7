"""NeMo 2's recipes, and what its command line says over them."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, Refused

MICRO, LENGTH = "/training/micro_batch_size", "/training/seq_length"
TP = "/parallelism/tp"

PRETRAIN = Family(
    source="NeMo 2.5: collections/llm/recipes/llama3_8b.py; NeMo-Run: cli/cli_parser.py",
    command="nemo llm pretrain --factory llama3_8b",
    given={"framework_version": "2.5"},
    rows={
        "data.micro_batch_size=2": {MICRO: 2},
        "data.micro_batch_size=2 data.micro_batch_size=4": {MICRO: 4},
        "data.micro_batch_size*=2": Refused("it is worked out"),
        "trainer.strategy.tensor_model_parallel_size=4": {TP: 4},
        "trainer.strategy.tensor_model_parallel_size=2 trainer.strategy.sequence_parallel=True": {
            TP: 2,
            "/parallelism/sequence_parallel": True,
        },
        "trainer.num_nodes=2": {"/parallelism/num_gpus": 16},
        "trainer.strategy.tensor_parallel=4": LeftOut("trainer.strategy.tensor_parallel"),
        "--yes": {},
        "-y --unknown": LeftOut("--unknown"),
    },
)
