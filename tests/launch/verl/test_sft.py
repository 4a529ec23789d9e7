"""verl's trainer on samples, by jobs worked out by hand from its configs and its engine."""

from __future__ import annotations

import pytest

from tests.launch.launches import Read, launch_of, read
from trainfit.launch.errors import LaunchError
from trainfit.launch.read import read_launch

COMMAND = (
    "torchrun --standalone --nnodes=1 --nproc_per_node=8 -m verl.trainer.sft_trainer "
    "model.path=Qwen/Qwen3-8B data.train_files=train.parquet optim.lr=1e-4 engine=fsdp "
)


def trained(words: str = "") -> Read:
    return read(launch_of(argv=(COMMAND + words).split()))


def test_what_nothing_says_is_as_the_config_has_it() -> None:
    """sft_trainer_engine.yaml, engine/fsdp.yaml, model/hf_model.yaml, optim/fsdp.yaml."""
    found = trained()
    fields = {name: value for name, value in found.fields().items() if name != "/model"}
    assert fields == {
        "/framework/name": "transformers",
        "/framework/data_parallel_engine": "fsdp1",
        "/framework/sync_each_micro_batch": True,
        "/framework/expandable_segments": False,
        "/parallelism/num_gpus": 8,
        "/parallelism/data_parallel_sharding_strategy": "optim_grads_params",
        "/training/micro_batch_size": 1,
        # data.max_token_len_per_gpu, packed
        "/training/seq_length": 8192,
        # 256 samples of 1024 tokens over 8 ranks, 8 of them in a micro-batch
        "/training/num_microbatches": 4,
        "/training/precision/params": "fp32",
        "/training/precision/compute": "bf16",
        "/training/precision/gradients": "fp32",
        "/training/optimizer/implementation": "foreach",
        "/training/recompute/granularity": "full",
        "/training/loss/objective": "policy",
        "/training/loss/log_probs_by": "verl",
    }
    assert not found.left_out


def test_ranks_share_a_sequence_and_adapters_are_trained() -> None:
    found = trained("engine.ulysses_sequence_parallel_size=2 model.lora_rank=32")
    assert found.field("/training/seq_length") == 2 * 8192
    assert found.field("/parallelism/cp") == 2
    assert found.field("/parallelism/cp_comm_type") == "a2a"
    assert found.field("/training/peft/r") == 32
    assert found.field("/training/peft/target_modules") == "all-linear"


def test_micro_batches_of_samples_are_as_long_as_the_longest() -> None:
    words = "data.use_dynamic_bsz=False data.micro_batch_size_per_gpu=2 data.max_length=2048"
    found = trained(words)
    assert found.field("/training/micro_batch_size") == 2
    assert found.field("/training/seq_length") == 2048
    assert found.field("/training/num_microbatches") == 16


@pytest.mark.parametrize("engine", ["megatron", "veomni"])
def test_other_engines_are_refused(engine: str) -> None:
    with pytest.raises(LaunchError, match=engine):
        trained(f"engine={engine}")


OLDER = (
    "torchrun --standalone --nnodes=1 --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer "
    "data.train_files=train.parquet data.prompt_key=question +data.prompt_dict_keys=['question'] "
    "model.partial_pretrain=Qwen/Qwen3-8B optim.lr=1e-4 trainer.total_epochs=1 "
)


def older(words: str = "") -> Read:
    return read(launch_of(argv=(OLDER + words).split()))


def test_the_trainer_before_it_pads_and_copies_logits() -> None:
    """sft_trainer.yaml, fsdp_sft_trainer.py at v0.7.0."""
    found = older()
    fields = {name: value for name, value in found.fields().items() if name != "/model"}
    assert fields == {
        "/framework/name": "transformers",
        "/framework/data_parallel_engine": "fsdp2",
        "/framework/sync_each_micro_batch": True,
        "/framework/expandable_segments": False,
        "/parallelism/num_gpus": 8,
        "/parallelism/data_parallel_sharding_strategy": "optim_grads_params",
        "/training/micro_batch_size": 4,
        "/training/seq_length": 1024,
        # 256 samples over 8 ranks, 4 in a micro-batch
        "/training/num_microbatches": 8,
        "/training/precision/params": "fp32",
        "/training/precision/compute": "bf16",
        "/training/precision/gradients": "fp32",
        "/training/optimizer/implementation": "foreach",
        "/training/recompute/granularity": "full",
        "/training/loss/shifted": "logits",
    }
    bounded = {each.key: (each.direction, each.within[0].value) for each in found.account.bounded}
    assert bounded == {"model.strategy": ("either", "fsdp1"), "shift_logits": ("lowers", "labels")}
    assert not found.unsupported
    told = older("model.strategy=fsdp data.micro_batch_size_per_gpu=2 data.max_length=4096")
    assert told.field("/framework/data_parallel_engine") == "fsdp1"
    assert told.field("/training/num_microbatches") == 16
    assert told.bounded == {"shift_logits"}


