"""TRL's GRPO: a step on what was generated, and what shares the card with it.

A policy keeps the log-probabilities of the tokens that it made, in the type of the logits.
Generation, the reference and the engine take the card at other times, or lie beside. Source:
trl/trainer/grpo_trainer.py (_get_per_token_logps_and_entropies, _generate, __init__) and
grpo_config.py, releases 0.16 to 1.9.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from trainfit.launch.effects import HELD_MORE, SHARING, Effect
from trainfit.launch.models import config_of, most_parameters
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.changes import ENGINE_ON_THE_CARDS, HAS_NO_REFERENCE
from trainfit.launch.transformers.run import TrainerRun
from trainfit.launch.transformers.source import as_int

COMPLETION = 256
"""Tokens that GRPOConfig generates unless it is told otherwise."""

TRAINER = "trl/trainer/grpo_trainer.py"
ASLEEP_BYTES = 8 * 2**30
"""Of a vLLM that sleeps (NVIDIA-NeMo/RL issue 223: 0.8 to 7.4 GiB)."""
ENGINE = (
    "the engine that generates shares the card with training, and holds its part of it; give "
    "/gpu/reserved_other_bytes in overrides"
)
SOURCE = f"{TRAINER}: _get_per_token_logps_and_entropies, utils.py: selective_log_softmax"
COPIES = 4
"""Of the logits of what is generated, at once: in fp32 those that are divided by the temperature,
two gradients and their sum; in bf16 gradients of each sample, all of them, and the part before."""


def put_loss(run: TrainerRun) -> None:
    """Price the logits of a sample once, as one kernel over them would."""
    run.draft.default("/training/loss/cross_entropy", "fused", "Trainfit: bounded below and above")


def put_beside(run: TrainerRun, named: Setting, *, adapters: bool) -> None:
    """Bound what the loss keeps, and what else a rank holds."""
    _log_probabilities(run, named)
    _reference(run, named, adapters=adapters)
    if run.arguments.is_on("use_vllm"):
        _engine(run)
    else:
        _generation(run, named)


def _log_probabilities(run: TrainerRun, named: Setting) -> None:
    """Logits are of what is generated, which may be little of a sample, and may be there four
    times: the least is none at all.
    """
    draft, completion = run.draft, run.arguments.get("max_completion_length")
    generated = as_int(completion.value) if completion is not None else COMPLETION
    samples = draft.settled("/training/micro_batch_size")
    length = draft.settled("/training/seq_length")
    config = config_of(draft) or {}
    rows = config.get("text_config", config).get("vocab_size") or 0
    width = 4 if draft.get("/training/precision") == "fp32" else 2
    more = 0
    if rows and samples and length:
        more = width * samples * rows * max(1, COPIES * (generated or 0) - length)
    why = "log-probabilities are of what is generated, with up to four copies of their logits"
    draft.leave_out(named, Effect(why, "raises", SOURCE, bytes=more))
    why = "log-probabilities are of what is generated: a prompt has no logits"
    none = {"/training/loss/cross_entropy": "liger"}
    part = completion or replace(named, key="max_completion_length", value=COMPLETION)
    draft.leave_out(part, Effect(why, "lowers", SOURCE, within=none))


def _reference(run: TrainerRun, named: Setting, *, adapters: bool) -> None:
    """A second model, which only runs forward, where the policy is held to it: not beside adapters,
    which are switched off for it.
    """
    beta = run.arguments.get("beta")
    held = as_int(beta.value) != 0 if beta else not run.releases.has(HAS_NO_REFERENCE)
    if adapters or not held:
        return
    draft = run.draft
    shares, parameters = draft.get(SHARING), most_parameters(draft)
    many = draft.settled("/parallelism/num_gpus")
    why, source = (
        "the weights of a reference model lie beside the policy's",
        f"{TRAINER}: ref_model",
    )
    shared = isinstance(many, int) and many > 1 and shares in HELD_MORE
    if shared and draft.get("/framework/data_parallel_engine") == "deepspeed":
        effect = Effect(why, "raises", source, within={SHARING: HELD_MORE[shares]})
    else:
        effect = Effect(why, "raises", source, bytes=4 * (parameters or 0))
    draft.leave_out(beta or replace(named, key="beta", value=None), effect)


def _engine(run: TrainerRun) -> None:
    """vLLM has GPUs of its own, or a part of these; asleep, it lets go of nearly all of that."""
    switch, mode = (run.arguments.get(key) for key in ("use_vllm", "vllm_mode"))
    assert switch is not None
    if mode is not None:
        here = str(mode.value) == "colocate"
    else:
        here = run.releases.has(ENGINE_ON_THE_CARDS)
    if not here:
        return
    if run.arguments.is_on("vllm_enable_sleep_mode"):
        why, source = f"{ENGINE}; it sleeps meanwhile", "NVIDIA-NeMo/RL issue 223"
        run.draft.leave_out(mode or switch, Effect(why, "raises", source, bytes=ASLEEP_BYTES))
    else:
        why, source = ENGINE, f"{TRAINER}: vllm_gpu_memory_utilization"
        run.draft.leave_out(mode or switch, Effect(why, "raises", source))


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
