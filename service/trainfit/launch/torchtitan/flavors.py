"""The models of torchtitan's registries: model.name and model.flavor -> a model of a job.

Sources: torchtitan/models/*/__init__.py and args.py of the releases; experiments/llama4 at v0.1.0.
A flavour that has the dimensions of a published model is given by that model's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from trainfit.launch.torchtitan.releases import RELEASES, TorchtitanRelease

Spec = dict[str, Any]


class Flavor(NamedTuple):
    """A model that a job names (`hf_id`) or describes (`spec`), and its number of layers."""

    num_layers: int
    hf_id: str | None = None
    spec: Spec | None = None
    debug: bool = False
    """Its vocabulary is that of the release's test tokenizer."""
    until: str | None = None
    """The last release that has it so."""
    since: str = RELEASES[0].name
    """The first release that has it so."""
    experts: bool = False
    """Whether some of its layers are mixtures of experts."""

    def model(self, release: TorchtitanRelease) -> dict[str, Any]:
        if self.hf_id is not None:
            return {"hf_id": self.hf_id}
        rows = {"vocab_size": release.vocabulary_of_debug_models} if self.debug else {}
        return {"spec": {"num_layers": self.num_layers, **(self.spec or {}), **rows}}


LLAMA: Spec = {
    "normalization": "RMSNorm",
    "activation_func": "swiglu",
    "add_bias_linear": False,
    "position_embedding_type": "rope",
    "untie_embeddings_and_output_weights": True,
}
LLAMA_DEBUG: Spec = LLAMA | {
    "hidden_size": 256,
    "num_attention_heads": 16,
    "ffn_hidden_size": 768,
}
"""The hidden width is two thirds of four times the model's, up to the next 256."""
LLAMA4: Spec = LLAMA | {
    "hidden_size": 5120,
    "num_attention_heads": 40,
    "num_query_groups": 8,
    "ffn_hidden_size": 16384,
    "vocab_size": 202048,
    "moe_router_topk": 1,
    "moe_ffn_hidden_size": 8192,
    "moe_shared_expert_intermediate_size": 8192,
}
LLAMA4_DEBUG: Spec = LLAMA_DEBUG | {
    "num_moe_experts": 8,
    "moe_router_topk": 1,
    "moe_ffn_hidden_size": 512,
    "moe_shared_expert_intermediate_size": 512,
    "moe_layer_freq": [0, 1] * 3,
}
SCOUT: Spec = LLAMA4 | {"num_moe_experts": 16}
MAVERICK: Spec = LLAMA4 | {"num_moe_experts": 128, "moe_layer_freq": [0, 1] * 24}
QWEN3_DEBUG: Spec = LLAMA | {
    "hidden_size": 256,
    "num_attention_heads": 16,
    "num_query_groups": 8,
    "kv_channels": 128,
    "qk_layernorm": True,
    "ffn_hidden_size": 3072,
}
DEEPSEEK_DEBUG: Spec = LLAMA | {
    "hidden_size": 256,
    "num_attention_heads": 16,
    "ffn_hidden_size": 1024,
    "multi_latent_attention": True,
    "qk_layernorm": True,
    "kv_lora_rank": 512,
    "num_moe_experts": 8,
    "moe_router_topk": 3,
    "moe_ffn_hidden_size": 256,
    "moe_shared_expert_intermediate_size": 512,
    "moe_layer_freq": [0, 1, 1, 1, 1, 1],
}
"""Widths of a head are 128 and 64 rotated, Megatron's defaults."""

FIRST_WITH_MORE = "v0.2.0"
"""The first release with Qwen3 and DeepSeek-V3."""

LLAMA3_FLAVORS: Mapping[str, tuple[Flavor, ...]] = {
    "debugmodel": (
        Flavor(8, spec=LLAMA_DEBUG, debug=True, until="2025-03"),
        Flavor(6, spec=LLAMA_DEBUG, debug=True, since="v0.1.0"),
    ),
    "debugmodel_flex_attn": (Flavor(6, spec=LLAMA_DEBUG, debug=True, since="v0.1.0"),),
    "debugmodel_varlen_attn": (Flavor(6, spec=LLAMA_DEBUG, debug=True, since="v0.2.1"),),
    "8B": (Flavor(32, "meta-llama/Llama-3.1-8B"),),
    "8B_flex": (Flavor(32, "meta-llama/Llama-3.1-8B", since="v0.2.1"),),
    "8B_varlen": (Flavor(32, "meta-llama/Llama-3.1-8B", since="v0.2.1"),),
    "70B": (Flavor(80, "meta-llama/Llama-3.1-70B"),),
    "405B": (Flavor(126, "meta-llama/Llama-3.1-405B"),),
}

