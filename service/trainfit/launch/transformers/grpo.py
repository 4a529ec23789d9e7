"""TRL's GRPO: a step on what was generated, and what shares the card with it.

A loss over log-probabilities of the tokens that a policy made, by the code of its release.
Generation and the engine take the card at other times, or lie beside. Source:
trl/trainer/grpo_trainer.py (_get_per_token_logps_and_entropies, _generate, __init__) and
grpo_config.py, releases 0.16 to 1.16; ms-swift's rlhf_trainers/grpo_trainer.py
(_get_logps_via_local_forward).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from trainfit.launch.effects import SHARING, Effect
from trainfit.launch.engines import asleep, awake, share_of
from trainfit.launch.models import config_of, most_parameters
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.changes import (
    DIVIDES_LOGITS_APART,
    DIVIDES_LOGITS_IN_PLACE,
    ENGINE_ON_THE_CARDS,
    ENTROPY_OF_TOKENS,
    HAS_NO_REFERENCE,
    ONE_KERNEL_OVER_LOGITS,
    TELLS_ENTROPY,
    TILES_LOGITS,
    LibraryChange,
)
from trainfit.launch.transformers.preferences import LOSS, TILED, released
from trainfit.launch.transformers.run import TrainerRun
from trainfit.launch.transformers.source import as_int
from trainfit.specs.loss import LogProbs

UTILISATION = "vllm_gpu_memory_utilization"
UTILISATIONS = {"trl": 0.3, "ms-swift": 0.9}
"""Of vLLM's part of a card, where nothing is said: TRL's GRPOConfig since 0.18, where it can have
one, and ms-swift's rlhf_trainers/args_mixin.py."""
COMPLETION = 256
"""Tokens that GRPOConfig generates unless it is told otherwise."""

TRAINER = "trl/trainer/grpo_trainer.py"
ENGINE = (
    "the engine that generates shares the card with training, and holds its part of it; give "
    "/gpu/reserved_other_bytes in overrides"
)
WAYS: Mapping[LogProbs, LibraryChange] = {
    "trl-1.15": TILES_LOGITS,
    "trl-grpo-1.14": ONE_KERNEL_OVER_LOGITS,
    "trl-grpo-1.10": DIVIDES_LOGITS_APART,
    "trl-grpo-1.0": DIVIDES_LOGITS_IN_PLACE,
    "trl-grpo-0.23": ENTROPY_OF_TOKENS,
    "trl-grpo-0.20": TELLS_ENTROPY,
}
"""The latest first."""


def put_policy(run: TrainerRun, named: Setting, *, adapters: bool) -> None:
    """Set the loss of a policy, and bound what else a rank holds. ms-swift's own trainer divides
    logits in place.
    """
    if named.key == "grpo":
        run.draft.recognise(named)
        run.draft.default(f"{LOSS}/objective", "policy", f"the name of {named.value}")
        run.draft.default(f"{LOSS}/log_probs_by", released(run, WAYS, "trl-grpo-0.16"), "TRL")
    else:
        run.draft.put(f"{LOSS}/objective", "policy", named)
        run.draft.default(f"{LOSS}/log_probs_by", "trl-grpo-1.0", "ms-swift")
    _generated(run)
    _liger(run)
    _reference(run, adapters=adapters)
    if run.arguments.is_on("use_vllm"):
        _engine(run, usual=UTILISATIONS["trl" if named.key == "grpo" else "ms-swift"])
    else:
        _generation(run, named)


def _generated(run: TrainerRun) -> None:
    """Only what is generated has log-probabilities."""
    completion, kept = run.arguments.get("max_completion_length"), f"{LOSS}/logits_to_keep"
    if completion is None:
        run.draft.default(kept, COMPLETION, "TRL")
    elif (tokens := as_int(completion.value)) is None:
        run.draft.complain(completion, f"{completion.value!r} is no number of tokens")
    else:
        run.draft.put(kept, tokens, completion)


