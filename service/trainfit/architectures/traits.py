"""What a config.json says beyond dimensions: activation function, dropout, soft caps.

The defaults of absent keys are those of each family's class.
"""

from collections.abc import Iterable

from trainfit.architectures.config import Config
from trainfit.architectures.families import family_of
from trainfit.specs.architecture import Traits

ACTIVATION_KEYS = (
    "hidden_activation",
    "hidden_act",
    "activation_function",
    "mlp_hidden_act",
    "activation",
    "afn",
)
LOGIT_SCALES = ("logits_scaling", "logit_scale")
"""Keys with a number that logits are divided by or multiplied with (modeling_granite.py,
modeling_cohere.py)."""
EMBEDDING_SCALE = "embedding_multiplier"
"""The key of a number that a model multiplies its embeddings with (modeling_granite.py and those
like it, modeling_falcon_h1.py). Gemma's embedding does so itself."""
_ATTENTION = ("attention_dropout", "attn_pdrop", "attention_probs_dropout_prob", "attn_dropout")
_HIDDEN = ("resid_pdrop", "hidden_dropout", "hidden_dropout_prob", "dropout", "residual_dropout")
_EMBEDDING = ("embd_pdrop", "embd_dropout", "embedding_dropout")


def traits_of(config: Config) -> Traits:
    """The traits of the section that describes a decoder."""
    family = family_of(config.get("model_type"))
    named = (config.get(key) for key in ACTIVATION_KEYS)
    activation = next((name for name in named if isinstance(name, str)), None)
    hidden = "hidden" in family.drops
    return Traits(
        activation=activation or family.activation,
        attention_dropout=_dropped(config, _ATTENTION, by_default="attention" in family.drops),
        hidden_dropout=_dropped(config, _HIDDEN, by_default=hidden),
        embedding_dropout=_dropped(config, _EMBEDDING, by_default=hidden),
        embedding_scaled=config.get(EMBEDDING_SCALE) is not None or family.scales_embeddings,
        attention_softcap=bool(
            config.get("attn_logit_softcapping", "attention" in family.softcaps)
        ),
        logits_scaled=any(config.get(key) is not None for key in LOGIT_SCALES),
        logits_softcap=bool(config.get("final_logit_softcapping", "logits" in family.softcaps)),
    )


def _dropped(config: Config, keys: Iterable[str], *, by_default: bool) -> bool:
    """Whether the first of the keys that is there holds a probability above 0."""
    given = [config.get(key) for key in keys if key in config]
    numbers = [value for value in given if isinstance(value, int | float)]
    return numbers[0] > 0 if numbers else by_default
