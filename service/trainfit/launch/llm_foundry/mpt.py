"""LLM Foundry's own model, MPT, as its config describes it.

Sources: llmfoundry/models/mpt (configuration_mpt.py, modeling_mpt.py) and
models/utils/config_defaults.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainfit.launch.draft import Draft, Reading
from trainfit.launch.values import flag, size, word

KIND = "mpt_causal_lm"
GATED = {"mptmlp": False, "mptglu": True}
"""Feed-forward networks, and whether they have a gate."""
KERNELS = {"flash": "flash", "torch": "eager", "triton": "flash"}
"""Kernels of attention; Triton's, of older releases, keeps what flash attention does."""
LOSSES = {"fused_crossentropy": "fused", "torch_crossentropy": "unfused"}
BACKEND = "/training/attention/backend"
LOSS = "/training/loss/cross_entropy"
WIDEST = 1024
"""Times that a feed-forward network may be wider than the model, far beyond any."""
WHOSE = "LLM Foundry"


def put_mpt(reading: Reading, draft: Draft) -> None:
    """Describe the model; experts, and layers that differ, are not read."""
    key, kind = (
        "model.ffn_config.ffn_type",
        reading.value("model.ffn_config.ffn_type", "mptmlp", word),
    )
    if kind not in GATED:
        draft.complain(reading.settings[key], f"of these {', '.join(GATED)} are read", "/model")
        return
    draft.put("/model/spec", _spec(reading, gated=GATED[kind]), reading.settings["model.name"])
    _put_one_of(reading, draft, "model.attn_config.attn_impl", BACKEND, KERNELS)
    _put_one_of(reading, draft, "model.loss_fn", LOSS, LOSSES)
    draft.default("/training/attention/repeats_kv", False, WHOSE)


def _spec(reading: Reading, *, gated: bool) -> dict[str, Any]:
    """The model in Megatron's words, with the defaults of MPTConfig."""
    hidden, heads = _of(reading, "d_model", 2048), _of(reading, "n_heads", 16)
    rope = _is(reading, "attn_config.rope", otherwise=False)
    alibi = _is(reading, "attn_config.alibi", otherwise=False)
    learned = _is(reading, "learned_pos_emb", otherwise=True) and not (rope or alibi)
    ratio = reading.value("model.expansion_ratio", 4, _ratio)
    spec = {
        "num_layers": _of(reading, "n_layers", 24),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_query_groups": _groups(reading, heads),
        "ffn_hidden_size": _of(reading, "ffn_config.ffn_hidden_size", int(hidden * ratio)),
        "vocab_size": _of(reading, "vocab_size", 50368),
        "max_position_embeddings": _of(reading, "max_seq_len", 2048),
        "activation_func": "geglu" if gated else "gelu",
        "normalization": "LayerNorm",
        "position_embedding_type": "learned_absolute" if learned else "rope" if rope else "none",
        "add_bias_linear": not _is(reading, "no_bias", otherwise=False),
        "qk_layernorm": _is(reading, "attn_config.qk_ln", otherwise=False),
        "untie_embeddings_and_output_weights": not _is(
            reading, "tie_word_embeddings", otherwise=True
        ),
    }
    head = _of(reading, "head_dim", 0)
    return spec | ({"kv_channels": head} if head else {})


def _groups(reading: Reading, heads: int) -> int:
    kind = reading.value("model.attn_config.attn_type", "multihead_attention", word)
    one = kind == "multiquery_attention"
    return 1 if one else _of(reading, "attn_config.kv_n_heads", heads)


def _ratio(value: Any) -> float:
    """How many times wider a feed-forward network is. Raises ValueError for what is none."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and 0 < value <= WIDEST:
        return float(value)
    raise ValueError(f"must be a number above 0, of at most {WIDEST}")


def _of(reading: Reading, key: str, otherwise: int) -> int:
    given = reading.get(f"model.{key}")
    if given is None or given.value is None:
        return otherwise
    number: int = reading.value(f"model.{key}", otherwise, size)
    return number


def _is(reading: Reading, key: str, *, otherwise: bool) -> bool:
    value: bool = reading.value(f"model.{key}", otherwise, flag)
    return value


def _put_one_of(
    reading: Reading, draft: Draft, key: str, pointer: str, meanings: Mapping[str, str]
) -> None:
    """A word that stands for a value of a field; the first is the default."""
    setting = reading.get(key)
    if setting is None:
        draft.default(pointer, next(iter(meanings.values())), WHOSE)
    elif str(setting.value) in meanings:
        draft.put(pointer, meanings[str(setting.value)], setting)
    else:
        draft.complain(setting, f"of these {', '.join(meanings)} are read", pointer)
