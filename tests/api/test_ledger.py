"""POST /v1/ledger: the ledger of one pipeline rank."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from httpx import AsyncClient

from trainfit.api.examples import DEEPSEEK_V3, LEDGER_EXAMPLES, LORA_8B, TORCHTITAN_8B

QWEN_MOE = {
    **TORCHTITAN_8B,
    "model": {"hf_id": "Qwen/Qwen3-30B-A3B"},
    "training": {"micro_batch_size": 1, "num_microbatches": 1, "seq_length": 8192},
}
"""Without recomputation, as layers that run again in backward show no more than their input."""


def leaves(module: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if not module["children"]:
        yield module
    for child in module["children"]:
        yield from leaves(child)


def shapes(module: dict[str, Any], symbols: dict[str, int]) -> Iterator[tuple[str, dict[str, int]]]:
    """Every shape below a module with the symbols that are known there."""
    symbols = symbols | module["symbols"]
    for tensor in module["tensors"]:
        for shape in re.findall(r"\[([^\]]+)\]", tensor["name"]):
            yield shape, symbols
    for child in module["children"]:
        yield from shapes(child, symbols)


async def ask(client: AsyncClient, question: dict[str, Any]) -> dict[str, Any]:
    response = await client.post("/v1/ledger", json=question)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.mark.parametrize("name", LEDGER_EXAMPLES)
async def test_the_examples_are_answered(client: AsyncClient, name: str) -> None:
    question: Any = LEDGER_EXAMPLES[name]["value"]
    answer = await ask(client, question)
    assert answer["modules"]["name"] == f"stage {answer['pp_rank']}"
    assert answer["course"]["passes"]


async def test_the_rank_that_binds_is_told_unless_another_is_asked_for(client: AsyncClient) -> None:
    assert (await ask(client, DEEPSEEK_V3))["pp_rank"] == 1
    assert (await ask(client, {**DEEPSEEK_V3, "pp_rank": 3}))["pp_rank"] == 3


@pytest.mark.parametrize("job", [DEEPSEEK_V3, TORCHTITAN_8B, LORA_8B], ids=str)
async def test_parameters_are_those_of_the_estimate(
    client: AsyncClient, job: dict[str, Any]
) -> None:
    estimate = (await client.post("/v1/estimate", json=job)).json()
    for stage in estimate["stages"]:
        modules = (await ask(client, {**job, "pp_rank": stage["pp_rank"]}))["modules"]
        assert modules["parameters_per_gpu"] == sum(each["parameters"] for each in stage["chunks"])


async def test_what_an_operation_saves_is_the_sum_of_its_tensors(client: AsyncClient) -> None:
    modules = (await ask(client, DEEPSEEK_V3))["modules"]
    saving = [leaf for leaf in leaves(modules) if leaf["tensors"]]
    assert saving
    for leaf in saving:
        kept = [
            tensor["bytes"]
            for tensor in leaf["tensors"]
            if tensor["lifetime"] == "saved" and not tensor["dropped"]
        ]
        assert leaf["saved_bytes"] == leaf["count"] * sum(kept)


async def test_recompute_marks_what_it_drops(client: AsyncClient) -> None:
    recompute = {"granularity": "selective", "modules": ["core_attn"]}
    job = {**DEEPSEEK_V3, "training": {"recompute": recompute}}
    (attention, *_) = [
        leaf
        for leaf in leaves((await ask(client, job))["modules"])
        if leaf["name"] == "core_attention"
    ]
    assert any(tensor["dropped"] for tensor in attention["tensors"])
    assert all(
        tensor["lifetime"] == "saved" for tensor in attention["tensors"] if tensor["dropped"]
    )


@pytest.mark.parametrize("job", [DEEPSEEK_V3, QWEN_MOE], ids=["megatron", "torchtitan"])
async def test_every_symbol_of_a_shape_has_a_number(
    client: AsyncClient, job: dict[str, Any]
) -> None:
    answer = await ask(client, job)
    found = list(shapes(answer["modules"], answer["symbols"]))
    assert found
    for shape, symbols in found:
        for symbol in re.findall(r"[A-Za-z_]+'?", shape):
            # A norm of heads has as many rows as there are heads for each token.
            assert symbol in symbols or symbol == "rows", shape


@pytest.mark.parametrize("job", [DEEPSEEK_V3, QWEN_MOE], ids=["megatron", "torchtitan"])
async def test_every_block_says_what_it_follows(client: AsyncClient, job: dict[str, Any]) -> None:
    modules = (await ask(client, job))["modules"]
    blocks = [child for run in modules["children"] for child in run["children"] if child["symbols"]]
    assert blocks
    assert all("ource" in block["about"] for block in blocks)


async def test_a_rank_that_the_layout_does_not_have_is_refused(client: AsyncClient) -> None:
    response = await client.post("/v1/ledger", json={**DEEPSEEK_V3, "pp_rank": 4})
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["pointer"] == "/pp_rank"
    assert error["suggestion"] == [{"op": "add", "path": "/pp_rank", "value": 3}]
