"""Sequences that are longer than the positions of their model."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.questions.estimate import answer
from trainfit.resolve.findings import RefusedError
from trainfit.specs.job import Job

SPEC = {
    "num_layers": 2,
    "hidden_size": 256,
    "num_attention_heads": 8,
    "vocab_size": 1024,
    "max_position_embeddings": 1024,
}
GPT2 = {"model_type": "gpt2", "n_layer": 2, "n_embd": 256, "n_head": 8, "n_positions": 1024}
OPT = {
    "model_type": "opt",
    "num_hidden_layers": 2,
    "hidden_size": 256,
    "word_embed_proj_dim": 256,
    "num_attention_heads": 8,
    "ffn_dim": 1024,
    "max_position_embeddings": 1024,
}


def job(model: dict[str, Any], tokens: int) -> Job:
    framework = "megatron" if "spec" in model else "transformers"
    return Job.model_validate(
        {"model": model, "training": {"seq_length": tokens}, "framework": {"name": framework}}
    )


@pytest.mark.parametrize(
    "model", [{"spec": SPEC}, {"hf_config": GPT2}, {"hf_config": OPT}], ids=["spec", "gpt2", "opt"]
)
def test_a_table_of_positions_ends(model: dict[str, Any]) -> None:
    assert answer(job(model, 1024)).stages
    with pytest.raises(RefusedError, match="learned 1024 positions") as refused:
        answer(job(model, 1025))
    [finding] = refused.value.findings
    assert finding.pointer == "/training/seq_length"
    assert [change.value for change in finding.suggestion] == [1024]


def test_a_length_that_is_not_given_is_that_of_the_table() -> None:
    found = answer(Job.model_validate({"model": {"spec": SPEC}, "framework": {"name": "megatron"}}))
    assert found.job["training"]["seq_length"] == 1024
    [default] = [each for each in found.defaults if each.pointer == "/training/seq_length"]
    assert (default.value, default.origin) == (1024, "config")


def test_positions_that_are_computed_go_on() -> None:
    rope = {"spec": SPEC | {"position_embedding_type": "rope"}}
    assumed = {each.id for each in answer(job(rope, 2048)).assumptions}
    assert "longer-than-positions" in assumed
