"""What GPT-NeoX's keys say of the model: layers, attention and vocabulary.

Sources: EleutherAI/gpt-neox megatron/neox_arguments (neox_args.py, arguments.py),
megatron/model/transformer.py (ParallelMLP) and megatron/model/gpt2_model.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from trainfit.launch.draft import Draft
from trainfit.launch.effects import Effect
from trainfit.launch.megatron.configs import Field
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.source import as_int

WHOSE = "GPT-NeoX"
POSITIONS = {"learned": "learned_absolute", "rotary": "rope", "none": "none"}
NORMS = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}
GATED = {"swiglu": "swiglu", "geglu": "geglu"}
FUSED_SOFTMAX = "scaled_upper_triang_masked_softmax_fusion"
BIASES = ("use_bias_in_attn_linear", "use_bias_in_mlp")
BESIDE = "gpt_j_residual"
"""Attention beside the feed-forward network, not before it."""
KEYS = (
    "pos_emb",
    "norm",
    "activation",
    "intermediate_size",
    "expansion_factor",
    "mlp_multiple_of",
    "moe_num_experts",
    "attention_config",
    "tokenizer_type",
    "vocab_file",
    FUSED_SOFTMAX,
    BESIDE,
    *BIASES,
)
"""Those that are read here."""


def layers(settings: Mapping[str, Setting], draft: Draft) -> Iterator[Field]:
    positions = settings.get("pos_emb")
    if positions is not None and positions.value == "alibi":
        yield Field("alibi", positions, True)
    elif positions is not None and str(positions.value) in POSITIONS:
        yield Field("position_embedding_type", positions, POSITIONS[str(positions.value)])
    elif positions is not None:
        draft.leave_out(positions, f"of positions {', '.join(POSITIONS)} and alibi are modelled")
    norm = settings.get("norm")
    if norm is not None and str(norm.value) in NORMS:
        yield Field("normalization", norm, NORMS[str(norm.value)])
    elif norm is not None:
        draft.leave_out(norm, f"of norms {' and '.join(NORMS)} are modelled")
    activation = settings.get("activation")
    if activation is not None and str(activation.value) in GATED:
        yield Field("activation_func", activation, GATED[str(activation.value)])
    elif activation is not None and activation.value != "gelu":
        draft.leave_out(activation, "this activation is not modelled")
    yield from _feed_forward(settings, draft)
    _put_beside(settings, draft)
    experts = settings.get("moe_num_experts")
    if experts is not None and (as_int(experts.value) or 1) > 1:
        yield Field("num_experts", experts, experts.value)
        if "moe_top_k" not in settings:
            yield Field("moe_router_topk", experts, 1)
    yield from _biases(settings, draft)


def _feed_forward(settings: Mapping[str, Setting], draft: Draft) -> Iterator[Field]:
    """The width behind the first product: as it is given, but of a gated one two thirds of that
    for both halves, each a multiple.
    """
    given = settings.get("intermediate_size") or settings.get("expansion_factor")
    hidden = settings.get("hidden_size")
    activation = settings.get("activation")
    gated = activation is not None and str(activation.value) in GATED
    setting = given or (activation if gated else None)
    if setting is None or hidden is None or not isinstance(hidden.value, int):
        return
    if given is not None and not isinstance(given.value, int | float):
        draft.complain(given, "must be a number")
        return
    width = given.value if given is not None else 4 * hidden.value
    if given is not None and given.key == "expansion_factor":
        width = int(given.value * hidden.value)
    multiple = settings.get("mlp_multiple_of")
    of = (as_int(multiple.value) if multiple is not None else None) or 1
    if gated:
        width = int(width * 2 / 3) // 2
    yield Field("ffn_hidden_size", setting, of * -(-width // of))


def _put_beside(settings: Mapping[str, Setting], draft: Draft) -> None:
    """Side by side, both norms read the layer's input, and their sum with it, [s b, h] in two
    bytes of each of L layers, is not kept; while attention runs the second norm's output waits,
    which is of the same size.

    Source: megatron/model/transformer.py (ParallelTransformerLayer.forward).
    """
    setting = settings.get(BESIDE)
    if setting is None or not setting.value:
        return
    names = ("num_layers", "seq_length", "train_micro_batch_size_per_gpu", "hidden_size")
    sizes = [settings[name].value for name in names if name in settings]
    known = len(sizes) == len(names) and all(isinstance(each, int) for each in sizes)
    why = "attention and the feed-forward network beside each other are priced one after the other"
    source = "megatron/model/transformer.py: ParallelTransformerLayer.forward"
    size = 2 * prod(sizes) if known else 0
    draft.leave_out(setting, Effect(why, "lowers", source, bytes=size))


def _biases(settings: Mapping[str, Setting], draft: Draft) -> Iterator[Field]:
    """Linears have biases unless both switches are off; with one off, as if all had them."""
    off = [each for name in BIASES if (each := settings.get(name)) and each.value is False]
    if len(off) == len(BIASES):
        yield Field("add_bias_linear", off[0], False)
    elif off:
        sizes = [settings.get(name) for name in ("num_layers", "hidden_size")]
        known = [each.value for each in sizes if each is not None and isinstance(each.value, int)]
        size = 20 * 5 * known[0] * known[1] if len(known) == len(sizes) else 0
        source = "megatron/model/transformer.py: linears without a bias"
        effect = Effect("biases that are counted are not there", "lowers", source, bytes=size)
        draft.leave_out(off[0], effect)


def attention(settings: Mapping[str, Setting], draft: Draft) -> Iterator[Field]:
    """Layers of one kind: `flash`, or `global`, which makes all scores."""
    given = settings.get("attention_config")
    kinds = set(_kinds(given.value)) if given is not None else {"global"}
    if given is not None and kinds == {"flash"}:
        yield Field("use_flash_attn", given, True)
        return
    if given is not None and kinds != {"global"}:
        draft.leave_out(given, "of attention global and flash are modelled, in all layers alike")
    draft.default("/framework/transformer_impl", "local", WHOSE)
    fused = settings.get(FUSED_SOFTMAX)
    if fused is None or fused.value is not True:
        setting = fused or Setting(FUSED_SOFTMAX, False, WHOSE, None)
        draft.leave_out(setting, _unfused(settings))


SCORE_BYTES = 4 + 4 + 4 + 1
"""Of a score: as it is made, masked and through the softmax in fp32, and the mask."""


def _unfused(settings: Mapping[str, Setting]) -> Effect | str:
    """What a softmax of several kernels keeps of scores [b, a, s, s]: of each layer, or of one that
    runs again in backward.
    """
    names = ("train_micro_batch_size_per_gpu", "num_attention_heads", "seq_length", "num_layers")
    given = [settings.get(name) for name in names]
    sizes = [each.value for each in given if each is not None and isinstance(each.value, int)]
    why = "a softmax of several kernels"
    if len(sizes) < len(names):
        return f"what {why} keeps is not modelled"
    samples, heads, length, layers = sizes
    again = settings.get("checkpoint_activations")
    kept = 1 if again is not None and again.value is True else layers
    return Effect(
        f"{why} keeps its scores in fp32 and their mask",
        "raises",
        "megatron/model/fused_softmax.py: FusedScaleMaskSoftmax.forward_torch_softmax",
        bytes=SCORE_BYTES * samples * heads * length**2 * kept,
    )


ROWS = {"20B_tokenizer.json": 50277}
"""Of tokenizers in a file, by its name."""


def vocabulary(settings: Mapping[str, Setting]) -> Iterator[Field]:
    kind, file = settings.get("tokenizer_type"), settings.get("vocab_file")
    rows = ROWS.get(str(file.value).rpartition("/")[2]) if file is not None else None
    if rows is not None and file is not None:
        yield Field("vocab_size", file, rows)
    elif file is not None:
        yield Field("vocab_file", file, file.value)
    if kind is not None:
        yield Field("tokenizer_type", kind, kind.value)


def _kinds(value: Any) -> Iterator[str]:
    """[[["flash"], 12]], or a list of a kind for each layer."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, list):
            yield from _kinds(each)
        elif isinstance(each, str) and each != "all":
            yield each
