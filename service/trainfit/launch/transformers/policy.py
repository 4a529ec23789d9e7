"""OpenRLHF's loop over Ray: a policy under DeepSpeed, and what shares its cards.

A step is on samples of prompt and answer, or on one micro-batch of so many tokens. Other models and
the engine that generates have cards of their own unless they are laid beside it. Source:
OpenRLHF/OpenRLHF openrlhf/cli/train_ppo_ray.py, trainer/ray/launcher.py, ppo_actor.py and
utils/deepspeed/deepspeed.py (get_ds_eval_config: stage 3, or none).
"""

from __future__ import annotations

from dataclasses import replace

from trainfit.launch.draft import Draft
from trainfit.launch.effects import SHARING, Effect
from trainfit.launch.engines import asleep, awake, share_of
from trainfit.launch.models import most_parameters
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.grpo import ENGINE, UTILISATION
from trainfit.launch.transformers.run import TrainerRun
from trainfit.launch.transformers.source import as_bool, as_int

SOURCE = "OpenRLHF/OpenRLHF openrlhf/cli/train_ppo_ray.py"
SIZE, LENGTH = "per_device_train_batch_size", "max_length"
DYNAMIC, TOKENS = "use_dynamic_batch", "train_max_tokens_per_gpu"
BESIDE = "{} shares the card with the policy, and what it holds is not modelled"
NARROW = 2
"""Bytes of a weight that only runs forward."""


def as_packed(arguments: dict[str, Setting], draft: Draft) -> dict[str, Setting]:
    """The arguments with micro-batches of a dynamic size as one sample of all their tokens."""
    switch, length = arguments.get(DYNAMIC), arguments.get(LENGTH)
    left = {name: each for name, each in arguments.items() if name != TOKENS}
    tokens = arguments.get(TOKENS)
    if tokens is None or length is None:
        return left
    if switch is None or not as_bool(switch.value):
        draft.ignore(tokens)
        return left
    longest = max(as_int(tokens.value) or 0, as_int(length.value) or 0)
    one = replace(arguments[SIZE], value=1, written=arguments[SIZE].value)
    draft.recognise(length)
    return {**left, LENGTH: replace(tokens, value=longest, written=tokens.value), SIZE: one}


def put_beside(run: TrainerRun, named: Setting) -> None:
    """Bound, or leave out, what shares the cards of the policy."""
    run.arguments.get(DYNAMIC)
    all_of_it = run.arguments.is_on("colocate_all_models")
    with_reference = run.arguments.is_on("colocate_actor_ref")
    _reference(run, named, beside=all_of_it or with_reference)
    engines, sleeps = (run.arguments.get(key) for key in ("vllm_num_engines", "vllm_enable_sleep"))
    part = run.arguments.get(UTILISATION)
    share = share_of(part.value) if part is not None else None
    if engines is None or not as_int(engines.value):
        why = "the model generates by itself between steps, which is not modelled"
        run.draft.leave_out(engines or named, Effect(why, "raises", SOURCE))
    elif all_of_it and sleeps is not None and run.arguments.is_on("vllm_enable_sleep"):
        run.draft.leave_out(engines, asleep(f"{ENGINE}; it sleeps meanwhile"))
    elif all_of_it and share is not None:
        run.draft.leave_out(engines, awake(ENGINE, share))
    elif all_of_it:
        run.draft.leave_out(engines, Effect(ENGINE, "raises", SOURCE))
    _others(run, named, beside=all_of_it)


def _reference(run: TrainerRun, named: Setting, *, beside: bool) -> None:
    """The model that the policy is held to, where a divergence counts: its weights alone."""
    draft, coefficient = run.draft, run.arguments.get("init_kl_coef")
    away = run.arguments.is_on("ref_offload")
    held = coefficient is not None and as_int(coefficient.value) != 0
    if not beside or away or not held:
        return
    shared = draft.get(SHARING) == "optim_grads_params"
    ranks = (draft.settled("/parallelism/num_gpus") or 1) if shared else 1
    parameters = most_parameters(draft)
    why = "the weights of a reference model lie beside the policy's"
    at = coefficient if coefficient is not None and coefficient.whose is None else named
    if parameters is None:
        draft.leave_out(at, Effect(why, "raises", SOURCE))
    else:
        size = NARROW * parameters // ranks
        draft.leave_out(at, Effect(why, "raises", SOURCE, bytes=size))


def _others(run: TrainerRun, named: Setting, *, beside: bool) -> None:
    """A critic, and a model of rewards that is no service elsewhere."""
    estimator = run.arguments.get("advantage_estimator")
    if beside and run.arguments.word("advantage_estimator", "gae") == "gae":
        at = estimator if estimator is not None and estimator.whose is None else named
        run.draft.leave_out(at, Effect(BESIDE.format("a critic"), "raises", SOURCE))
    settings = run.arguments.settings
    elsewhere = [name for name in ("remote_rm_url", "agent_func_path") if name in settings]
    away = run.arguments.is_on("reward_offload")
    rewards = settings.get("reward_pretrain")
    for name in (*elsewhere, "reward_pretrain"):
        run.arguments.pass_by(name)
    if beside and rewards is not None and not elsewhere and not away:
        run.draft.leave_out(rewards, Effect(BESIDE.format("a model of rewards"), "raises", SOURCE))
