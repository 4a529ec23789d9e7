"""What nanotron takes where a job does not say, and what it cannot do."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.questions.estimate import plan_of
from trainfit.resolve.findings import Finding, RefusedError
from trainfit.resolve.nanotron.plan import NanotronPlan
from trainfit.specs.job import Job

LLAMA = {"hf_id": "meta-llama/Llama-3.1-8B"}
QWEN_MOE = {"hf_id": "Qwen/Qwen3-30B-A3B"}


def resolved(**parts: Any) -> NanotronPlan:
    asked = {"model": LLAMA, "framework": {"name": "nanotron"}} | parts
    plan = plan_of(Job.model_validate(asked))
    assert isinstance(plan, NanotronPlan)
    return plan


def findings(**parts: Any) -> tuple[Finding, ...]:
    with pytest.raises(RefusedError) as refused:
        resolved(**parts)
    return refused.value.findings


def test_defaults_are_nanotrons_own() -> None:
    plan = resolved(parallelism={"num_gpus": 16, "tp": 2, "pp": 2})
    told = {each.pointer: (each.value, each.origin) for each in plan.defaults}
    assert told["/parallelism/sequence_parallel"] == (False, "framework")
    assert told["/parallelism/pipeline_schedule"] == ("gpipe", "framework")
    assert told["/parallelism/data_parallel_sharding_strategy"] == ("no_shard", "derived")
    assert told["/training/optimizer/exp_avg_dtype"] == ("fp32", "framework")
    assert told["/training/attention/backend"] == ("flash", "framework")
    assert plan.layout.sharding == "no_shard"


@pytest.mark.parametrize(
    ("asked", "sharding"),
    [
        ({"use_distributed_optimizer": True}, "optim"),
        ({"use_distributed_optimizer": False}, "no_shard"),
        ({"data_parallel_sharding_strategy": "optim"}, "optim"),
    ],
)
def test_zero_stages(asked: dict[str, Any], sharding: str) -> None:
    assert resolved(parallelism={"num_gpus": 8} | asked).layout.sharding == sharding


def model(layers: int, h: int, f: int, *, tied: bool = False, vocab: int = 131_072) -> Any:
    return {
        "spec": {
            "num_layers": layers,
            "hidden_size": h,
            "num_attention_heads": 32,
            "ffn_hidden_size": f,
            "vocab_size": vocab,
            "position_embedding_type": "rope",
            "normalization": "RMSNorm",
            "swiglu": True,
            "add_bias_linear": False,
            "untie_embeddings_and_output_weights": not tied,
        }
    }


@pytest.mark.parametrize(
    ("asked", "pp", "layers"),
    [
        (model(16, 2048, 8192, tied=True), 2, [11, 5]),
        (model(32, 4096, 14_336), 4, [9, 9, 8, 6]),
        (model(80, 8192, 28_672), 16, [6, *[5] * 13, 6, 3]),
        (model(80, 8192, 28_672), 4, [21, 20, 20, 19]),
        (model(80, 8192, 28_672), 1, [80]),
    ],
)
def test_layers_are_shared_out_by_cost(asked: Any, pp: int, layers: list[int]) -> None:
    plan = resolved(model=asked, parallelism={"pp": pp})
    assert [stage.layers for stage in plan.layout.pipeline.virtual_stages] == layers


def test_the_padded_vocabulary_costs() -> None:
    framework = {"name": "nanotron", "make_vocab_size_divisible_by": 128}
    plan = resolved(
        model=model(4, 1024, 4096, vocab=1000), framework=framework, parallelism={"tp": 2}
    )
    assert plan.vocabulary_rows == 1024


def test_a_head_that_leaves_the_last_rank_is_refused() -> None:
    """A vocabulary that outweighs the layers: its rank is full at once, and the loss goes on."""
    (found,) = findings(model=model(4, 1024, 4096), parallelism={"pp": 4})
    assert found.pointer == "/parallelism/pp"
    assert found.code == "not_modelled"
    (change,) = found.suggestion
    plan = resolved(model=model(4, 1024, 4096), parallelism={"pp": change.value})
    assert plan.layout.pipeline.pp < 4


def test_one_forward_one_backward_has_to_be_filled() -> None:
    parallelism = {"pp": 4, "pipeline_schedule": "1f1b"}
    (found,) = findings(parallelism=parallelism, training={"num_microbatches": 2})
    assert found.pointer == "/training/num_microbatches"
    assert found.suggestion[0].value == 3
    plan = resolved(parallelism=parallelism, training={"num_microbatches": 3})
    assert plan.layout.pipeline.pp == 4


@pytest.mark.parametrize(
    ("parts", "pointer"),
    [
        ({"parallelism": {"pp": 2, "vpp": 2}}, "/parallelism/vpp"),
        ({"parallelism": {"etp": 2}}, "/parallelism/etp"),
        (
            {"parallelism": {"pp": 2, "num_layers_in_first_pipeline_stage": 1}},
            "/parallelism/num_layers_in_first_pipeline_stage",
        ),
        ({"parallelism": {"ep": 2}}, "/parallelism/ep"),
        ({"parallelism": {"cp": 2}}, "/parallelism/cp"),
        (
            {"parallelism": {"data_parallel_sharding_strategy": "optim_grads"}},
            "/parallelism/data_parallel_sharding_strategy",
        ),
        ({"parallelism": {"pipeline_schedule": "zb-h1"}}, "/parallelism/pipeline_schedule"),
        ({"training": {"precision": "fp8"}}, "/training/precision"),
        ({"training": {"precision": {"gradients": "bf16"}}}, "/training/precision"),
        ({"training": {"optimizer": {"name": "muon"}}}, "/training/optimizer/name"),
        (
            {"training": {"recompute": {"granularity": "selective"}}},
            "/training/recompute/granularity",
        ),
        ({"training": {"hidden_dropout": 0.1}}, "/training/hidden_dropout"),
        ({"training": {"peft": {"method": "lora"}}}, "/training/peft"),
        ({"model": QWEN_MOE}, "/model"),
        ({"model": {"hf_id": "Qwen/Qwen2.5-7B"}}, "/model"),
        ({"model": {"hf_id": "gpt2"}}, "/model"),
        ({"model": {"hf_id": "deepseek-ai/DeepSeek-V3"}}, "/model"),
    ],
)
def test_what_nanotron_cannot_do_is_refused(parts: dict[str, Any], pointer: str) -> None:
    found = findings(**parts)
    assert {each.pointer for each in found} == {pointer}
    assert {each.code for each in found} == {"not_modelled"}


def test_what_asks_for_nothing_is_no_option() -> None:
    assert resolved(parallelism={"vpp": 1, "etp": 1, "ep": 1, "cp": 1}).layout.pipeline.vpp == 1


def test_kv_heads_have_to_divide() -> None:
    found = findings(parallelism={"tp": 16})
    assert [each.code for each in found] == ["kv_heads_not_divisible"]
