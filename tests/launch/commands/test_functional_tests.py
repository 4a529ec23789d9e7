"""Megatron-LM's functional tests, whose arguments are in a YAML file."""

from __future__ import annotations

import pytest

from tests.launch.launches import launch_of, read
from trainfit.launch.errors import LaunchError

PATH = "tests/functional_tests/test_cases/gpt/small/model_config.yaml"
TEXT = """
ENV_VARS:
  CUDA_DEVICE_MAX_CONNECTIONS: 1
  PYTORCH_CUDA_ALLOC_CONF: expandable_segments:True
MODEL_ARGS:
  --num-layers: 4
  --hidden-size: 512
  --num-attention-heads: 8
  --seq-length: 1024
  --max-position-embeddings: 1024
  --micro-batch-size: 4
  --global-batch-size: 32
  --tensor-model-parallel-size: 2
  --sequence-parallel: true
  --use-mcore-models: true
  --bf16: true
  --recompute-granularity: selective
  --recompute-modules: [core_attn, mlp]
TEST_TYPE: regular
METRICS:
  - "lm loss"
"""


def test_arguments_are_those_of_a_command_line() -> None:
    over = {"parallelism": {"num_gpus": 8}}
    found = read(launch_of({PATH: TEXT}, overrides=over))
    command = (
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 "
        "--num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 "
        "--micro-batch-size 4 --global-batch-size 32 --tensor-model-parallel-size 2 "
        "--sequence-parallel --use-mcore-models --bf16 --recompute-granularity selective "
        "--recompute-modules core_attn mlp"
    )
    env = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    assert found.job == read(launch_of(argv=command.split(), env=env)).job
    assert {"TEST_TYPE", "METRICS"} <= found.irrelevant
    assert ("--num-layers", 6) in {(each.key, each.line) for each in found.account.recognised}


@pytest.mark.parametrize(
    ("env", "num_gpus", "whose"),
    [
        ({}, 8, "_run_training.sh of Megatron-LM's functional tests"),
        ({"GPUS_PER_NODE": "4", "NUM_NODES": "2"}, 8, None),
        ({"GPUS_PER_NODE": "4"}, 4, None),
        ({"WORLD_SIZE": "16"}, 16, None),
    ],
)
def test_as_many_gpus_run_it_as_its_runner_takes(
    env: dict[str, str], num_gpus: int, whose: str | None
) -> None:
    found = read(launch_of({PATH: TEXT}, env=env))
    assert found.job["parallelism"]["num_gpus"] == num_gpus
    defaults = {each.pointer: each.whose for each in found.account.defaulted}
    assert defaults.get("/parallelism/num_gpus") == whose


def test_the_vocabulary_of_the_tests_is_gpt_2s() -> None:
    vocabulary = "  --vocab-file: ${DATA_PATH}/text/the_pile/shard00/bpe/vocab.json\nTEST_TYPE"
    found = read(launch_of({PATH: TEXT.replace("TEST_TYPE", vocabulary)}))
    assert found.job["model"]["spec"]["vocab_size"] == 50_257


@pytest.mark.parametrize(
    ("folder", "why"), [("t5", "an encoder and a decoder"), ("bert", "reads both ways")]
)
def test_another_kind_of_model_is_refused(folder: str, why: str) -> None:
    with pytest.raises(LaunchError, match=why):
        read(launch_of({PATH.replace("gpt", folder): TEXT}))


def test_a_key_that_nobody_knows_is_unsupported() -> None:
    text = TEXT.replace("--bf16: true", "--bf16: true\n  --magic: 3")
    over = {"parallelism": {"num_gpus": 8}}
    assert "--magic" in read(launch_of({PATH: text}, overrides=over)).unsupported
