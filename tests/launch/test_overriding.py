"""What is said over a launch counts before it, and what cannot stand beside that yields."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.launches import Read
from trainfit.launch.read import read_launch
from trainfit.questions.launches import read_asked
from trainfit.questions.problems import Problem
from trainfit.specs.job import Job
from trainfit.specs.launch import Launch

SIZES = "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --micro-batch-size 1"
MEGATRON = f"torchrun --nproc-per-node 8 pretrain_gpt.py {SIZES} --seq-length 512 --vocab-size 1000"


def read(**launch: Any) -> Read:
    found = read_launch(Launch.model_validate(launch))
    return Read(found.job, found.launch.account)


def job_of(argv: str, overrides: dict[str, Any]) -> Job:
    asked = read_asked({"launch": {"argv": argv, "overrides": overrides}}, Job)
    assert not isinstance(asked, Problem), asked
    return asked.job


@pytest.mark.parametrize(
    ("argument", "part", "field", "value"),
    [
        ("--global-batch-size 64", "training", "num_microbatches", 4),
        ("--global-batch-size $UNSET", "training", "num_microbatches", 4),
        ("--use-distributed-optimizer", "parallelism", "use_distributed_optimizer", False),
        ("--tensor-model-parallel-size 2", "parallelism", "tensor_model_parallel_size", 4),
        ("--pipeline-model-parallel-layout Et|t|t|tL", "parallelism", "pp", 2),
    ],
)
def test_a_launch_yields(argument: str, part: str, field: str, value: Any) -> None:
    pp = " --pipeline-model-parallel-size 4" if "layout" in argument else ""
    job = job_of(f"{MEGATRON} {argument}{pp}", {part: {field: value}})
    name = {"tensor_model_parallel_size": "tp"}.get(field, field)
    assert getattr(getattr(job, part), name) == value


def test_another_framework_takes_the_place_of_all_of_the_first() -> None:
    job = job_of(MEGATRON, {"framework": {"name": "torchtitan"}})
    assert job.framework.name == "torchtitan"


def test_another_model_is_not_mixed_with_that_of_the_launch() -> None:
    config = {"model_type": "llama", "hidden_size": 256}
    launch = {
        "argv": "torchrun --nproc-per-node 1 sft.py --model_name_or_path ./m --use_peft true",
        "files": [{"path": "m/config.json", "content": '{"model_type": "qwen2", "x": 1}'}],
        "format": "transformers",
        "overrides": {"model": {"hf_config": config}},
    }
    assert read(**launch).job["model"] == {"hf_config": config}


def test_the_account_says_what_was_replaced() -> None:
    account = read(
        argv=f"{MEGATRON} --global-batch-size 64",
        overrides={"training": {"num_microbatches": 4, "seq_length": 1024}},
    ).account
    replaced = {each.pointer: (each.value, each.by) for each in account.replaced}
    assert replaced == {
        "/training/seq_length": (512, "/training/seq_length"),
        "/training/global_batch_size": (64, "/training/num_microbatches"),
    }


def test_what_is_wrong_with_overrides_is_told_of_them() -> None:
    asked = read_asked(
        {"launch": {"argv": MEGATRON, "overrides": {"training": {"seq_length": "long"}}}}, Job
    )
    assert isinstance(asked, Problem)
    assert asked.errors[0].pointer == "/launch/overrides/training/seq_length"


@pytest.mark.parametrize(
    ("words", "size"),
    [
        ("", 50257),
        ("--vocab-file /data/gpt2-vocab.json", 50257),
        ("--tokenizer-type Llama2Tokenizer --tokenizer-model $M", 32000),
        (
            "--tokenizer-type HuggingFaceTokenizer --tokenizer-model meta-llama/Llama-3.1-8B",
            128256,
        ),
    ],
)
def test_a_tokenizer_may_tell_the_vocabulary(words: str, size: int) -> None:
    known = read(argv=f"{MEGATRON.replace(' --vocab-size 1000', '')} {words}")
    assert known.defaulted["/model/spec/vocab_size"] == size


@pytest.mark.parametrize(
    "words",
    ["--vocab-file /data/mine.json", "--tokenizer-type GPTSentencePieceTokenizer"],
)
def test_a_vocabulary_of_ones_own_is_asked_for(words: str) -> None:
    asked = read_asked(
        {"launch": {"argv": f"{MEGATRON.replace(' --vocab-size 1000', '')} {words}"}}, Job
    )
    assert isinstance(asked, Problem)
    assert "/model/spec/vocab_size in overrides" in asked.errors[0].message


def test_a_schedule_that_a_shell_split_is_one() -> None:
    assert not read(argv=f"{MEGATRON} --step-batch-size-schedule 0:8 1B:16 2B:32").unsupported
