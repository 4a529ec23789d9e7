"""Loops whose models have a head of one value, and losses of preferences without pairs or without a
reference.
"""

from __future__ import annotations

import pytest

from tests.launch.launches import Read, launch_of, read
from trainfit.questions.python import estimate

TRL = (
    "python {}.py --model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size 2 "
    "--max_length 1024 --bf16 --gradient_checkpointing --output_dir out"
)
SWIFT = (
    "swift rlhf --rlhf_type {} --model Qwen/Qwen2.5-7B-Instruct --torch_dtype bfloat16 "
    "--per_device_train_batch_size 1 --max_length 2048 --deepspeed zero2 {}"
)
FACTORY = """model_name_or_path: Qwen/Qwen2.5-7B-Instruct
stage: STAGE
finetuning_type: lora
template: qwen
cutoff_len: 2048
per_device_train_batch_size: 1
bf16: true
"""
AXOLOTL = """base_model: google/gemma-2-2b
model_type: AutoModelForSequenceClassification
num_labels: 1
reward_model: true
sequence_len: 2048
micro_batch_size: 2
optimizer: adamw_torch
bf16: true
gradient_checkpointing: true
"""
OPENRLHF = (
    "deepspeed --module openrlhf.cli.train_rm --pretrain meta-llama/Llama-3.1-8B --max_len 1024 "
    "--micro_train_batch_size 1 --train_batch_size 8 --zero_stage 3 --bf16"
)
LOSS, BATCH = "/training/loss/cross_entropy", "/training/micro_batch_size"
OBJECTIVE = "/training/loss/objective"
EIGHT = {"parallelism": {"num_gpus": 8}}


def trl(name: str) -> Read:
    return read(launch_of(argv=TRL.format(name).split(), overrides=EIGHT))


def swift(kind: str, more: str = "--tuner_type lora") -> Read:
    return read(launch_of({"run.sh": f"NPROC_PER_NODE=2 {SWIFT.format(kind, more)}"}))


def factory(stage: str) -> Read:
    text = FACTORY.replace("STAGE", stage)
    return read(launch_of({"run.yaml": text}, overrides=EIGHT))


@pytest.mark.parametrize(
    ("found", "samples"),
    [
        (trl("reward_modeling"), 4),
        (trl("reward"), 4),
        (swift("rm", "--tuner_type full"), 2),
        (swift("rm"), 2),
        (read(launch_of({"a.yaml": AXOLOTL}, overrides=EIGHT)), 4),
        (read(launch_of(argv=OPENRLHF.split(), overrides=EIGHT)), 2),
    ],
)
def test_a_head_of_one_value(found: Read, samples: int) -> None:
    assert found.field(OBJECTIVE) == "reward"
    assert found.field(BATCH) == samples
    assert not found.account.bounded
    assert not found.unsupported


def test_llama_factorys_makes_logits_besides() -> None:
    (told,) = factory("rm").account.bounded
    assert (told.direction, told.within[0].value) == ("raises", "unfused")
    assert factory("rm").field(LOSS) == "cut"
    assert factory("rm").field(OBJECTIVE) is None
    assert factory("rm").field(BATCH) == 2


@pytest.mark.parametrize(
    ("kind", "nll"),
    [("simpo", True), ("simpo --cpo_alpha 0", None), ("cpo", True), ("orpo", True)],
)
def test_swifts_pairs_without_a_reference(kind: str, nll: bool | None) -> None:
    found = swift(kind)
    said = [found.field(f"/training/loss/{each}") for each in ("reference", "log_probs_by")]
    assert said == [None, "trl-orpo-0.15"]
    assert found.field("/training/loss/chosen_nll") == nll
    assert found.field(BATCH) == 2, "two samples of each pair"
    assert not found.left_out


@pytest.mark.parametrize(
    ("kind", "more", "reference", "samples"),
    [
        ("dpo", "--tuner_type lora", "base", 2),
        ("dpo", "--tuner_type full", "copy", 2),
        ("kto", "--tuner_type lora", "base", 1),
        ("kto", "--tuner_type full", "copy", 1),
    ],
)
def test_swifts_logits_are_of_completions(
    kind: str, more: str, reference: str, samples: int
) -> None:
    found = swift(kind, more)
    said = [found.field(f"/training/loss/{each}") for each in ("reference", "log_probs_by")]
    assert said == [reference, "ms-swift"]
    assert found.field(BATCH) == samples
    (told,) = found.account.bounded
    assert (told.key, told.direction) == ("rlhf_type", "lowers")
    assert not found.unsupported


@pytest.mark.parametrize(("more", "reference"), [("", "base"), ("ref_model: other\n", "copy")])
def test_llama_factorys_samples(more: str, reference: str) -> None:
    text = FACTORY.replace("STAGE", "kto") + more
    found = read(launch_of({"run.yaml": text}, overrides=EIGHT))
    assert found.field("/training/loss/log_probs_by") == "llama-factory-kto"
    assert found.field("/training/loss/reference") == reference
    assert found.field(BATCH) == 1, "samples, no pairs"
    assert not found.bounded
    assert found.unsupported == ({"ref_model"} if more else set())


def test_an_estimate_of_rewards_lies_below_that_of_words() -> None:
    launches = [
        {"argv": TRL.format(name).split(), "overrides": EIGHT} for name in ("reward", "sft")
    ]
    rewards, words = [estimate({"launch": each}).binding.device_bytes for each in launches]
    assert words.expected / 2 < rewards.expected < words.expected
