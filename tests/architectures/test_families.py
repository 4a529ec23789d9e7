"""What is known of a family stands in one table, for every type, and decides estimates."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trainfit
from tests.accuracy.parameter_counts import config_of
from tests.accuracy.test_corpus import CORPUS, DATA, rows
from trainfit.architectures import families, registry
from trainfit.architectures.config import ConfigError
from trainfit.architectures.families import AS_LLAMA, FAMILIES, OF_ITS_TEXT, Family
from trainfit.architectures.read import read_config
from trainfit.architectures.registry import parse_config, parser_of
from trainfit.architectures.vocabulary import LLAMA_7B, Decoder
from trainfit.catalog.configs import bundled_config
from trainfit.estimator.parameters import count_parameters
from trainfit.questions.pricing import Pricing
from trainfit.specs.job import Job

PACKAGE = Path(trainfit.__file__).parent


def test_every_type_states_what_its_class_computes() -> None:
    """A type whose decoder is its own says so in the table, one that reads a text section does not:
    a decoder without a statement is a LookupError.
    """
    for model_type, family in FAMILIES.items():
        parser_of(model_type)
        try:
            spec = parse_config({"model_type": model_type})
        except ConfigError:
            continue
        assert family.implementation in (OF_ITS_TEXT, spec.implementation), model_type


@pytest.mark.parametrize(
    ("model_type", "scales"),
    [
        *((name, True) for name in ("granite", "granitemoe", "granitemoehybrid", "falcon_h1")),
        ("llama", False),
    ],
)
def test_some_classes_scale_embeddings_whether_a_config_says_so_or_not(
    model_type: str, scales: bool
) -> None:
    assert parse_config({"model_type": model_type}).traits.embedding_scaled == scales


def test_a_decoder_whose_type_states_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "llama", Family(Decoder(dims=LLAMA_7B), OF_ITS_TEXT))
    with pytest.raises(LookupError, match="llama builds a decoder: state its implementation"):
        parse_config({"model_type": "llama"})


def _sources() -> Iterator[tuple[Path, ast.AST]]:
    for room in ("estimator", "resolve"):
        for path in sorted((PACKAGE / room).rglob("*.py")):
            yield path, ast.parse(path.read_text())


def test_the_core_knows_facts_and_no_types() -> None:
    """Neither compares a model_type nor names one: what differs is a field of Implementation."""
    for path, tree in _sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare | ast.Match | ast.Subscript):
                named = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
                named |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                assert "model_type" not in named, f"{path}:{node.lineno}"
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value not in FAMILIES, f"{path}:{node.lineno}"


def _activations(config: dict[str, Any], **parallelism: Any) -> int:
    job = {
        "model": {"hf_config": config},
        "parallelism": {
            "num_gpus": 8,
            "data_parallel_sharding_strategy": "optim_grads_params",
            **parallelism,
        },
        "training": {"micro_batch_size": 1, "seq_length": 2048, "precision": "bf16"},
        "framework": {"name": "transformers", "data_parallel_engine": "fsdp2"},
        "gpu": "H200-141GB",
    }
    [stage] = Pricing().estimate(Job.model_validate(job)).stages
    return next(each.bytes for each in stage.components if each.name == "activations")


def _bundled(hf_id: str) -> dict[str, Any]:
    found = bundled_config(hf_id)
    assert found is not None
    return found.config


@pytest.mark.parametrize(
    ("hf_id", "text_type"),
    [("google/gemma-3-4b-it", "gemma3_text"), ("Qwen/Qwen3.5-27B", "qwen3_5_text")],
)
def test_a_composite_computes_as_its_text_model(hf_id: str, text_type: str) -> None:
    """Gemma's norms scale in fp32, and Qwen's queries bring their gates, beside towers too."""
    whole = _bundled(hf_id)
    vocabulary = parse_config(whole).embedding.rows
    text = {**whole["text_config"], "model_type": text_type, "vocab_size": vocabulary}
    assert _activations(whole) == _activations(text)


def test_the_experts_of_a_composite_are_divided_by_the_plan_of_its_text_model() -> None:
    assert _activations(_bundled("Qwen/Qwen3.5-35B-A3B"), ep=2) > 0


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        ({"model_type": "glm4v_text"}, "/attention_bias"),
        ({"model_type": "glm4v_moe_text"}, "/use_qk_norm"),
        ({"model_type": "deepseek_v3", "num_hidden_layers": 2}, "/n_routed_experts"),
    ],
)
def test_what_decides_nothing_is_not_left_open(config: dict[str, Any], pointer: str) -> None:
    """Fixed values, and experts of a model in which no layer has any."""
    left_open = read_config(config).left_open
    assert "/vocab_size" in left_open
    assert pointer not in left_open


def test_a_value_tells_a_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """Llama plus a norm is one value; a config that contradicts it is pointed at by its key."""
    normed = Family(Decoder(dims=LLAMA_7B, qk_norm="head"), AS_LLAMA)
    monkeypatch.setattr(families, "FAMILIES", {**FAMILIES, "normed": normed})
    monkeypatch.setattr(registry, "FAMILIES", {**FAMILIES, "normed": normed})
    plain = count_parameters(parse_config({"model_type": "llama"}))
    assert count_parameters(parse_config({"model_type": "normed"})).total == (
        plain.total + 32 * 2 * 128
    )
    with pytest.raises(ConfigError, match="/hidden_size: must be an integer"):
        parse_config({"model_type": "normed", "hidden_size": "wide"})


WITHOUT_A_ROW = {
    "deepseek": "its class stands in the model's repository; test_sparse.py counts its layers",
    "gemma3n": "its text type has rows; the tower is one of timm's, and published totals stand in "
    "test_composite.py",
    "gemma4_assistant": "a draft of another model's tokens",
    "gemma4_unified_assistant": "a draft of another model's tokens",
    "glm5_next_text": "the text section of glm5_next",
    "hrm_text": "a list of layers cannot show its cycles; test_dense.py counts its stacks",
    "internlm": "its class stands in the model's repository; it is Llama's with biases",
    "nemotron-nas": "its class stands in the model's repository; tests/catalog counts a checkpoint",
    "phi3_v": "its class stands in the model's repository; tests/catalog counts a checkpoint",
    "internvl_chat": "its class stands in the model's repository; tests/catalog counts checkpoints",
    "kimi_k3": "its class stands in the model's repository; tests/catalog counts its checkpoint",
    "kimi_vl": "its class stands in the model's repository; tests/catalog counts its checkpoint",
    "minicpmv": "its class stands in the model's repository; tests/catalog counts its checkpoint",
    "mimo": "its class stands in the model's repository; it is Qwen2's, of which there are rows",
}
"""Types of which no model was counted, and why not."""


def _types(config: dict[str, Any]) -> Iterator[str]:
    """The model_type of a config and of the sections in it."""
    if "model_type" in config:
        yield config["model_type"]
    for section in config.values():
        if isinstance(section, dict):
            yield from _types(section)


def test_every_type_has_an_exact_count_or_a_reason_for_none() -> None:
    files = (
        CORPUS / "parameter_counts.jsonl",
        DATA / "transformers_counts.jsonl",
        DATA / "composite_counts.jsonl",
    )
    counted: set[str] = set()
    for row in (row for file in files for row in rows(file)):
        if row.get("status") != "unsupported":
            counted.update(_types(config_of(row, CORPUS)), [row.get("text_model_type", "")])
    assert FAMILIES.keys() - counted == WITHOUT_A_ROW.keys()