def _liger(run: TrainerRun) -> None:
    """Liger's kernel is read as what it at least saves."""
    for key in ("use_liger_loss", "use_liger_kernel"):
        if (setting := run.arguments.get(key)) is not None and run.arguments.is_on(key):
            why = "Liger's kernel makes the logits of one sample after the other"
            source = f"{TRAINER}: compute_liger_loss"
            run.draft.leave_out(setting, Effect(why, "lowers", source, within=TILED))


def _reference(run: TrainerRun, *, adapters: bool) -> None:
    """A second model, which only runs forward before the step, where the policy is held to it: not
    beside adapters, which are switched off for it.
    """
    beta, pointer = run.arguments.get("beta"), f"{LOSS}/reference"
    held = as_int(beta.value) != 0 if beta else not run.releases.has(HAS_NO_REFERENCE)
    reference = "none" if not held else "base" if adapters else "copy"
    if beta is not None:
        run.draft.put(pointer, reference, beta)
    elif held:
        run.draft.default(pointer, reference, "TRL")


def _engine(run: TrainerRun, *, usual: float) -> None:
    """vLLM has GPUs of its own, or a part of these, as large as is `usual` unless that is given;
    asleep, it lets go of nearly all of that.
    """
    switch, mode = (run.arguments.get(key) for key in ("use_vllm", "vllm_mode"))
    assert switch is not None
    if mode is not None:
        here = str(mode.value) == "colocate"
    else:
        here = run.releases.has(ENGINE_ON_THE_CARDS)
    if not here:
        return
    if run.arguments.is_on("vllm_enable_sleep_mode"):
        run.draft.leave_out(mode or switch, asleep(f"{ENGINE}; it sleeps meanwhile"))
        return
    given = run.arguments.get(UTILISATION)
    share = share_of(given.value) if given is not None else usual
    if share is not None:
        run.draft.leave_out(mode or switch, awake(ENGINE, share))
    else:
        source = f"{TRAINER}: {UTILISATION}"
        run.draft.leave_out(mode or switch, Effect(ENGINE, "raises", source))


class Shape(NamedTuple):
    """Sizes of a decoder of which generation keeps or makes something."""

    layers: int
    hidden: int
    cached: int
    feed_forward: int
    rows: int


def _shape(run: TrainerRun) -> Shape | None:
    config = config_of(run.draft) or {}
    config = config.get("text_config", config)
    names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size")
    layers, hidden, heads, rows = (config.get(name) for name in names)
    if not (layers and hidden and heads and rows):
        return None
    groups = config.get("num_key_value_heads") or heads
    cached = 2 * groups * (config.get("head_dim") or hidden // heads)
    return Shape(layers, hidden, cached, config.get("intermediate_size") or 4 * hidden, rows)


def _generation(run: TrainerRun, named: Setting) -> None:
    """The model itself generates between steps: keys and values of all samples of a turn, a layer
    of their prompts, the last logits, and whole weights where they are shared out.
    """
    arguments, draft = run.arguments, run.draft
    size = as_int(str(draft.settled("/training/micro_batch_size") or 0)) or 0
    turns = arguments.get("steps_per_generation") or arguments.get("gradient_accumulation_steps")
    steps = (as_int(turns.value) if turns is not None else None) or 1
    length, shape = draft.settled("/training/seq_length"), _shape(run)
    parameters = most_parameters(draft) if draft.get(SHARING) == "optim_grads_params" else 0
    needed = 0
    if shape is not None and length and parameters is not None:
        samples = size * steps
        cache = 4 * samples * length * shape.cached * shape.layers
        layer = 4 * samples * length * (6 * shape.hidden + 3 * shape.feed_forward)
        needed = cache + layer + 4 * samples * shape.rows + 4 * parameters
    why = "the model generates between steps, with keys and values of every sample of a turn"
    effect = Effect(why, "raises", f"{TRAINER}: _generate", bytes=needed)
    draft.leave_out(
        arguments.get("use_vllm") or replace(named, key="use_vllm", value=False), effect
    )
