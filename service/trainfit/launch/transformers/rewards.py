"""Models of rewards: a head of one value stands in the place of the vocabulary's.

Their loss is over two values of a pair, and logits there are none. Source: transformers'
modeling_layers.py (GenericForSequenceClassification), TRL's reward_trainer.py, OpenRLHF's
models/model.py and loss.py.
"""

from __future__ import annotations

from trainfit.launch.draft import Draft
from trainfit.launch.effects import SHARING, Effect
from trainfit.launch.models import text_config_of

LOSS = "/training/loss/cross_entropy"
NUM_GPUS = "/parallelism/num_gpus"
BYTES = 18
"""Of a parameter at most: two of a copy beside four each of weight, gradient and two moments."""


def put_loss(draft: Draft) -> None:
    """Price no logits, as a kernel that makes none of them."""
    draft.default(LOSS, "cut", "a head of one value, which has no logits")


def one_value(draft: Draft, source: str) -> Effect:
    """What a head of one value leaves out besides: the weights [V, h] of the vocabulary's, their
    gradients and states, where these are not the embedding's.
    """
    config = text_config_of(draft)
    parameters = (config.get("vocab_size") or 0) * (config.get("hidden_size") or 0)
    if config.get("tie_word_embeddings"):
        parameters = 0
    whole = draft.get(SHARING) != "optim_grads_params"
    ranks = 1 if whole else draft.settled(NUM_GPUS) or 1
    why = "a head of one value has no weights of a vocabulary"
    if not config:
        return Effect(why, "lowers", source)
    less = BYTES * parameters // ranks
    return Effect(why, "lowers", source, within={LOSS: "cut"}, bytes=less)
