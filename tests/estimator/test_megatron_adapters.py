"""Low-rank adapters under Megatron, against what Megatron-Bridge's modules keep, by hand."""

from typing import Any

import pytest

from tests.estimator.jobs import megatron_plan
from tests.estimator.test_ledger import DEEPSEEK_V2, LLAMA_70B, job
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.run import run_of
from trainfit.questions.estimate import answer, plan_of
from trainfit.resolve.findings import RefusedError

S, H, F, HEADS, KV = 4096, 8192, 28672, 64, 1024
"""Tokens, hidden size, width of the feed-forward network, heads, and features of keys."""
R = 16
QKV = ("linear_qkv",)
LINEARS = ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")


def adapted(*targets: str, **lora: Any) -> dict[str, Any]:
    peft = {"method": "lora", "r": R, "target_modules": targets, **lora}
    return {"peft": peft, "seq_length": S, "attention": {"backend": "flash"}}


def saved(training: dict[str, Any], **parallelism: Any) -> int:
    """Bytes that a layer saves for backward."""
    plan = megatron_plan(job(LLAMA_70B, training, **parallelism))
    return MegatronLedger(run_of(plan)).layer_segments[0].saved


def frozen_layer(t: int) -> int:
    """Inputs and statistics of both norms; queries, keys, values, attention's output and logsumexp;
    what the activation reads. Not what frozen linears read.
    """
    norms = 2 * (2 * S * H // t + 4 * S // t)
    attention = 2 * S * (2 * H + 2 * KV) // t + 4 * S * HEADS // t
    return norms + attention + 2 * S * 2 * F // t


def test_an_adapter_of_queries_keeps_what_it_reads() -> None:
    adapter = 2 * S * H + 2 * S * R
    assert saved(adapted(*QKV)) == frozen_layer(1) + adapter


def test_adapters_of_sequence_parallel_ranks_keep_the_gathered_input() -> None:
    """Of columns; behind a row-parallel linear each rank has its part of what that reads."""
    columns = 2 * (2 * S * H + 2 * S * R)
    rows = 2 * S * F // 2 + 2 * 2 * S * R  # Attention keeps its output anyway.
    assert saved(adapted(*LINEARS), num_gpus=2, tp=2) == frozen_layer(2) + columns + rows


def test_dropout_copies_what_an_adapter_reads() -> None:
    more = saved(adapted("linear_proj", dropout=0.1)) - saved(adapted("linear_proj"))
    assert more == (2 + 1) * S * H


def test_in_fp8_adapters_keep_their_input_as_it_is() -> None:
    narrow = {"precision": {"fp8_recipe": "tensorwise"}}
    assert saved(adapted(*QKV) | narrow) == saved(adapted(*QKV))


def test_only_adapters_have_gradients_and_states() -> None:
    found = answer(job(LLAMA_70B, adapted(*LINEARS), num_gpus=8, tp=2))
    trained = 12 * R * ((H + H + 2 * KV) + 2 * H + (H + 2 * F) + (F + H))
    whole = found.model.parameters.total
    assert found.model.parameters.trainable == trained
    states = {each.name: each for each in found.stages[0].components}
    here = trained // 2
    norms = 12 * 2 * H + H
    assert states["weights"].bytes == 2 * (here + (whole - norms) // 2 + norms)
    assert states["gradients"].bytes == 4 * here
    assert states["gradients"].parameter_count == trained
    assert states["optimizer_states"].bytes == 12 * here // 4


@pytest.mark.parametrize(("recipe", "kept"), [("tensorwise", 2), ("mxfp8", 2 * (1 + 1 / 32))])
def test_frozen_weights_in_fp8_have_no_buffer(recipe: str, kept: float) -> None:
    precision = {"fp8_recipe": recipe, "fp8_param_gather": True}
    asked = job(LLAMA_70B, {**adapted(*QKV), "precision": precision})
    states = megatron_plan(asked).step.states
    assert states.weights + states.linear_weights == kept


def test_routed_experts_share_adapters() -> None:
    ledgers = [
        MegatronLedger(run_of(megatron_plan(job(DEEPSEEK_V2, adapted(*names), num_gpus=8, ep=8))))
        for names in (QKV, ("linear_fc1", "linear_fc2"))
    ]
    none, shared = (sum(each.adapters()[1]) for each in ledgers)
    h, routed, together = 5120, 1536, 3072
    assert none == 0
    assert shared == R * sum((h + 2 * f) + (f + h) for f in (routed, together))


@pytest.mark.parametrize(
    ("peft", "parallelism", "pointer"),
    [
        ({"quantization": "nf4"}, {}, "/training/peft/quantization"),
        ({"target_modules": ["q_proj"]}, {}, "/training/peft/target_modules"),
        ({"r": 6}, {"num_gpus": 4, "tp": 4}, "/training/peft/r"),
        (
            {},
            {"num_gpus": 4, "data_parallel_sharding_strategy": "optim_grads_params"},
            "/training/peft",
        ),
    ],
)
def test_what_adapters_under_megatron_cannot_be(
    peft: dict[str, Any], parallelism: dict[str, Any], pointer: str
) -> None:
    asked = job(LLAMA_70B, {"peft": {"method": "lora", **peft}}, **parallelism)
    with pytest.raises(RefusedError) as raised:
        plan_of(asked)
    assert [each.pointer for each in raised.value.findings] == [pointer]


def test_virtual_tokens_are_pefts_alone() -> None:
    virtual = {"peft": {"method": "prompt_tuning", "num_virtual_tokens": 8}}
    with pytest.raises(RefusedError, match="prompt_tuning under Megatron"):
        plan_of(job(LLAMA_70B, virtual))


def test_predictions_beside_adapters_are_refused() -> None:
    spec = {**LLAMA_70B, "mtp_num_layers": 1}
    with pytest.raises(RefusedError, match="multi-token prediction beside adapters"):
        plan_of(job(spec, adapted(*QKV)))
