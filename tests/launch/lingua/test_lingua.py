"""lingua's configs, by jobs worked out by hand from its trainer and its decoder."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.launches import Read, launch_of, read
from tests.launch.mutations import check_every_key
from trainfit.launch.errors import LaunchError
from trainfit.questions.python import estimate

# facebookresearch/lingua apps/main/configs/llama_7B.yaml, shortened
LLAMA = """
name: "7b_baseline"
steps: 100_000
grad_acc_steps: 4
optim: {lr: 1.0e-3, warmup: 2000, clip: 1.0}
distributed:
  fsdp_type: full_shard
  compile: true
  model_dtype: bf16
  selective_activation_checkpointing: false
  tp_size: 1
model: {dim: 4096, n_layers: 32, n_heads: 32, ffn_dim_multiplier: 1.0, multiple_of: 256}
data:
  root_dir: data/shuffled
  sources: {dclm_baseline_1.0: 1.0}
  batch_size: 2
  seq_len: 4096
  tokenizer: {name: tiktoken, path: tokenizers/cl_toplang_128k.tiktoken}
checkpoint: {dump: {every: 10000, keep: -1}}
"""
ROWS: Any = {"model": {"spec": {"vocab_size": 128_256}}}
GPUS: Any = {"parallelism": {"num_gpus": 32}}
TRAIN = ["torchrun", "--nproc_per_node", "8", "--nnodes", "2", "-m", "apps.main.train"]


def config(*said: str, **others: Any) -> Read:
    """The config with words over it, on 16 GPUs."""
    words = [*TRAIN, "config=llama.yaml", *said]
    return read(launch_of({"llama.yaml": LLAMA}, words, overrides=ROWS, **others))


def test_a_config_alone() -> None:
    found = read(launch_of({"llama.yaml": LLAMA}, overrides=ROWS | GPUS))
    fields = {name: value for name, value in found.fields().items() if name != "/model"}
    assert fields == {
        "/framework/name": "torchtitan",
        "/framework/compile": True,
        # build_fsdp_grouping_plan: layers keep their gathered weights for backward
        "/framework/fsdp_reshard_after_forward": "never",
        "/framework/expandable_segments": False,
        "/parallelism/num_gpus": 32,
        "/parallelism/tp": 1,
        "/parallelism/data_parallel_sharding_strategy": "optim_grads_params",
        "/training/micro_batch_size": 2,
        "/training/num_microbatches": 4,
        "/training/seq_length": 4096,
        "/training/precision/params": "fp32",
        "/training/precision/compute": "bf16",
        "/training/precision/gradients": "fp32",
        "/training/optimizer/implementation": "fused",
        "/training/loss/cross_entropy": "fused",
    }
    spec = found.field("/model/spec")
    # int(2 * 4 * 4096 / 3) = 10922, up to a multiple of 256
    assert (spec["ffn_hidden_size"], spec["kv_channels"], spec["num_query_groups"]) == (
        11008,
        128,
        32,
    )
    assert spec["untie_embeddings_and_output_weights"] is True
    assert not found.left_out
    # of Llama 2's dimensions: L (4 h h + 3 h f + 2 h) + 2 V h + h
    layers = 32 * (4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096)
    priced = estimate({**found.job, "gpu": "H100-80GB"})
    assert priced.model.parameters.total == layers + 2 * 128_256 * 4096 + 4096


def test_words_count_over_the_file_and_torchrun_says_how_many() -> None:
    found = config("data.batch_size=1", "model.weight_tying=true", "model.n_kv_heads=8")
    assert found.field("/parallelism/num_gpus") == 16
    assert found.field("/training/micro_batch_size") == 1
    assert found.field("/model/spec/untie_embeddings_and_output_weights") is False
    (copies,) = found.account.bounded
    # keys and values of 32 heads in bf16, in each layer
    assert (copies.key, copies.bytes) == ("model.n_kv_heads", 2 * 2 * 32 * 4096 * 32 * 128)


def test_shards_within_replicas() -> None:
    found = config("distributed.dp_shard=8")
    assert found.field("/parallelism/data_parallel_replicate_size") == 2
    with pytest.raises(LaunchError, match="does not divide 16 GPUs"):
        config("distributed.dp_shard=3")
    alone = LLAMA.replace("tp_size: 1", "dp_replicate: 4\n  dp_shard: 8\n  tp_size: 2")
    found = read(launch_of({"llama.yaml": alone}, overrides=ROWS))
    assert found.field("/parallelism/num_gpus") == 64
    assert found.field("/framework/loss_parallel") is False


def test_stool_asks_for_nodes_of_eight() -> None:
    words = ["python", "-m", "lingua.stool", "script=apps.main.train", "config=llama.yaml"]
    given = [*words, "nodes=4", "partition=x"]
    found = read(launch_of({"llama.yaml": LLAMA}, given, overrides=ROWS))
    assert found.field("/parallelism/num_gpus") == 32
    with pytest.raises(LaunchError, match="the number of GPUs is not said"):
        read(launch_of({"llama.yaml": LLAMA}, words, overrides=ROWS))


def test_what_is_asked_for() -> None:
    with pytest.raises(LaunchError, match="vocabulary is the tokenizer's"):
        read(launch_of({"llama.yaml": LLAMA}, overrides=GPUS))
    of_bytes = LLAMA.replace("name: tiktoken", "name: bytes")
    found = read(launch_of({"llama.yaml": of_bytes}, overrides=GPUS))
    assert found.field("/model/spec/vocab_size") == 258
    with pytest.raises(LaunchError, match=r"other\.yaml; send that file"):
        read(launch_of({"llama.yaml": LLAMA}, [*TRAIN, "config=other.yaml"]))
    with pytest.raises(LaunchError, match="send one config"):
        read(launch_of({"a.yaml": LLAMA, "b.yaml": LLAMA}, TRAIN))


@pytest.mark.parametrize(
    ("word", "key", "direction"),
    [
        ("distributed.fsdp_type=no_shard", "distributed.fsdp_type", "either"),
        ("distributed.float8_recipe=rowwise", "distributed.float8_recipe", "either"),
        ("distributed.model_dtype=fp16", "distributed.model_dtype", "either"),
        ("model.sliding_window=512", "model.sliding_window", "either"),
        ("model.state_dim=128", "model.state_dim", "either"),
    ],
)
def test_what_is_not_modelled(word: str, key: str, direction: str) -> None:
    (told,) = config(word).account.unsupported
    assert (told.key, told.direction) == (key, direction)


def test_what_is_bounded() -> None:
    found = config("distributed.compile=false", "probe_freq=100")
    bounded = {each.key: each for each in found.account.bounded}
    assert bounded.keys() == {"distributed.compile", "probe_freq"}
    # two fp32 tensors of each of three norms of a layer
    assert bounded["distributed.compile"].bytes == 3 * 2 * 4 * 32 * 8192 * 4096
    probe = bounded["probe_freq"]
    assert (probe.apart, probe.bytes) == (True, 28 * 128_256 * 4096)
    assert {each.pointer: each.value for each in probe.within}["/training/micro_batch_size"] == 1
    checkpoints = config("distributed.selective_activation_checkpointing=true")
    (told,) = checkpoints.account.bounded
    assert told.direction == "lowers"


def test_no_key_that_decides_goes_unnoticed() -> None:
    assert check_every_key(launch_of({"llama.yaml": LLAMA}, overrides=ROWS | GPUS)) > 8
