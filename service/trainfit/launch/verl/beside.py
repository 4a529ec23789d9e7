"""What shares the card with verl's actor while that is updated: the sleeping rollout engine, a
critic, a reward model.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainfit.launch.draft import Draft, Reading
from trainfit.launch.effects import Effect
from trainfit.launch.engines import asleep, awake, share_of
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.models import most_parameters
from trainfit.launch.settings import Setting
from trainfit.launch.values import flag, size, word
from trainfit.launch.verl.keys import ACTOR, MODEL, ROLLOUT

RESERVED = "/gpu/reserved_other_bytes"
ON_THE_CARD = "is on the card and not modelled; give /gpu/reserved_other_bytes in overrides"
STILL_HELD = f"what it still holds {ON_THE_CARD}"


def leave_out_beside(reading: Reading, draft: Draft) -> None:
    """Note what else is on the card, bounded where it is known how much that can be."""
    _critic(reading, draft)
    enabled = "reward_model.enable"
    if reading.value(enabled, False, flag):
        leave_out(reading, draft, (enabled,), "a reward model that shares the card is not modelled")
    kind = "reward_model.rm_type"
    if reading.value(kind) == "prime":
        leave_out(reading, draft, (kind,), "a reward model that is trained too is not modelled")
    _rewards(reading, draft)
    _rollout(reading, draft)


REWARDS = "reward.reward_model"


def _rewards(reading: Reading, draft: Draft) -> None:
    """A model of rewards is an engine of its own since v0.7.1, on cards of its own or asleep while
    the actor trains (experimental/reward_loop/reward_model.py: RewardModelManager).
    """
    runs = reading.value(f"{REWARDS}.enable", False, flag)
    apart = reading.value(f"{REWARDS}.enable_resource_pool", False, flag)
    frees = reading.value(f"{REWARDS}.rollout.free_cache_engine", True, flag)
    setting = reading.get(f"{REWARDS}.enable")
    if not runs or apart or setting is None:
        return
    if draft.overridden(RESERVED) is not None:
        draft.ignore(setting)
    elif frees:
        why = f"a model of rewards sleeps while the actor trains, and {STILL_HELD}"
        draft.leave_out(setting, asleep(why))
    else:
        draft.leave_out(
            setting, f"what a model of rewards holds while the actor trains {ON_THE_CARD}"
        )


CRITIC_BYTES = 4 + 8
"""Of a parameter between updates: fp32, and Adam's two moments (fsdp_workers.py: CriticWorker)."""
CRITICS_TOKENS = 32768


def _critic(reading: Reading, draft: Draft) -> None:
    """A critic of the actor's model is updated as the actor is, with no logits, and each holds its
    shares of states while the other is. Bounded where its micro-batches are no larger. Only
    estimates that a critic makes need one (trainer/ppo/utils.py: need_critic).
    """
    key, switch = "algorithm.adv_estimator", "critic.enable"
    needed = reading.value(key, "gae", word) == "gae"
    if reading.value(switch) is not None:
        needed = reading.value(switch, needed, flag)
    if not needed:
        return
    model, actor = (reading.get(name) for name in ("critic.model.path", f"{MODEL}.path"))
    dynamic = reading.value(f"{ACTOR}.use_dynamic_bsz", False, flag)
    kind = "max_token_len_per_gpu" if dynamic else "micro_batch_size_per_gpu"
    if not dynamic and reading.value(f"{ACTOR}.ppo_{kind}") is None:
        kind = "micro_batch_size"
    usual = CRITICS_TOKENS if dynamic else 0
    mine = reading.value(f"{ACTOR}.ppo_{kind}", 16384 if dynamic else 0, size)
    its = reading.value(f"critic.ppo_{kind}", usual, size)
    parameters, world = most_parameters(draft), draft.get("/parallelism/num_gpus")
    alike = model is not None and actor is not None and model.value == actor.value
    setting = reading.get(key) or model
    if setting is None or not (alike and 0 < its <= mine and parameters and world):
        leave_out(reading, draft, (key,), "a critic that shares the card is not modelled")
        return
    effect = Effect(
        "a critic of the same model holds its states while the actor is updated",
        "raises",
        "verl/workers/fsdp_workers.py: CriticWorker",
        bytes=-(-parameters * CRITIC_BYTES // world),
    )
    draft.leave_out(setting, effect)


ENGINES = ("vllm", "sglang")
UTILISATION = 0.5
"""Of the rollout engine's share of the card, where nothing is said (rollout.yaml)."""


def _rollout(reading: Reading, draft: Draft) -> None:
    """The engine frees weights and cache while the actor trains, unless it is told to keep them. A
    vLLM that does has its share of the card; of SGLang's, what comes besides is not known.
    """
    utilisation, frees = (f"{ROLLOUT}.gpu_memory_utilization", f"{ROLLOUT}.free_cache_engine")
    given = [setting for key in (utilisation, frees) if (setting := reading.get(key)) is not None]
    if draft.overridden(RESERVED) is not None:
        for setting in given:
            draft.ignore(setting)
        return
    named, share = reading.value(f"{ROLLOUT}.name", "vllm", word), reading.value(utilisation)
    sleeps = reading.value(frees, True, flag)
    share = UTILISATION if share is None else share_of(share)
    why = f"what the rollout engine holds while the actor trains {ON_THE_CARD}"
    if named not in ENGINES or not (sleeps or (named == "vllm" and share)):
        leave_out(reading, draft, (utilisation, frees), why)
        return
    settings = given or [Setting(utilisation, None, "verl", None)]
    effect = asleep(f"the rollout engine sleeps while the actor trains, and {STILL_HELD}")
    draft.leave_out(settings[0], effect if sleeps else awake(why, share or UTILISATION))
    for setting in settings[1:]:
        draft.recognise(setting)


def leave_out(reading: Reading, draft: Draft, keys: Sequence[str], why: str) -> None:
    """Note keys as unsupported. Raises LaunchError where none is given, and a default is meant."""
    given = [setting for key in keys if (setting := reading.get(key)) is not None]
    for setting in given:
        draft.leave_out(setting, why)
    if not given:
        raise LaunchError(Complaint(f"{keys[0]} is not given, and by default {why}"))
