"""Configs that a class of transformers refuses or cannot run, and what else they say in vain."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.architectures.config import ConfigError
from trainfit.architectures.read import read_config
from trainfit.questions.estimate import answer
from trainfit.specs.job import Job

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
}
EXPERTS = {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
LATENTS = {
    "q_lora_rank": 32,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "num_key_value_heads": 4,
    "first_k_dense_replace": 1,
    "n_group": 4,
    "topk_group": 2,
}
DEEPSEEK = SMALL | EXPERTS | LATENTS | {"model_type": "deepseek_v3"}


def config(model_type: str, **changes: Any) -> dict[str, Any]:
    return {"model_type": model_type, **SMALL, **changes}


@pytest.mark.parametrize(
    ("values", "key"),
    [
        (config("llama", num_key_value_heads=8), "/num_key_value_heads"),
        (config("qwen2", num_key_value_heads=3), "/num_key_value_heads"),
        (config("mixtral", num_key_value_heads=3), "/num_key_value_heads"),
        (
            {"model_type": "llava", "text_config": config("llama", num_key_value_heads=3)},
            "/text_config/num_key_value_heads",
        ),
        (config("llama", hidden_size=66), "/hidden_size"),
        (config("arcee", hidden_size=66), "/hidden_size"),
        (config("qwen3", head_dim=15), "/head_dim"),
        (config("gemma", head_dim=127), "/head_dim"),
        (config("llama", layer_types=["full_attention"]), "/layer_types"),
        (config("phi3", partial_rotary_factor=2.0), "/partial_rotary_factor"),
        ({"model_type": "gptj", "n_embd": 64, "n_head": 4, "rotary_dim": 32}, "/rotary_dim"),
        (DEEPSEEK | {"n_group": 3}, "/n_group"),
        (DEEPSEEK | {"topk_group": 5}, "/topk_group"),
        (DEEPSEEK | {"qk_rope_head_dim": 7}, "/qk_rope_head_dim"),
    ],
)
def test_what_cannot_be_run_is_refused_where_the_config_says_it(
    values: dict[str, Any], key: str
) -> None:
    """Each of these fails in transformers 5.23, by its config's own checks or in a forward."""
    with pytest.raises(ConfigError) as refused:
        read_config(values)
    assert refused.value.key == key


@pytest.mark.parametrize(
    "values",
    [
        config("llama"),
        config("llama", hidden_size=66, head_dim=16),
        config("qwen2", hidden_size=66),
        config("llama", head_dim=3),
        config("glm4", head_dim=15),
        config("llama", partial_rotary_factor=2.0),
        config("mistral", layer_types=["full_attention"] * 3),
        DEEPSEEK,
    ],
)
def test_what_can_be_run_is_read(values: dict[str, Any]) -> None:
    """As transformers runs it: some classes round the width of a head down, release 4 let a Llama
    say it, tiny test models have odd ones.
    """
    assert read_config(values).spec.num_layers == 2


def test_a_size_that_is_refused_names_one_that_is_not() -> None:
    with pytest.raises(ConfigError, match="4097 does not divide by 32 heads; 4096 and 4128 do"):
        read_config({"model_type": "llama", "hidden_size": 4097})


def estimate(values: dict[str, Any], **training: Any) -> Any:
    return answer(Job.model_validate({"model": {"hf_config": values}, "training": training}))


def test_a_config_of_a_type_alone_says_that_its_sizes_are_those_of_the_class() -> None:
    made = estimate({"model_type": "llama"})
    found = {each.pointer: each.value for each in made.defaults}
    assert found["/model/hf_config/hidden_size"] == 4096
    assert found["/model/hf_config/num_hidden_layers"] == 32
    assert found["/model/hf_config/vocab_size"] == 32000
    assert "class-sizes" in {each.id for each in made.assumptions}
    assert made.job["model"]["hf_config"] == {"model_type": "llama"}


def test_keys_that_a_config_has_are_no_defaults() -> None:
    found = {each.pointer for each in estimate(config("llama")).defaults}
    assert not found & {f"/model/hf_config/{key}" for key in SMALL}
    assert "/model/hf_config/attention_bias" in found


def test_a_composite_leaves_no_size_open_that_its_text_has() -> None:
    values = {"model_type": "llava", "text_config": config("llama")}
    assert "class-sizes" not in {each.id for each in estimate(values).assumptions}


@pytest.mark.parametrize("key", ["num_local_experts", "num_experts", "n_routed_experts"])
def test_experts_that_a_dense_class_does_not_read_are_warned_of(key: str) -> None:
    (warning,) = read_config(config("llama", **{key: 8})).remarks
    assert f"{key} 8" in warning
    assert "without experts" in warning


def test_experts_that_a_class_reads_are_not() -> None:
    assert read_config(DEEPSEEK).remarks == ()
    assert read_config(config("gemma4_text", num_experts=8)).remarks == ()


def test_classes_of_another_type_are_warned_of() -> None:
    (warning,) = read_config(config("llama", architectures=["BertForMaskedLM"])).remarks
    assert "BertForMaskedLM, one of bert" in warning


@pytest.mark.parametrize(
    ("model_type", "name"),
    [
        ("llama", "LlamaForCausalLM"),
        ("llama", "LlamaForSequenceClassification"),
        ("llama", "LLaMAForCausalLM"),
        ("llama", "LlamaForCausalLMEagle3"),
        ("llama", "YiForCausalLM"),
        ("qwen2", "Qwen2ForRewardModel"),
        ("qwen2", "Qwen2Model"),
        ("internlm3", "LlamaForCausalLM"),
    ],
)
def test_classes_of_the_type_and_of_nobody_are_not(model_type: str, name: str) -> None:
    assert read_config(config(model_type, architectures=[name])).remarks == ()


def test_a_sequence_longer_than_the_positions_is_told() -> None:
    """An estimate stands all the same: rotary positions go on."""
    values = config("llama", max_position_embeddings=64)
    told = [
        {each.id for each in estimate(values, seq_length=length).assumptions}
        for length in (64, 128)
    ]
    assert ["longer-than-positions" in each for each in told] == [False, True]
