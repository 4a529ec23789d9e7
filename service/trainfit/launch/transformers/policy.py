"""OpenRLHF's loop over Ray: a policy under DeepSpeed, and what shares its cards.

A step is on samples of prompt and answer, or on one micro-batch of so many tokens. Other models and
the engine that generates have cards of their own unless they are laid beside it. Source:
OpenRLHF/OpenRLHF openrlhf/cli/train_ppo_ray.py, trainer/ppo_trainer.py (ppo_train),
trainer/ppo_utils/experience_maker.py (split_rollout_samples), trainer/ray/launcher.py, ppo_actor.py
and utils/deepspeed/deepspeed.py (get_ds_eval_config: stage 3, or none), deepspeed_utils.py
(offload_deepspeed_states).
"""

from __future__ import annotations

from dataclasses import replace

from trainfit.launch.draft import Draft
from trainfit.launch.effects import SHARING, Effect
from trainfit.launch.engines import asleep, awake, share_of
from trainfit.launch.models import most_parameters
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.grpo import ENGINE, UTILISATION
from trainfit.launch.transformers.preferences import LOSS
from trainfit.launch.transformers.run import TrainerRun
from trainfit.launch.transformers.source import as_bool, as_int

SOURCE = "OpenRLHF/OpenRLHF openrlhf/cli/train_ppo_ray.py"
SIZE, LENGTH = "per_device_train_batch_size", "max_length"
DYNAMIC, TOKENS = "use_dynamic_batch", "train_max_tokens_per_gpu"
SAMPLES, SCORED = "micro_rollout_batch_size", "rollout_max_tokens_per_gpu"
SLEEP = "deepspeed_enable_sleep"
BY = f"{LOSS}/log_probs_by"
BESIDE = "{} shares the card with the policy, and what it holds is not modelled"
NARROW = 2
"""Bytes of a weight that only runs forward."""


def as_packed(arguments: dict[str, Setting], draft: Draft) -> dict[str, Setting]:
    """The arguments with micro-batches of a dynamic size as one sample of all their tokens, which
    tensor-parallel ranks have in common.
    """
    switch, length = arguments.get(DYNAMIC), arguments.get(LENGTH)
    left = {name: each for name, each in arguments.items() if name != TOKENS}
    tokens = arguments.get(TOKENS)
    if tokens is None or length is None:
        return left
    if switch is None or not as_bool(switch.value):
        draft.ignore(tokens)
        return left
    ranks = arguments.get("deepspeed.tensor_parallel.autotp_size")
    shared = (as_int(ranks.value) if ranks is not None else None) or 1
    longest = max((as_int(tokens.value) or 0) * shared, as_int(length.value) or 0)
    one = replace(arguments[SIZE], value=1, written=arguments[SIZE].value)
    draft.recognise(length)
    return {**left, LENGTH: replace(tokens, value=longest, written=tokens.value), SIZE: one}


def put_actors_loss(run: TrainerRun) -> None:
    """Set how log-probabilities are computed, in a step and before it. An entropy whose coefficient
    is 0 is only told: its backward does not run.
    """
    draft, key = run.draft, "rollout_temperature"
    draft.default(f"{LOSS}/objective", "policy", SOURCE)
    if run.arguments.is_unknown(key):
        source = "OpenRLHF's models/utils.py: log_probs_from_logits"
        draft.default(BY, "openrlhf-divided", SOURCE)
        effect = Effect(DIVIDED, "lowers", source, within={BY: "openrlhf"})
        run.arguments.leave_out(key, effect)
    elif (heat := run.arguments.get(key)) is not None:
        draft.put(BY, "openrlhf" if as_int(heat.value) == 1 else "openrlhf-divided", heat)
    else:
        draft.default(BY, "openrlhf", SOURCE)
    entropy = run.arguments.get("entropy_loss_coef")
    if entropy is not None:
        draft.put(f"{LOSS}/entropy", "none" if as_int(entropy.value) == 0 else "compiled", entropy)
    _put_scoring(run)


DIVIDED = "a temperature that is not known may be 1, and logits are divided by no other"


def _put_scoring(run: TrainerRun) -> None:
    """Samples that are scored at once: so many, or of so many tokens, as many as a step has unless
    that is said. States of the optimizer sleep meanwhile where DeepSpeed's do.
    """
    draft, dynamic = run.draft, run.arguments.is_on(DYNAMIC)
    used, idle = (SCORED, SAMPLES) if dynamic else (SAMPLES, SCORED)
    run.arguments.pass_by(idle)
    length, pointer = draft.settled("/training/seq_length"), f"{LOSS}/scored_tokens"
    ranks = draft.settled("/parallelism/tp") or 1
    if run.arguments.is_unknown(used):
        run.arguments.copy(used, pointer)
    elif length and (count := run.arguments.number(used)) is not None:
        each = ranks if dynamic else int(length)
        draft.put(pointer, count * each, run.arguments.settings[used])
    sleeps = run.arguments.get(SLEEP)
    if sleeps is not None and run.arguments.is_on(SLEEP):
        draft.put(f"{LOSS}/scored_beside_optimizer", False, sleeps)


def put_beside(run: TrainerRun, named: Setting) -> None:
    """Bound, or leave out, what shares the cards of the policy."""
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
    if beside and held and not away:
        at = coefficient if coefficient is not None and coefficient.whose is None else named
        draft.leave_out(at, _weights(run, "the weights of a reference model"))


def _weights(run: TrainerRun, what: str) -> Effect:
    """What a model does that is as large as the policy, and has only its weights on the card."""
    shared = run.draft.get(SHARING) == "optim_grads_params"
    ranks = (run.draft.settled("/parallelism/num_gpus") or 1) if shared else 1
    parameters = most_parameters(run.draft) or 0
    why = f"{what} lie beside the policy's"
    return Effect(why, "raises", SOURCE, bytes=NARROW * parameters // ranks)


def _critic(run: TrainerRun) -> Effect:
    """A critic of the policy's model takes no more for its own step, which makes no logits. Its
    states wait on the host while the policy's do not, where DeepSpeed's sleep.
    """
    model, own = run.arguments.get("critic_pretrain"), run.arguments.get("model_name_or_path")
    rewards = run.arguments.settings.get("reward_pretrain")
    alike = rewards is None if model is None else own is not None and model.value == own.value
    if alike and run.arguments.is_on(SLEEP):
        return _weights(run, "the weights of a critic, whose states sleep,")
    return Effect(BESIDE.format("a critic"), "raises", SOURCE)


def _others(run: TrainerRun, named: Setting, *, beside: bool) -> None:
    """A critic, and a model of rewards that is no service elsewhere."""
    estimator = run.arguments.get("advantage_estimator")
    run.arguments.pass_by("critic_pretrain")
    if beside and run.arguments.word("advantage_estimator", "gae") == "gae":
        at = estimator if estimator is not None and estimator.whose is None else named
        run.draft.leave_out(at, _critic(run))
    settings = run.arguments.settings
    elsewhere = [name for name in ("remote_rm_url", "agent_func_path") if name in settings]
    away = run.arguments.is_on("reward_offload")
    rewards = settings.get("reward_pretrain")
    for name in (*elsewhere, "reward_pretrain"):
        run.arguments.pass_by(name)
    if beside and rewards is not None and not elsewhere and not away:
        run.draft.leave_out(rewards, Effect(BESIDE.format("a model of rewards"), "raises", SOURCE))
