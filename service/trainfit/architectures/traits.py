"""What a config.json says beyond dimensions: activation function, dropout, soft caps.

The defaults of absent keys are those of transformers' configuration classes.
"""

from collections.abc import Iterable

from trainfit.architectures.config import Config
from trainfit.specs.architecture import Traits

ACTIVATION_KEYS = (
    "hidden_activation",
    "hidden_act",
    "activation_function",
    "mlp_hidden_act",
    "activation",
    "afn",
)
_ACTIVATIONS = {
    "apertus": "xielu",
    **dict.fromkeys(
        ("arcee", "bitnet", "jais2", "nanochat", "nemotron", "nemotron_h", "persimmon"), "relu2"
    ),
    **dict.fromkeys(
        (
            "biogpt",
            "bloom",
            "falcon",
            "gpt_neox",
            "gpt_neox_japanese",
            "modernbert-decoder",
            "mpt",
            "openai-gpt",
            "xglm",
            "zamba",
            "zamba2",
        ),
        "gelu",
    ),
    **dict.fromkeys(
        (
            "gemma",
            "gemma2",
            "gemma3_text",
            "gemma3n_text",
            "gemma4_text",
            "gpt_bigcode",
            "recurrent_gemma",
            "starcoder2",
            "vaultgemma",
        ),
        "gelu_pytorch_tanh",
    ),
    **dict.fromkeys(("codegen", "gpt-sw3", "gpt2", "gpt_neo", "gptj", "phi"), "gelu_new"),
    "opt": "relu",
}
"""Activation functions of the classes whose default is not silu."""

_ATTENTION = ("attention_dropout", "attn_pdrop", "attention_probs_dropout_prob", "attn_dropout")
_HIDDEN = ("resid_pdrop", "hidden_dropout", "hidden_dropout_prob", "dropout", "residual_dropout")
_EMBEDDING = ("embd_pdrop", "embd_dropout", "embedding_dropout")
_DROPPED = {
    **dict.fromkeys(("gpt-sw3", "gpt2", "gpt_bigcode", "openai-gpt"), _ATTENTION + _HIDDEN),
    "ctrl": _HIDDEN,
    **dict.fromkeys(("emu3_text_model", "gpt_neox_japanese"), _ATTENTION),
    **dict.fromkeys(("biogpt", "seed_oss", "xglm"), _ATTENTION + _HIDDEN),
    "opt": _HIDDEN,
}
"""Keys whose default is 0.1 in these classes; it is 0 elsewhere."""


def traits_of(config: Config) -> Traits:
    """The traits of the section that describes a decoder."""
    model_type = config.get("model_type", "")
    named = (config.get(key) for key in ACTIVATION_KEYS)
    activation = next((name for name in named if isinstance(name, str)), None)
    drops = _DROPPED.get(model_type, ())
    return Traits(
        activation=activation or _ACTIVATIONS.get(model_type, "silu"),
        attention_dropout=_dropped(config, _ATTENTION, by_default=_ATTENTION[0] in drops),
        hidden_dropout=_dropped(config, _HIDDEN, by_default=_HIDDEN[0] in drops),
        embedding_dropout=_dropped(
            config, _EMBEDDING, by_default=model_type in _DROPPED and _HIDDEN[0] in drops
        ),
        attention_softcap=_capped(config, "attn_logit_softcapping", model_type),
        logits_softcap=_capped(config, "final_logit_softcapping", model_type),
    )


_CAPPED = {
    "gemma2": ("attn_logit_softcapping", "final_logit_softcapping"),
    "vaultgemma": ("attn_logit_softcapping", "final_logit_softcapping"),
    **dict.fromkeys(
        (
            "gemma3n_text",
            "inkling2_text",
            "mistral_large4_text",
            "muse_glimmer_text",
            "muse_spark_text",
            "nanochat",
        ),
        ("final_logit_softcapping",),
    ),
}
"""Soft caps that these classes have by default."""


def _dropped(config: Config, keys: Iterable[str], *, by_default: bool) -> bool:
    """Whether the first of the keys that is there holds a probability above 0."""
    given = [config.get(key) for key in keys if key in config]
    numbers = [value for value in given if isinstance(value, int | float)]
    return numbers[0] > 0 if numbers else by_default


def _capped(config: Config, key: str, model_type: str) -> bool:
    return bool(config.get(key, key in _CAPPED.get(model_type, ())))
