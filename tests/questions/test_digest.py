"""The digest of a request: the same for the same question however it is put, and for no other."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from trainfit.api.examples import DEEPSEEK_V3, LLAMA_8B
from trainfit.catalog.configs import bundled_config
from trainfit.questions.digest import catalogue_version, request_digest
from trainfit.questions.estimate import answer
from trainfit.questions.estimate_answer import EstimateAnswer
from trainfit.resolve.plan import ModelSource
from trainfit.specs.job import Job

CONFIG = bundled_config("Qwen/Qwen2-VL-7B-Instruct")
assert CONFIG is not None

JOBS: list[dict[str, Any]] = [
    DEEPSEEK_V3,
    LLAMA_8B,
    {"model": {"hf_id": "qwen/qwen3-8b"}, "parallelism": {"pp": 4, "vpp": 3}},
    {"model": {"hf_config": CONFIG.config}, "gpu": {"memory_bytes": 2**36}},
    {"model": {"hf_id": "gpt2"}, "gpu": {"name": "h100 80gb", "reserved_other_bytes": 2**30}},
    {
        "model": {"hf_id": "deepseek-ai/DeepSeek-V3"},
        "parallelism": {"pp": 16, "ep": 64, "pipeline_model_parallel_layout": "Et*3|(tt|)*29m|L"},
        "training": {"precision": "fp16"},
    },
    {
        "model": {
            "spec": {
                "num_layers": 2,
                "hidden_size": 256,
                "num_attention_heads": 4,
                "vocab_size": 1024,
                "position_embedding_type": "rope",
            }
        },
        "parallelism": {"tp": 2, "use_distributed_optimizer": False},
        "training": {"num_microbatches": 8},
    },
]


def asked(job: dict[str, Any]) -> EstimateAnswer:
    return answer(Job.model_validate(job))


@pytest.mark.parametrize("job", JOBS)
def test_a_normalised_job_is_the_same_question_with_nothing_left_open(job: dict[str, Any]) -> None:
    """But for what a config.json leaves to its class, which stays as it was sent."""
    first = asked(job)
    again = asked(json.loads(json.dumps(first.job)))
    assert again.request_digest == first.request_digest
    assert again.stages == first.stages
    within = [each for each in first.defaults if each.pointer.startswith("/model/hf_config/")]
    assert (again.job, again.defaults) == (first.job, within)


def test_spelling_decides_nothing() -> None:
    one = asked({"model": {"hf_id": "deepseek-ai/DeepSeek-V3"}, "gpu": "H100-80GB"})
    other = asked(
        {
            "gpu": "h100 80gb",
            "model": {"hf_id": "DEEPSEEK-AI/deepseek-v3"},
            "parallelism": {"tensor_model_parallel_size": 1},
        }
    )
    assert one.request_digest == other.request_digest
    assert other.job["gpu"] == "H100-80GB-SXM"
    assert other.job["model"] == {"hf_id": "deepseek-ai/DeepSeek-V3"}


def test_a_card_named_in_an_object_is_the_card_of_that_name() -> None:
    """Blackwell runs other kernels, which a card by its memory is not known to."""
    fp8 = {"model": {"hf_id": "gpt2"}, "training": {"precision": {"fp8_recipe": "mxfp8"}}}
    one, other = (asked({**fp8, "gpu": gpu}) for gpu in ("B200", {"name": "b200"}))
    assert other.stages == one.stages
    assert one.job["gpu"] == "B200"
    assert other.job["gpu"] == {"name": "B200", "reserved_other_bytes": 0}


def test_every_default_is_in_its_place() -> None:
    estimate = asked(DEEPSEEK_V3)
    for default in estimate.defaults:
        value: Any = estimate.job
        for name in default.pointer.split("/")[1:]:
            value = value[name]
        assert value == default.value


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("parallelism", "ep", 4),
        ("training", "seq_length", 8192),
        ("framework", "deterministic_mode", True),
        ("model", "hf_id", "deepseek-ai/DeepSeek-R1"),
    ],
)
def test_another_question_has_another_digest(part: str, name: str, value: Any) -> None:
    job = deepcopy(DEEPSEEK_V3)
    job[part][name] = value
    assert asked(job).request_digest != asked(DEEPSEEK_V3).request_digest


def test_what_is_asked_of_the_job_is_part_of_the_question() -> None:
    job = Job.model_validate(DEEPSEEK_V3)
    assert answer(job).request_digest != answer(job, activations=False).request_digest
    document = answer(job).job
    digests = {
        request_digest(operation, document, options, source)
        for operation in ("estimate", "fit-check")
        for options in ({}, {"suggest": False})
        for source in (
            ModelSource("acme/small", None, "bundled"),
            ModelSource("acme/small", "a" * 40, "hub"),
            ModelSource("acme/small", "b" * 40, "hub"),
            ModelSource("acme/small", "b" * 40, "hub", stale=True),
        )
    }
    assert len(digests) == 16


def test_versions_are_part_of_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    before = asked(DEEPSEEK_V3)
    monkeypatch.setattr("trainfit.questions.digest.__version__", "99")
    after = asked(DEEPSEEK_V3)
    monkeypatch.setattr("trainfit.questions.digest.catalogue_version", lambda: "another")
    last = asked(DEEPSEEK_V3)
    assert len({each.request_digest for each in (before, after, last)}) == 3
    assert before.catalogue_version == catalogue_version()
