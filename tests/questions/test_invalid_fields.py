"""Pydantic's errors as pointers into the job and words that say what would be right."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from trainfit.questions.invalid_fields import invalid_fields
from trainfit.questions.launches import read_asked
from trainfit.questions.problems import Problem
from trainfit.resolve.findings import Finding
from trainfit.specs.job import Job


def job(**parts: Any) -> dict[str, Any]:
    return {"model": {"hf_id": "gpt2"}, **parts}


def spec(**fields: Any) -> dict[str, Any]:
    sizes = {"num_layers": 2, "hidden_size": 64, "num_attention_heads": 2, "vocab_size": 100}
    return {"model": {"spec": {**sizes, **fields}}}


def findings(body: Any) -> list[Finding]:
    with pytest.raises(ValidationError) as refusal:
        Job.model_validate(body)
    return invalid_fields(refusal.value.errors(), Job)


@pytest.mark.parametrize(
    ("body", "pointer", "code", "message"),
    [
        ({}, "/model", "missing", "is needed and missing"),
        ([], "", "wrong_type", "must be an object"),
        (
            {"model": {}},
            "/model",
            "invalid",
            "give exactly one of hf_id, hf_config and spec",
        ),
        (
            {"model": {"hf_id": "../etc"}},
            "/model/hf_id",
            "malformed",
            "must be the id of a repository on the Hub, such as deepseek-ai/DeepSeek-V3",
        ),
        (
            {"model": {"hf_id": "gpt2", "revision": "v 1"}},
            "/model/revision",
            "malformed",
            "must be the name of a branch or tag, or a commit",
        ),
        (job(parallelism={"tp": "8"}), "/parallelism/tp", "wrong_type", "must be an integer"),
        (job(parallelism={"tp": 1.0}), "/parallelism/tp", "wrong_type", "must be an integer"),
        (job(parallelism={"tp": True}), "/parallelism/tp", "wrong_type", "must be an integer"),
        (job(parallelism={"tp": 0}), "/parallelism/tp", "out_of_bounds", "must be at least 1"),
        (
            job(parallelism={"tp": 10**30}),
            "/parallelism/tp",
            "out_of_bounds",
            "must be at most 512",
        ),
        (
            job(parallelism={"sequence_parallel": 1}),
            "/parallelism/sequence_parallel",
            "wrong_type",
            "must be true or false",
        ),
        (
            job(training={"recompute": {"modules": ["mlp", "all"]}}),
            "/training/recompute/modules/1",
            "not_one_of",
            "must be 'core_attn', 'mlp', ",
        ),
        (
            job(training={"recompute": {"modules": "mlp"}}),
            "/training/recompute/modules",
            "wrong_type",
            "must be a list",
        ),
        (
            job(training={"moe": {"imbalance_factor": "high"}}),
            "/training/moe/imbalance_factor",
            "wrong_type",
            "must be a number",
        ),
        (
            job(parallelism={"pipeline_model_parallel_layout": "Et"}),
            "/parallelism/pipeline_model_parallel_layout",
            "invalid",
            "a layout names L once, last",
        ),
        (
            job(training={"peft": {"method": "lora", "target_modules": ["q"] * 257}}),
            "/training/peft/target_modules",
            "out_of_bounds",
            "must be a list of at most 256",
        ),
    ],
)
def test_a_value_that_is_wrong_is_told_what_it_must_be(
    body: Any, pointer: str, code: str, message: str
) -> None:
    (finding,) = findings(body)
    assert (finding.pointer, finding.code) == (pointer, code)
    assert finding.message.startswith(message)


@pytest.mark.parametrize(
    ("body", "pointer", "message"),
    [
        (
            job(parallelism={"sequence_paralel": True}),
            "/parallelism/sequence_paralel",
            "unknown field; did you mean sequence_parallel?",
        ),
        (
            job(parallelism={"tensor_model_paralel_size": 2}),
            "/parallelism/tensor_model_paralel_size",
            "unknown field; did you mean tensor_model_parallel_size?",
        ),
        (job(tp=4), "/tp", "unknown field here; it belongs to /parallelism"),
        (
            job(parallelism={"gpu": "H100"}),
            "/parallelism/gpu",
            "unknown field here; it belongs to the top level",
        ),
        (
            job(training={"loss": {"zzz": 1}}),
            "/training/loss/zzz",
            "unknown field; there are objective, reference, log_probs_by, entropy, scored_tokens, "
            "chosen_nll, scored_beside_optimizer, cross_entropy, num_chunks, shifted, "
            "logits_to_keep",
        ),
    ],
)
def test_an_unknown_field_is_told_what_was_meant(body: Any, pointer: str, message: str) -> None:
    assert findings(body) == [Finding(pointer, "unknown_field", message)]


def test_what_is_beside_a_launch_is_told_to_go_into_it() -> None:
    body = {"launch": {"files": [{"path": "a.sh", "content": "torchrun a.py"}]}, "gpu": "A100"}
    refused = read_asked(body, Job)
    assert isinstance(refused, Problem)
    assert refused.detail == "/gpu: unknown field here; it belongs to /launch"


def test_an_alias_is_pointed_at_as_it_was_written() -> None:
    (finding,) = findings(job(parallelism={"tensor_model_parallel_size": 0}))
    assert finding.pointer == "/parallelism/tensor_model_parallel_size"


def test_two_names_of_one_field_exclude_each_other() -> None:
    (finding,) = findings(job(parallelism={"tp": 2, "tensor_model_parallel_size": 2}))
    assert finding.pointer == "/parallelism/tensor_model_parallel_size"
    assert finding.code == "given_twice"
    assert finding.message == "is another name of tp, which is given too; leave one out"


@pytest.mark.parametrize(
    ("framework", "pointer", "message"),
    [
        ({"name": "megatron", "transformer_impl": "x"}, "/framework/transformer_impl", "must be '"),
        ({"name": "megatron", "megatron": {}}, "/framework/megatron", "unknown field"),
        ({"name": "jax"}, "/framework/name", "must be one of 'megatron', 'torchtitan', "),
        ({}, "/framework/name", "is needed and missing"),
        ("megatron", "/framework", "must be an object"),
    ],
)
def test_a_discriminator_is_no_part_of_a_pointer(
    framework: Any, pointer: str, message: str
) -> None:
    (finding,) = findings(job(framework=framework))
    assert finding.pointer == pointer
    assert finding.message.startswith(message)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (job(gpu={"memory_bytes": 0}), {"/gpu/memory_bytes": "must be at least 1"}),
        (job(gpu={"memory_bytes": 10**15}), {"/gpu/memory_bytes": "must be at most 4398046511104"}),
        (job(gpu={"memory_bytes": 1, "CustomGpu": 1}), {"/gpu/CustomGpu": "unknown field; "}),
        (job(gpu={}), {"/gpu": "give the name of a GPU of the catalogue, or memory_bytes"}),
        (job(gpu=""), {"/gpu": "must be at least 1 character(s) long"}),
        (job(gpu=80), {"/gpu": "must be a string or an object"}),
        (job(training={"precision": "bf17"}), {"/training/precision": "must be 'bf16', "}),
        (
            job(training={"precision": 16}),
            {"/training/precision": "must be 'bf16', 'bf16-pure', "},
        ),
        (
            job(training={"precision": {"params": "x", "gradient": "fp32"}}),
            {
                "/training/precision/params": "must be 'fp32', ",
                "/training/precision/gradient": "unknown field; did you mean gradients?",
            },
        ),
        (
            job(training={"peft": {"method": "lora", "target_modules": ["q", 1]}}),
            {"/training/peft/target_modules/1": "must be a string"},
        ),
        (
            job(training={"peft": {"method": "ia3"}}),
            {
                "/training/peft/method": "must be one of 'lora', 'prompt_tuning', 'p_tuning', "
                "'prefix_tuning'"
            },
        ),
        (
            job(training={"peft": {"method": "prompt_tuning", "r": 8}}),
            {
                "/training/peft/num_virtual_tokens": "is needed and missing",
                "/training/peft/r": "unknown field",
            },
        ),
        (
            job(training={"peft": {"method": "lora", "target_modules": 1}}),
            {"/training/peft/target_modules": "must be 'all-linear' or a list"},
        ),
        (
            spec(moe_layer_freq="2"),
            {"/model/spec/moe_layer_freq": "must be an integer or a list"},
        ),
        (spec(moe_layer_freq=[1, 2]), {"/model/spec/moe_layer_freq/1": "must be at most 1"}),
        (spec(moe_layer_freq=0), {"/model/spec/moe_layer_freq": "must be at least 1"}),
    ],
)
def test_only_the_nearest_branch_of_a_union_is_told(body: Any, expected: dict[str, str]) -> None:
    found = {finding.pointer: finding.message for finding in findings(body)}
    assert found.keys() == expected.keys()
    for pointer, message in expected.items():
        assert found[pointer].startswith(message)


def test_every_wrong_field_is_told_at_once() -> None:
    body = {"model": {"hf_id": 1}, "parallelism": {"tp": 0, "pp": "x"}, "trainig": {}}
    assert [finding.pointer for finding in findings(body)] == [
        "/model/hf_id",
        "/parallelism/tp",
        "/parallelism/pp",
        "/trainig",
    ]


@pytest.mark.parametrize("name", ["a" * 1000, "~/", "a/b~c"])
def test_a_name_of_the_callers_own_is_short_and_escaped_in_a_pointer(name: str) -> None:
    (finding,) = findings(job(**{name: 1}))
    assert len(finding.pointer) <= 65 + name.count("~") + name.count("/")
    assert finding.pointer.count("/") == 1
    if len(name) < 64:
        assert finding.pointer[1:].replace("~1", "/").replace("~0", "~") == name


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"model": {"hf_id": "\ud800"}}, "/model/hf_id"),
        (job(**{"\ud800": 1}), ""),
        ({"model": {"hf_config": {}}, "gpu": {"memory_bytes": 1, "\udfff": 1}}, "/gpu"),
    ],
)
def test_half_a_surrogate_pair_is_no_character(body: Any, pointer: str) -> None:
    (finding,) = findings(body)
    assert finding.pointer == pointer
    assert finding.message == "must be a string of whole Unicode characters"
