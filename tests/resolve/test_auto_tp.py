"""DeepSpeed's tensor parallelism: what it divides, and what is refused beside it."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.estimator.results import Stage
from trainfit.questions.estimate import answer
from trainfit.resolve.findings import RefusedError
from trainfit.specs.job import Job

HIDDEN, LAYERS, FFN, KV = 4096, 32, 14336, 1024
VOCABULARY = 128256
TIED = {
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": FFN,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": LAYERS,
    "vocab_size": VOCABULARY,
    "tie_word_embeddings": True,
}
DEEPSPEED = {"name": "transformers", "data_parallel_engine": "deepspeed"}


def job(
    tp: int,
    *,
    config: dict[str, Any] = TIED,
    layout: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    framework: dict[str, Any] | None = None,
) -> Job:
    return Job.model_validate(
        {
            "model": {"hf_config": config},
            "parallelism": {
                "num_gpus": 8,
                "tp": tp,
                "data_parallel_sharding_strategy": "optim",
                **(layout or {}),
            },
            "training": {"seq_length": 2048, **(training or {})},
            "framework": DEEPSPEED | (framework or {}),
        }
    )


def stage(asked: Job) -> Stage:
    (only,) = answer(asked).stages
    return only


@pytest.mark.parametrize("tp", [2, 4, 8])
@pytest.mark.parametrize("tied", [True, False])
def test_linears_are_divided_and_a_head_that_is_not_tied(tp: int, tied: bool) -> None:
    asked = job(tp, config=TIED | {"tie_word_embeddings": tied})
    linears = LAYERS * (2 * HIDDEN**2 + 2 * KV * HIDDEN + 3 * FFN * HIDDEN)
    norms = (2 * LAYERS + 1) * HIDDEN
    head = 0 if tied else VOCABULARY * HIDDEN // tp
    here = linears // tp + norms + VOCABULARY * HIDDEN + head
    weights = stage(asked).components[0]
    assert weights.parameter_count_per_gpu == here
    assert weights.bytes == 2 * here


@pytest.mark.parametrize("tied", [True, False])
def test_sequences_and_logits_are_whole(tied: bool) -> None:
    """What is kept is what ranks keep under PyTorch's tensor parallelism without sequence
    parallelism and over whole logits.
    """
    config = TIED | {"tie_word_embeddings": tied}
    alike = {"data_parallel_sharding_strategy": "optim_grads_params", "sequence_parallel": False}
    other = {"name": "transformers", "data_parallel_engine": "fsdp2", "loss_parallel": False}
    deepspeed = stage(job(4, config=config))
    pytorch = stage(job(4, config=config, layout=alike, framework=other))
    assert deepspeed.peak.operation == pytorch.peak.operation == "loss"
    assert deepspeed.components[3].name == "activations"
    assert deepspeed.components[3].bytes == pytorch.components[3].bytes


def test_a_sequence_needs_no_multiple_of_the_ranks() -> None:
    assert stage(job(8, training={"seq_length": 2049})).components


def test_an_explicit_default_is_as_good_as_an_absent_one() -> None:
    """Without FSDP nobody computes the loss over shared logits, whatever the field says."""
    assert stage(job(4, framework={"loss_parallel": True})) == stage(job(4))


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"layout": {"sequence_parallel": True}}, "/parallelism/sequence_parallel"),
        ({"framework": {"liger_kernel": True}}, "/framework/liger_kernel"),
        ({"training": {"loss": {"cross_entropy": "liger"}}}, "/training/loss/cross_entropy"),
        ({"training": {"peft": {"method": "lora", "r": 8}}}, "/training/peft"),
        ({"config": TIED | {"num_key_value_heads": 2}}, "/parallelism/tp"),
        ({"config": TIED | {"model_type": "gpt_neox"}}, "/parallelism/tp"),
    ],
)
def test_what_is_not_divided_so_is_refused(changes: dict[str, Any], pointer: str) -> None:
    with pytest.raises(RefusedError) as refused:
        answer(job(4, **changes))
    found = {finding.pointer: finding for finding in refused.value.findings}
    assert pointer in found
    assert found[pointer].suggestion
