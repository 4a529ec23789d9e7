"""Whatever is sent, the answer is an estimate or a problem that blames the request."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfit.api.app import create_app
from trainfit.api.examples import DEEPSEEK_V3
from trainfit.api.settings import ServiceSettings
from trainfit.catalog.configs import bundled_config
from trainfit.questions.field_types import accepted_names
from trainfit.specs.framework import Megatron
from trainfit.specs.parallelism import Parallelism
from trainfit.specs.training import Training
from trainfit.specs.transformer_config import TransformerConfig

SPEC = {
    "num_layers": 61,
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "vocab_size": 129280,
    "position_embedding_type": "rope",
    "num_moe_experts": 256,
    "moe_ffn_hidden_size": 2048,
    "multi_latent_attention": True,
    "kv_lora_rank": 512,
}
DEEPSEEK_CONFIG = bundled_config("deepseek-ai/DeepSeek-V3")
assert DEEPSEEK_CONFIG is not None

JOBS: dict[str, dict[str, Any]] = {
    "hf_id": DEEPSEEK_V3,
    "spec": {**DEEPSEEK_V3, "model": {"spec": SPEC}},
    "hf_config": {**DEEPSEEK_V3, "model": {"hf_config": DEEPSEEK_CONFIG.config}},
}
PARTS = [
    ("hf_id", ("parallelism",), sorted(accepted_names(Parallelism))),
    ("hf_id", ("training",), sorted(accepted_names(Training))),
    ("hf_id", ("framework",), sorted(accepted_names(Megatron))),
    ("spec", ("model", "spec"), sorted(accepted_names(TransformerConfig))),
    ("hf_config", ("model", "hf_config"), sorted(DEEPSEEK_CONFIG.config)),
]

numbers = st.one_of(
    st.sampled_from([0, 1, 2, 3, 4, 8, 16, 64, 512, 2048, 65_536, 131_072, 4_194_304, 2**40]),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
)
leaves = st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=8))
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    """A job of which up to three fields of one part have any value at all."""
    source, path, names = draw(st.sampled_from(PARTS))
    job = deepcopy(JOBS[source])
    part = job
    for name in path:
        part = part[name]
    part |= draw(st.dictionaries(st.sampled_from(names), values, min_size=1, max_size=3))
    return job


@pytest.fixture(scope="module")
def app() -> FastAPI:
    return create_app(ServiceSettings())


@settings(max_examples=150)
@given(jobs())
async def test_no_value_of_a_field_makes_the_service_fail(app: FastAPI, job: Any) -> None:
    await check(app, json.dumps(job).encode())


@settings(max_examples=100)
@given(st.one_of(st.binary(max_size=64), values.map(lambda value: json.dumps(value).encode())))
async def test_no_body_makes_the_service_fail(app: FastAPI, body: bytes) -> None:
    await check(app, body)


async def check(app: FastAPI, body: bytes) -> None:
    async with AsyncClient(transport=ASGITransport(app), base_url="http://service") as client:
        headers = {"content-type": "application/json"}
        response = await client.post("/v1/estimate", content=body, headers=headers)
    if response.status_code != 200:
        assert response.status_code in (400, 413, 422)
        assert response.headers["content-type"] == "application/problem+json"
        assert all(error["message"] for error in response.json()["errors"])
