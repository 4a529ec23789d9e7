"""`megatron rlhf` of ms-swift: what it learns of samples, and what lies beside the policy.

Sources, of modelscope/ms-swift swift/megatron: arguments/megatron_args.py
(RLHFMegatronArgumentsMixin), trainers/rlhf_mixin.py (prepare_model, null_ref_context),
dpo_trainer.py, kto_trainer.py, reward_trainer.py, grpo_trainer.py; and swift/dataset/packing.py,
where both samples of a pair count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trainfit.launch.draft import Draft
from trainfit.launch.effects import Effect
from trainfit.launch.engines import asleep, awake, share_of
from trainfit.launch.models import text_config_of
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.source import as_bool, as_int

WHOSE = "ms-swift"
LOSS = "/training/loss"
TYPE = "rlhf_type"
SAMPLES = ("micro_batch_size", "global_batch_size")
PROMPT, GENERATED, LONGEST = "max_length", "max_completion_length", "vllm_max_model_len"
TURNS = "multi_turn_scheduler"
COMPLETION, UTILISATION = 512, 0.9
"""Tokens that are generated, and vLLM's part of a card, where nothing is said."""
ENGINE = ("use_vllm", "vllm_mode", "vllm_gpu_memory_utilization", "sleep_level")
SOURCE = "modelscope/ms-swift swift/megatron/trainers"
OTHERS = (
    "losses other than those of DPO, KTO, GRPO and models of rewards, and what lies beside the "
    "policy, are not modelled under Megatron"
)
REWARDS = Effect(
    "a head of one value is priced as that of the vocabulary",
    "lowers",
    f"{SOURCE}/reward_trainer.py",
)
LONG_PAIRS = Effect(
    "a pair of samples of the longest length is longer than a pack, and makes one of its own",
    "raises",
    "modelscope/ms-swift swift/dataset/packing.py: calculate_matched_group",
    samples=2,
)
BESIDE = "the engine that generates shares the card with training, and holds its part of it"

Given = dict[str, Setting]


def put_objective(given: Given, draft: Draft, usual: Mapping[str, Any], *, adapts: bool) -> None:
    """Set what is learnt, and take what says so out of `given`, which then has the length and the
    numbers of samples that Megatron runs on; `usual` are those where nothing is said.
    """
    named = given.pop(TYPE)
    if named.unknown is not None or named.value not in ("dpo", "kto", "grpo", "rm"):
        draft.leave_out(named, OTHERS)
        return
    if named.value in ("dpo", "rm"):
        _count_both(given, draft, usual)
    if named.value == "rm":
        draft.leave_out(named, REWARDS)
        return
    learnt = "policy" if named.value == "grpo" else "preference"
    draft.put(f"{LOSS}/objective", learnt, named)
    draft.default(f"{LOSS}/log_probs_by", "ms-swift", WHOSE)
    draft.default(f"{LOSS}/reference", "base" if adapts else "copy", WHOSE)
    if learnt == "policy":
        _generate(given, draft)


def _count_both(given: Given, draft: Draft, usual: Mapping[str, Any]) -> None:
    """A pair is two samples, but where whole pairs are packed into the length of one."""
    packs = given.get("packing")
    if packs is not None and as_bool(packs.value):
        draft.leave_out(given.pop("packing"), LONG_PAIRS)
        return
    for name in SAMPLES:
        setting = given.get(name)
        if setting is None:
            given[name] = Setting(name, 2 * usual[name], WHOSE, None, whose=WHOSE)
        elif (count := as_int(setting.value)) is not None:
            given[name] = replace(setting, value=2 * count, written=setting.value)


def _generate(given: Given, draft: Draft) -> None:
    """A sample is a prompt and what is generated; of several turns, as long as vLLM takes it."""
    generated, turns, longest = (given.pop(key, None) for key in (GENERATED, TURNS, LONGEST))
    prompt = given.get(PROMPT)
    for setting in (generated, turns, longest):
        if setting is not None:
            draft.recognise(setting)
    count = COMPLETION if generated is None else as_int(generated.value)
    of_prompt = as_int(prompt.value) if prompt is not None else None
    if turns is not None and longest is not None:
        given[PROMPT] = replace(longest, key=PROMPT)
    elif prompt is not None and of_prompt is not None and count is not None:
        given[PROMPT] = replace(prompt, value=of_prompt + count, written=prompt.value)
    elif generated is not None and count is None:
        draft.complain(generated, f"{generated.value!r} is no number of tokens")
    if turns is not None and longest is None:
        why = f"samples of several turns may be longer; give {LONGEST}"
        draft.leave_out(turns, Effect(why, "raises", f"{SOURCE}/rollout_mixin.py"))
    _put_engine(given, draft)


def _put_engine(given: Given, draft: Draft) -> None:
    """vLLM has cards of its own (server), or a part of these, of which it keeps little asleep."""
    uses, mode, part, level = (given.pop(key, None) for key in ENGINE)
    for setting in (uses, part, level):
        if setting is not None:
            draft.recognise(setting)
    if mode is not None and mode.value == "server":
        draft.recognise(mode)
        return
    at = mode or uses or Setting(ENGINE[1], "colocate", WHOSE, None)
    share = share_of(part.value) if part is not None else UTILISATION
    if level is not None and as_int(level.value):
        draft.leave_out(at, asleep(f"{BESIDE}; it sleeps meanwhile"))
    elif share is not None:
        draft.leave_out(at, awake(BESIDE, share))
    else:
        draft.leave_out(at, Effect(BESIDE, "raises", f"{SOURCE}/rollout_mixin.py"))


def bound_received(draft: Draft, at: Setting) -> None:
    """What later stages receive has the hidden states of the reference behind the policy's, in one
    tensor, which waits for backward.
    """
    pp, hidden = draft.settled("/parallelism/pp") or 1, text_config_of(draft).get("hidden_size")
    sizes = [draft.settled(f"/training/{name}") for name in ("micro_batch_size", "seq_length")]
    if pp == 1 or not all(isinstance(each, int) for each in (hidden, *sizes)):
        return
    ranks = draft.settled("/parallelism/cp") or 1
    if draft.settled("/parallelism/sequence_parallel"):
        ranks *= draft.settled("/parallelism/tp") or 1
    chunks = draft.settled("/parallelism/vpp") or 1
    waiting = pp * (chunks + 1)
    effect = Effect(
        "hidden states of a reference come with those of the policy, and wait as long",
        "raises",
        f"{SOURCE}/dpo_trainer.py: forward_step",
        bytes=-(-2 * sizes[0] * sizes[1] * hidden * waiting // ranks),
    )
    draft.leave_out(at, effect)
