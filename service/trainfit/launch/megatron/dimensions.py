"""Arguments of the model: its layers, its experts, its vocabulary."""

from __future__ import annotations

import re

from trainfit.launch.draft import Draft, Reading
from trainfit.launch.megatron.fields import copy, put, put_default
from trainfit.launch.megatron.hybrid import MAMBA, PATTERNS, has_latent_attention
from trainfit.launch.megatron.layer_flags import layer_flags
from trainfit.launch.megatron.options import Defaults
from trainfit.launch.megatron.tokenizers import vocabulary_of

MODEL = {
    "num_layers": "num_layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_attention_heads",
    "ffn_hidden_size": "ffn_hidden_size",
    "kv_channels": "kv_channels",
    "normalization": "normalization",
    "position_embedding_type": "position_embedding_type",
    "max_position_embeddings": "max_position_embeddings",
    "untie_embeddings_and_output_weights": "untie_embeddings_and_output_weights",
    "swiglu": "swiglu",
    "activation_func_clamp_value": "activation_func_clamp_value",
    "add_bias_linear": "add_bias_linear",
    "add_qkv_bias": "add_qkv_bias",
    "qk_layernorm": "qk_layernorm",
    "attention_output_gate": "attention_output_gate",
    "multi_latent_attention": "multi_latent_attention",
    "mtp_num_layers": "mtp_num_layers",
}
EXPERTS = {
    "moe_router_topk": "moe_router_topk",
    "moe_ffn_hidden_size": "moe_ffn_hidden_size",
    "moe_shared_expert_intermediate_size": "moe_shared_expert_intermediate_size",
    "moe_shared_expert_gate": "moe_shared_expert_gate",
    "moe_latent_size": "moe_latent_size",
}
LATENT_ATTENTION = {
    "q_lora_rank": "q_lora_rank",
    "kv_lora_rank": "kv_lora_rank",
    "qk_head_dim": "qk_head_dim",
    "qk_pos_emb_head_dim": "qk_pos_emb_head_dim",
    "v_head_dim": "v_head_dim",
}
"""Arguments whose value is that of a field of the job."""

OTHER_DIMENSIONS = (
    "add_position_embedding",
    "encoder_num_layers",
    "group_query_attention",
    "moe_layer_freq",
    "num_experts",
    "num_query_groups",
    "pad_vocab_size",
    "padded_vocab_size",
    "quick_geglu",
    "squared_relu",
    "tokenizer_type",
    "use_rotary_position_embeddings",
    "vocab_size",
    "window_size",
)
"""Arguments of the model that are read together with others."""


def is_of_the_hub(draft: Draft) -> bool:
    """Whether a config.json describes the model, as the launch or its overrides name it."""
    return draft.get("/model/hf_id") is not None or _is_overridden(draft)


def _is_overridden(draft: Draft) -> bool:
    """Whether overrides name another model in the place of that of the launch."""
    sources = ("/model/hf_id", "/model/hf_config")
    return any(draft.overridden(source) is not None for source in sources)


def leave_out_dimensions(reading: Reading) -> None:
    """What changes the model that the Hub describes. Where overrides name that model, they take the
    place of all dimensions. How many depths are trained is the training's, unless their layers are
    others than the model's.
    """
    alike = reading.get("mtp_hybrid_override_pattern") is None
    for name in (*MODEL, *EXPERTS, *LATENT_ATTENTION, *MAMBA, *PATTERNS, *OTHER_DIMENSIONS):
        setting = reading.get(name)
        if setting is None:
            continue
        if _is_overridden(reading.draft):
            reading.draft.ignore(setting)
        elif name == "mtp_num_layers" and alike:
            put(reading, setting, "/training/mtp/num_layers", reading.value(name) or 0)
        else:
            why = "a dimension that differs from the model's config.json is not read"
            reading.draft.leave_out(setting, why)


