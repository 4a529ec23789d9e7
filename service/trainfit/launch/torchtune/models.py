"""torchtune's model builders -> models by name, and their adapters.

Source: torchtune/models/*/_model_builders.py at bd2a0fc (2026-04-23) and v0.4.0 to v0.6.1. Builders
of vision models, of reward models, of Gemma 2 (whose attention is torchtune's own) and of Llama 4
(whose decoder stands alone) are not listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from trainfit.catalog.configs import bundled_config

BUILDERS: Mapping[str, str] = {
    "code_llama2.code_llama2_7b": "codellama/CodeLlama-7b-hf",
    "code_llama2.code_llama2_13b": "codellama/CodeLlama-13b-hf",
    "gemma.gemma_2b": "google/gemma-2b",
    "gemma.gemma_7b": "google/gemma-7b",
    "llama2.llama2_7b": "meta-llama/Llama-2-7b-hf",
    "llama2.llama2_13b": "meta-llama/Llama-2-13b-hf",
    "llama2.llama2_70b": "meta-llama/Llama-2-70b-hf",
    "llama3.llama3_8b": "meta-llama/Meta-Llama-3-8B",
    "llama3.llama3_70b": "meta-llama/Meta-Llama-3-70B",
    "llama3_1.llama3_1_8b": "meta-llama/Llama-3.1-8B",
    "llama3_1.llama3_1_70b": "meta-llama/Llama-3.1-70B",
    "llama3_1.llama3_1_405b": "meta-llama/Llama-3.1-405B",
    "llama3_2.llama3_2_1b": "meta-llama/Llama-3.2-1B",
    "llama3_2.llama3_2_3b": "meta-llama/Llama-3.2-3B",
    "llama3_3.llama3_3_70b": "meta-llama/Llama-3.1-70B",
    "mistral.mistral_7b": "mistralai/Mistral-7B-v0.1",
    "phi3.phi3_mini": "microsoft/Phi-3-mini-4k-instruct",
    "phi4.phi4_14b": "microsoft/phi-4",
    "qwen2.qwen2_0_5b": "Qwen/Qwen2-0.5B",
    "qwen2.qwen2_1_5b": "Qwen/Qwen2-1.5B",
    "qwen2.qwen2_7b": "Qwen/Qwen2-7B",
    "qwen2_5.qwen2_5_0_5b": "Qwen/Qwen2.5-0.5B",
    "qwen2_5.qwen2_5_1_5b": "Qwen/Qwen2.5-1.5B",
    "qwen2_5.qwen2_5_3b": "Qwen/Qwen2.5-3B",
    "qwen2_5.qwen2_5_7b": "Qwen/Qwen2.5-7B",
    "qwen2_5.qwen2_5_14b": "Qwen/Qwen2.5-14B",
    "qwen2_5.qwen2_5_32b": "Qwen/Qwen2.5-32B",
    "qwen2_5.qwen2_5_72b": "Qwen/Qwen2.5-72B",
    "qwen3.qwen3_0_6b": "Qwen/Qwen3-0.6B",
    "qwen3.qwen3_1_7b": "Qwen/Qwen3-1.7B",
    "qwen3.qwen3_4b": "Qwen/Qwen3-4B",
    "qwen3.qwen3_8b": "Qwen/Qwen3-8B",
    "qwen3.qwen3_14b": "Qwen/Qwen3-14B",
    "qwen3.qwen3_32b": "Qwen/Qwen3-32B",
}
"""Builders below torchtune.models, without the _base or _instruct behind some; Llama 3.3's is
Llama 3.1's."""
AS_LLAMA = ("phi3.phi3_mini", "phi4.phi4_14b")
"""Models whose published linears are fused where torchtune's are apart, as Llama's are."""
SIZES = (
    *("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads"),
    *("num_hidden_layers", "vocab_size", "max_position_embeddings", "tie_word_embeddings"),
    *("rms_norm_eps", "rope_theta"),
)


class Builder(NamedTuple):
    """A model as a job names it, and whether it has adapters over weights that are quantised."""

    model: Mapping[str, Any]
    adapters: bool
    quantized: bool


def builder_named(component: str) -> Builder | None:
    """The builder of this dotted name; None for one that is not listed."""
    package, _, function = component.removeprefix("torchtune.models.").rpartition(".")
    quantized = function.startswith("qlora_")
    adapters = quantized or function.startswith("lora_")
    plain = function.removeprefix("q" if quantized else "").removeprefix("lora_")
    name = f"{package}.{plain.removesuffix('_base').removesuffix('_instruct')}"
    if name not in BUILDERS:
        return None
    model = _as_llama(BUILDERS[name]) if name in AS_LLAMA else {"hf_id": BUILDERS[name]}
    return Builder(model, adapters, quantized)


def _as_llama(hf_id: str) -> Mapping[str, Any]:
    """A Llama of the sizes of a bundled model."""
    bundled = bundled_config(hf_id)
    assert bundled is not None
    sizes = {name: bundled.config[name] for name in SIZES}
    return {"hf_config": {"model_type": "llama", **sizes}}