FLAVORS: Mapping[str, Mapping[str, tuple[Flavor, ...]]] = {
    "llama3": LLAMA3_FLAVORS,
    "llama3_ft": LLAMA3_FLAVORS,
    "llama4": {
        "debugmodel": (Flavor(6, spec=LLAMA4_DEBUG, debug=True, since="v0.1.0", experts=True),),
        "debugmodel_irope": (
            Flavor(6, spec=LLAMA4_DEBUG, debug=True, since="v0.1.0", experts=True),
        ),
        "17bx16e": (Flavor(48, spec=SCOUT, since="v0.1.0", experts=True),),
        "17bx16e_irope": (Flavor(48, spec=SCOUT, since="v0.1.0", experts=True),),
        "17bx128e": (Flavor(48, spec=MAVERICK, since="v0.1.0", experts=True),),
        "17bx128e_irope": (Flavor(48, spec=MAVERICK, since="v0.1.0", experts=True),),
    },
    "deepseek_v3": {
        "debugmodel": (
            Flavor(6, spec=DEEPSEEK_DEBUG, debug=True, since=FIRST_WITH_MORE, experts=True),
        ),
        "debugmodel_flex_attn": (
            Flavor(6, spec=DEEPSEEK_DEBUG, debug=True, since=FIRST_WITH_MORE, experts=True),
        ),
        "16B": (Flavor(27, "deepseek-ai/DeepSeek-V2-Lite", since=FIRST_WITH_MORE, experts=True),),
        "236B": (Flavor(60, "deepseek-ai/DeepSeek-V2", since=FIRST_WITH_MORE, experts=True),),
        "671B": (Flavor(61, "deepseek-ai/DeepSeek-V3", since=FIRST_WITH_MORE, experts=True),),
    },
    "qwen3": {
        "debugmodel": (
            Flavor(
                8,
                spec=QWEN3_DEBUG | {"untie_embeddings_and_output_weights": False},
                debug=True,
                since=FIRST_WITH_MORE,
            ),
        ),
        "debugmodel_moe": (
            Flavor(
                8,
                spec=QWEN3_DEBUG
                | {"num_moe_experts": 64, "moe_router_topk": 8, "moe_ffn_hidden_size": 768},
                debug=True,
                since=FIRST_WITH_MORE,
                experts=True,
            ),
        ),
        "0.6B": (Flavor(28, "Qwen/Qwen3-0.6B", since=FIRST_WITH_MORE),),
        "1.7B": (Flavor(28, "Qwen/Qwen3-1.7B", since=FIRST_WITH_MORE),),
        "4B": (Flavor(36, "Qwen/Qwen3-4B", since=FIRST_WITH_MORE),),
        "8B": (Flavor(36, "Qwen/Qwen3-8B", since=FIRST_WITH_MORE),),
        "14B": (Flavor(40, "Qwen/Qwen3-14B", since=FIRST_WITH_MORE),),
        "32B": (Flavor(64, "Qwen/Qwen3-32B", since=FIRST_WITH_MORE),),
        "30B-A3B": (Flavor(48, "Qwen/Qwen3-30B-A3B", since=FIRST_WITH_MORE, experts=True),),
        "235B-A22B": (Flavor(94, "Qwen/Qwen3-235B-A22B", since=FIRST_WITH_MORE, experts=True),),
    },
    "gpt_oss": {
        "20b": (Flavor(24, "openai/gpt-oss-20b", since="v0.2.2", experts=True),),
        "120b": (Flavor(36, "openai/gpt-oss-120b", since="v0.2.2", experts=True),),
    },
}

NO_LANGUAGE_MODELS: Mapping[str, str] = {
    "flux": "is an image model; language models are estimated",
    "vlm": "has a vision encoder, whose activations are not modelled",
}


def flavor_of(name: str, flavor: str, release: TorchtitanRelease) -> Flavor | None:
    """The model of this name in a release; None where that has none, or one that is not known."""
    order = [each.name for each in RELEASES]
    for found in FLAVORS.get(name, {}).get(flavor, ()):
        last = found.until or order[-1]
        if order.index(found.since) <= order.index(release.name) <= order.index(last):
            return found
    return None