def read_model(reading: Reading, defaults: Defaults) -> None:
    spec = "/model/spec"
    copy(reading, MODEL, spec)
    layers = "num_layers" in reading.settings
    copy(reading, {"encoder_num_layers": "num_layers"}, spec, applies=not layers)
    _read_activation(reading)
    _read_positions(reading)
    if reading.value("group_query_attention"):
        copy(reading, {"num_query_groups": "num_query_groups"}, spec)
        put_default(reading, defaults, "num_query_groups", f"{spec}/num_query_groups")
    else:
        reading.get("num_query_groups")
    latent = bool(reading.value("multi_latent_attention")) or has_latent_attention(reading)
    copy(reading, LATENT_ATTENTION, spec, applies=latent)
    if latent:
        put_default(reading, defaults, "kv_lora_rank", f"{spec}/kv_lora_rank")
    experts = reading.value("num_experts") is not None
    copy(reading, {"num_experts": "num_moe_experts"} | EXPERTS, spec, applies=experts)
    if experts:
        reading.copy("moe_layer_freq", f"{spec}/moe_layer_freq", layer_flags)
    else:
        reading.get("moe_layer_freq")


def _read_activation(reading: Reading) -> None:
    for name, activation in (("squared_relu", "squared_relu"), ("quick_geglu", "geglu")):
        setting = reading.get(name)
        if setting is not None and reading.value(name):
            reading.draft.put("/model/spec/activation_func", activation, setting)


def _read_positions(reading: Reading) -> None:
    pointer = "/model/spec/position_embedding_type"
    rotary = reading.get("use_rotary_position_embeddings")
    if rotary is not None and reading.value("use_rotary_position_embeddings"):
        reading.draft.put(pointer, "rope", rotary)
    absent = reading.get("add_position_embedding")
    without = absent is not None and not reading.value("add_position_embedding")
    if absent is not None and without and reading.draft.get(pointer) != "rope":
        reading.draft.complain(
            absent, "goes with rotary positions only; give --position-embedding-type none"
        )
    window = reading.get("window_size")
    if window is not None:
        sizes = [int(size) for size in re.findall(r"-?\d+", str(reading.value("window_size")))]
        if len(sizes) == 2 and sizes[0] > 0 and sizes[1] <= 0:
            reading.draft.put("/model/spec/window_size", sizes[0], window)
        else:
            reading.draft.leave_out(window, "is not the size of a causal window")


def read_vocabulary(reading: Reading, defaults: Defaults, tokenizer: str | None) -> None:
    """The rows of the embedding are the tokenizer's, which only a null tokenizer counts itself;
    of one that is made for one vocabulary they are known. `tokenizer` is what the program takes
    where none is named.

    Pai-Megatron-Patch adds rows to those, and pads them no further.
    """
    draft = reading.draft
    padded, size = reading.get("padded_vocab_size"), reading.get("vocab_size")
    null = reading.value("tokenizer_type") == "NullTokenizer"
    unpadded = reading.get("pad_vocab_size")
    added = reading.get("extra_vocab_size")
    divisor = "/framework/make_vocab_size_divisible_by"
    if padded is not None:
        draft.put("/model/spec/vocab_size", reading.value("padded_vocab_size"), padded)
        draft.put(divisor, 1, padded)
    elif size is not None:
        end_of_document = null and defaults.before("core_v0.18.0")
        draft.put("/model/spec/vocab_size", reading.value("vocab_size") + end_of_document, size)
    elif (known := vocabulary_of(reading, tokenizer)) is not None:
        draft.default("/model/spec/vocab_size", known.size, known.whose)
    if added is not None:
        draft.put(divisor, 1, added)
    if unpadded is not None and not reading.value("pad_vocab_size"):
        draft.put(divisor, 1, unpadded)
    draft.require(
        "/model/spec/vocab_size",
        "the size of the vocabulary is the tokenizer's, which is not read; "
        "give /model/spec/vocab_size in overrides",
    )
