"""What PEFT trains beside a frozen base: low-rank adapters and virtual tokens."""

from fractions import Fraction

from trainfit.resolve.findings import Findings, put
from trainfit.resolve.plan import Layout
from trainfit.resolve.pytorch.plan import Adapters, VirtualTokens
from trainfit.resolve.pytorch.precision import BYTES, Dtypes
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Layer
from trainfit.specs.framework import Torchtitan
from trainfit.specs.job import Job
from trainfit.specs.peft import FrozenBase, Lora, Peft, PrefixTuning, PromptTuning, PTuning


def adapters_of(peft: Peft, dtypes: Dtypes, model: ModelSpec) -> Adapters:
    """PEFT casts adapters of a narrow model to fp32, and has virtual tokens in nothing else. A head
    of labels is trained whole beside them. bitsandbytes takes the place of linears alone. Sources:
    peft's tuners_utils.py (autocast_adapter_dtype), tuners/prompt_tuning/model.py and peft_model.py
    (PeftModelForSequenceClassification); transformers' integrations/bitsandbytes.py
    (replace_with_bnb_linear).
    """
    heads = ("score",) if model.output_layer.scores_labels else ()
    lora = peft if isinstance(peft, Lora) else Lora(method="lora", target_modules=())
    stored = BYTES[lora.adapter_dtype or "fp32"]
    all_linear = lora.target_modules == "all-linear"
    return Adapters(
        rank=lora.r,
        dropout=lora.dropout > 0,
        targets=None if all_linear else frozenset(lora.target_modules),
        element_bytes=stored,
        computed_bytes=_narrowed(stored, dtypes),
        matrix_bytes=_frozen_bytes(peft, dtypes) + _scale_bytes(peft),
        scale_bytes=_scale_bytes(peft),
        with_experts=peft.quantize_experts or peft.quantization is None,
        saved=frozenset(lora.modules_to_save).union(heads),
        base_dtype=dtypes.base,
        virtual=_virtual_tokens(peft, model),
        fused=frozenset(lora.fused),
        decomposed=lora.decomposed,
    )


def _virtual_tokens(peft: Peft, model: ModelSpec) -> VirtualTokens | None:
    """Source of the widths: peft's utils/other.py (_prepare_prompt_learning_config)."""
    if isinstance(peft, Lora):
        return None
    count, width = peft.num_virtual_tokens, model.hidden_size
    match peft:
        case PromptTuning():
            return VirtualTokens(count, "embeddings", width, 0, 0)
        case PTuning(encoder_reparameterization_type="LSTM"):
            encoder = peft.encoder_hidden_size or width
            return VirtualTokens(count, "lstm", width, encoder, peft.encoder_num_layers)
        case PTuning():
            return VirtualTokens(count, "mlp", width, peft.encoder_hidden_size or width, 0)
    width = max(_key_widths(model.layer_kinds[model.pattern[0]]), default=0)
    if peft.prefix_projection:
        encoder = peft.encoder_hidden_size or width
        return VirtualTokens(count, "projected_keys_and_values", width, encoder, 0)
    return VirtualTokens(count, "keys_and_values", width, 0, 0)


def _key_widths(layer: Layer) -> tuple[int, ...]:
    """g d of each block of a layer that has keys of its own, and values as wide."""
    return tuple(
        block.kv_heads * block.head_dim
        for block in layer.blocks
        if isinstance(block, Attention)
        and block.owns_kv
        and block.v_head_dim in (None, block.head_dim)
    )


def _narrowed(stored: int, dtypes: Dtypes) -> int:
    """Bytes of an element of an adapter as a forward reads it."""
    return stored if dtypes.base is None else dtypes.computed


def _frozen_bytes(peft: FrozenBase, dtypes: Dtypes) -> Fraction:
    """Bytes of an element of a frozen matrix, without its scales."""
    match peft.quantization:
        case "int8":
            return Fraction(1)
        case "nf4":
            return Fraction(1, 2)
        case _:
            return Fraction(dtypes.stored)


def _scale_bytes(peft: FrozenBase) -> Fraction:
    """Bytes of the scales of an element: fp32 for 64 elements, or quantised to 8 bits themselves,
    with fp32 for 256 of them. Source: bitsandbytes' functional.py (quantize_4bit).
    """
    if peft.quantization != "nf4":
        return Fraction(0)
    return Fraction(1, 64) + Fraction(4, 64 * 256) if peft.double_quantization else Fraction(4, 64)


def check_decomposed(job: Job, model: ModelSpec, layout: Layout, findings: Findings) -> None:
    """Lengths are followed of linears that a rank has whole, and that run by themselves."""
    peft = job.training.peft
    if not isinstance(peft, Lora) or not peft.decomposed:
        return
    pointer, put_off = "/training/peft/decomposed", put("/training/peft/decomposed", False)
    if model.has_experts:
        message = "lengths that are learned beside experts are not modelled"
        findings.add(pointer, "not_modelled", message, put_off)
    if peft.fused:
        message = "lengths beside adapters in one function with their products are not modelled"
        findings.add(pointer, "not_modelled", message, put("/training/peft/fused", []))
    if layout.tp > 1:
        message = "lengths of matrices that ranks share out are not modelled"
        findings.add(pointer, "not_modelled", message, put("/parallelism/tp", 1))


def check_virtual_tokens(job: Job, model: ModelSpec, layout: Layout, findings: Findings) -> None:
    """PEFT puts them before samples that no rank shares with another."""
    peft = job.training.peft
    if peft is None or isinstance(peft, Lora):
        return
    if isinstance(job.framework, Torchtitan):
        findings.add(
            "/framework/name",
            "conflict",
            f"{peft.method} is PEFT's, for models of transformers",
            put("/framework", {"name": "transformers"}),
        )
    for name in ("tp", "cp"):
        if getattr(layout, name) > 1:
            pointer = f"/parallelism/{name}"
            message = f"{name} with {peft.method} is not modelled"
            findings.add(pointer, "not_modelled", message, put(pointer, 1))
    if isinstance(peft, PrefixTuning):
        _check_prefix(job, model, findings)
    lstm = isinstance(peft, PTuning) and peft.encoder_reparameterization_type == "LSTM"
    if lstm and layout.sharding == "optim_grads_params":
        pointer = "/training/peft/encoder_reparameterization_type"
        message = "an LSTM whose weights are sharded is not modelled"
        findings.add(pointer, "not_modelled", message, put(pointer, "MLP"))


def _check_prefix(job: Job, model: ModelSpec, findings: Findings) -> None:
    """Keys and values go to a cache, which a forward that runs again would fill twice, and are as
    wide in every layer. Source: peft's peft_model.py (_setup_prompt_encoder, get_prompt).
    """
    pointer = "/training/recompute/granularity"
    if job.training.recompute.granularity is not None:
        message = "PEFT has no prefix tuning where activations are recomputed"
        findings.add(pointer, "conflict", message, put(pointer, None))
    (width, *others) = {_key_widths(model.layer_kinds[kind]) for kind in model.pattern}
    if others or len(width) != 1:
        message = "prefix tuning goes with models whose layers have keys and values of one width"
        findings.add("/training/peft/method", "conflict", message)
