"""Samples that are scored before an update, by the actor and its reference, without gradients."""

from __future__ import annotations

from trainfit.launch.draft import Draft, Reading
from trainfit.launch.effects import Effect
from trainfit.launch.models import text_config_of
from trainfit.launch.settings import Setting
from trainfit.launch.values import flag, size
from trainfit.launch.verl.keys import ACTOR, FSDP, REFERENCE, ROLLOUT
from trainfit.launch.verl.layout import SAMPLE

BYPASS = "algorithm.rollout_correction.bypass_mode"


def read_scoring(reading: Reading, draft: Draft, sequence_ranks: int) -> None:
    """As many tokens of a rank as the larger of both passes has at once. States of the optimizer
    may wait in host memory meanwhile (fsdp_workers.py: compute_log_prob, compute_ref_log_prob).
    """
    switches = (f"{ACTOR}.use_kl_loss", "algorithm.use_kl_in_reward")
    compares = [reading.value(key, False, flag) for key in switches]
    runs = {ROLLOUT: not reading.value(BYPASS, False, flag), REFERENCE: any(compares)}
    asked = {name: _scored(reading, name, sequence_ranks) for name in runs}
    found = [each for name, each in asked.items() if each is not None and runs[name]]
    away = f"{FSDP}.optimizer_offload"
    waits = reading.value(away, False, flag)
    if not found:
        return
    tokens, given = max(found, key=lambda each: each[0])
    draft.put("/training/loss/scored_tokens", tokens, *given)
    if waits and (setting := reading.get(away)) is not None:
        draft.put("/training/loss/scored_beside_optimizer", False, setting)


def bound_scoring(reading: Reading, draft: Draft, sequence_ranks: int) -> None:
    """Of the Megatron actor, which looks at the entropy of logits as samples are scored: three in
    fp32 of each token, as many as a step has that learns an entropy, and else two. Nothing is kept
    of the layers meanwhile. What waits in host memory then makes up for it.
    """
    away = [reading.value(f"{ACTOR}.megatron.{part}_offload", False, flag) for part in OFFLOADED]
    config, by = text_config_of(draft), draft.get("/training/loss/log_probs_by")
    rows, length = config.get("vocab_size"), draft.settled("/training/seq_length")
    scored = _scored(reading, ROLLOUT, sequence_ranks)
    samples = draft.settled("/training/micro_batch_size") or 1
    if any(away) or by == "verl-fused" or not (isinstance(rows, int) and length):
        return
    learnt = samples * length // sequence_ranks
    tokens, given = (learnt, []) if scored is None else scored
    held = 3 if draft.get("/training/loss/entropy") is not None else 2
    more = 4 * (3 * tokens - held * learnt) * rows // (draft.get("/parallelism/tp") or 1)
    if more > 0:
        key = f"{ROLLOUT}.log_prob_max_token_len_per_gpu"
        at = given[0] if given else Setting(key, None, "verl", None)
        why = "samples are scored with the entropy of their logits, whose copies are there at once"
        source = "verl/workers/actor/megatron_actor.py: compute_log_prob, logits_processor"
        draft.leave_out(at, Effect(why, "raises", source, bytes=more))


OFFLOADED = ("grad", "optimizer")


def _scored(
    reading: Reading, section: str, sequence_ranks: int
) -> tuple[int, list[Setting]] | None:
    """Tokens of a rank, and what says so. By default batches are dynamic where the actor's are."""
    switch, tokens = (
        f"{section}.log_prob_use_dynamic_bsz",
        f"{section}.log_prob_max_token_len_per_gpu",
    )
    micro = f"{section}.log_prob_micro_batch_size_per_gpu"
    usual = reading.value(f"{ACTOR}.use_dynamic_bsz", False, flag)
    key = tokens if reading.value(switch, usual, flag) else micro
    count = reading.value(key, None, size)
    reading.get(micro if key == tokens else tokens)
    setting = reading.get(key)
    if count is None or setting is None:
        return None
    if key == tokens:
        return count, [setting]
    length = sum(reading.value(name, most, size) for name, most in SAMPLE.items())
    return max(1, count * length // sequence_ranks), [setting]
