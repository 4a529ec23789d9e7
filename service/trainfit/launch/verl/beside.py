"""What shares the card with verl's actor while that is updated: the sleeping rollout engine, a
critic, a reward model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainfit.launch.draft import Draft, Reading
from trainfit.launch.effects import Effect
from trainfit.launch.engines import asleep, awake, share_of
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.models import most_parameters
from trainfit.launch.settings import Setting
from trainfit.launch.values import flag, size, word
from trainfit.launch.verl.keys import ACTOR, MODEL, ROLLOUT
from trainfit.launch.verl.layout import SAMPLE

RESERVED = "/gpu/reserved_other_bytes"
ON_THE_CARD = "is on the card and not modelled; give /gpu/reserved_other_bytes in overrides"
STILL_HELD = f"what it still holds {ON_THE_CARD}"


def leave_out_beside(reading: Reading, draft: Draft, sequence_ranks: int) -> None:
    """Note what else is on the card, bounded where it is known how much that can be. So many ranks
    of the actor share a sequence.
    """
    _critic(reading, draft, sequence_ranks)
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


CRITIC = "verl/workers/fsdp_workers.py: CriticWorker"
CRITICS_STATES = {"param": 4, "optimizer": 8}
"""Bytes of a parameter between updates, of what may wait in host memory: fp32, and Adam's two
moments.
"""
CRITICS_SECTIONS = ("critic.model.fsdp_config", "critic.fsdp", "critic.megatron")
CRITICS_TOKENS = 32768
LAID_OUT = {
    "tensor_model_parallel_size": "/parallelism/tp",
    "pipeline_model_parallel_size": "/parallelism/pp",
    "context_parallel_size": "/parallelism/cp",
}


def _critic(reading: Reading, draft: Draft, sequence_ranks: int) -> None:
    """A critic of the actor's model is updated as the actor is, with no logits, and each holds its
    shares of states while the other is. Only estimates that a critic makes need one
    (trainer/ppo/utils.py: need_critic).
    """
    key, switch = "algorithm.adv_estimator", "critic.enable"
    needed = reading.value(key, "gae", word) == "gae"
    if reading.value(switch) is not None:
        needed = reading.value(switch, needed, flag)
    if not needed:
        return
    model, actor = (reading.get(name) for name in ("critic.model.path", f"{MODEL}.path"))
    parameters, world = most_parameters(draft), draft.get("/parallelism/num_gpus")
    alike = model is not None and actor is not None and model.value == actor.value
    setting, step = reading.get(key) or model, _critics_step(reading, draft, sequence_ranks)
    if setting is None or step is None or not (alike and parameters and world):
        leave_out(reading, draft, (key,), "a critic that shares the card is not modelled")
        return
    held = sum(
        each
        for name, each in CRITICS_STATES.items()
        if not any(reading.value(f"{at}.{name}_offload", False, flag) for at in CRITICS_SECTIONS)
    )
    if held:
        why = "a critic of the same model holds its states while the actor is updated"
        states = Effect(why, "raises", CRITIC, bytes=-(-parameters * held // world))
        draft.leave_out(setting, states)
    else:
        draft.recognise(setting)
    told, within = step
    if within:
        why = "a critic of the same model is updated on more tokens: at most what the actor needs"
        draft.leave_out(told, Effect(why, "raises", CRITIC, within=within, apart=True))


def _critics_step(
    reading: Reading, draft: Draft, sequence_ranks: int
) -> tuple[Setting, Mapping[str, int]] | None:
    """What says of which samples a micro-batch of the critic is, and the fields of a step of the
    actor on as many, if those are more than it has; None where nothing says, or the critic is
    shared out otherwise.
    """
    by_megatron = draft.get("/framework/name") == "megatron"
    if by_megatron and any(
        reading.value(f"critic.megatron.{name}", 1, size) != (draft.get(pointer) or 1)
        for name, pointer in LAID_OUT.items()
    ):
        return None
    usual = reading.value(f"{ACTOR}.use_dynamic_bsz", False, flag)
    dynamic = reading.value("critic.use_dynamic_bsz", usual, flag)
    kind = "max_token_len_per_gpu" if dynamic else "micro_batch_size_per_gpu"
    key = f"critic.ppo_{kind}"
    if not dynamic and reading.value(key) is None:
        key = "critic.ppo_micro_batch_size"
    count: int = reading.value(key, CRITICS_TOKENS if dynamic else 0, size)
    length, samples = (
        draft.settled(f"/training/{name}") for name in ("seq_length", "micro_batch_size")
    )
    if not (count and isinstance(length, int) and isinstance(samples, int)):
        return None
    told = reading.get(key) or Setting(key, count, "verl", None)
    if dynamic:
        tokens = count * sequence_ranks
        more = tokens > length * samples
        fields = {"/training/seq_length": tokens, "/training/micro_batch_size": 1}
        return told, fields if more else {}
    sample = sum(reading.value(name, most, size) for name, most in SAMPLE.items())
    own = reading.value("critic.ulysses_sequence_parallel_size", 1, size)
    ranks = sequence_ranks if by_megatron else own
    each = -(-count * sample * sequence_ranks // (length * ranks))
    return told, {"/training/micro_batch_size": each} if each > samples else {}


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