def test_its_ranks_share_a_sequence_without_padding() -> None:
    found = older("ulysses_sequence_parallel_size=2 use_remove_padding=true model.strategy=fsdp")
    assert found.field("/parallelism/cp") == 2
    assert found.field("/training/loss/shifted") is None
    assert not found.left_out


@pytest.mark.parametrize(
    ("words", "key", "left"),
    [
        ("model.use_liger=True", "model.use_liger", "bounded"),
        ("model.fsdp_config.cpu_offload=True", "model.fsdp_config.cpu_offload", "unsupported"),
        ("model.fsdp_config.wrap_policy.min_num_params=1", "wrap_policy", "unsupported"),
    ],
)
def test_what_the_older_one_does_besides(words: str, key: str, left: str) -> None:
    found = older(words)
    assert any(key in each for each in getattr(found, left))


def test_micro_batches_of_all_ranks_are_of_its_first_release() -> None:
    """fsdp_sft_trainer.py and sft_trainer.yaml at v0.1: FSDP1, nothing recomputed unless asked, and
    samples of a micro-batch are shared out. v0.2 has data.micro_batch_size_per_gpu in its place.
    """
    found = older("data.micro_batch_size=16")
    assert found.field("/training/micro_batch_size") == 2
    assert found.field("/training/num_microbatches") == 16
    assert found.field("/training/recompute/granularity") is None
    assert found.field("/framework/data_parallel_engine") == "fsdp1"
    assert found.left_out == {"shift_logits"}
    found = older("data.micro_batch_size=16 data.micro_batch_size_per_gpu=4")
    assert found.field("/training/micro_batch_size") == 4
    assert "data.micro_batch_size" in found.irrelevant


def test_it_kept_layers_until_v0_4_0() -> None:
    reading = read_launch(launch_of(argv=f"{OLDER} trainer.resume_path=null".split()))
    assert (reading.launch.releases, reading.job["training"]["recompute"]["granularity"]) == (
        "verl v0.4.1",
        "full",
    )
    assert [(each.releases, len(each.differences)) for each in reading.launch.variants] == [
        ("verl v0.4.0", 1),
        ("verl v0.2 to v0.3.0", 2),
        ("verl v0.1", 4),
    ]


@pytest.mark.parametrize(
    ("version", "engine", "recomputes"),
    [("v0.3.0", "fsdp1", False), ("v0.4.0", "fsdp2", False), ("v0.6.1", "fsdp2", True)],
)
def test_a_release_of_it_is_read_as_it_is(version: str, engine: str, recomputes: bool) -> None:
    found = read(launch_of(argv=OLDER.split(), framework_version=version))
    assert found.field("/framework/data_parallel_engine") == engine
    assert (found.field("/training/recompute/granularity") == "full") is recomputes
    assert found.left_out == {"shift_logits"}


def test_its_config_alone_is_read_too() -> None:
    text = """
data: {train_batch_size: 256, micro_batch_size: null, micro_batch_size_per_gpu: 2, max_length: 512}
model: {partial_pretrain: ~/models/Qwen3-8B, fsdp_config: {cpu_offload: False}}
optim: {lr: 1e-5, warmup_steps_ratio: 0.1}
trainer: {project_name: gsm8k-sft, total_epochs: 4}
"""
    found = read(launch_of({"sft.yaml": text}, overrides={"parallelism": {"num_gpus": 8}}))
    assert found.field("/training/micro_batch_size") == 2
    assert found.field("/training/seq_length") == 512
    assert found.field("/training/loss/shifted") == "logits"
