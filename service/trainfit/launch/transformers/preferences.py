"""Losses of preferences: whose log-probabilities are computed, by whose code, beside what.

Sources: TRL's trainer/dpo_trainer.py and dpo_config.py at every minor release from 0.9 to 1.16,
TRL's orpo_trainer.py, cpo_trainer.py, kto_trainer.py, cpo_config.py and scripts/kto.py from 0.9 to
1.9, LLaMA-Factory's train/dpo/trainer.py, train/kto/trainer.py and train/trainer_utils.py
(create_ref_model), axolotl's core/builders/rl.py, ms-swift's arguments/rlhf_args.py and
rlhf_trainers/, OpenRLHF's cli/train_dpo.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from trainfit.launch.effects import Effect
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.changes import (
    BY_SAMPLE,
    COPIES_LABELLED_LATE,
    COPIES_LOGITS,
    COPIES_NO_KTO_LOGITS,
    HOLDS_KTOS_OUTPUTS,
    LETS_GO_OF_LOGITS,
    LETS_GO_OF_MISMATCHED,
    LOADS_NO_KTO_REFERENCE,
    LOSS_WIDENS_LOGITS,
    RETURNS_HIDDEN_STATES,
    TELLS_KTOS_ENTROPY,
    TILES_LOGITS,
    VIEWS_LOGITS,
    LibraryChange,
)
from trainfit.launch.transformers.run import TrainerRun
from trainfit.launch.transformers.source import as_int
from trainfit.specs.loss import LogProbs

LOSS = "/training/loss"
Reference = Literal["none", "base", "copy"]

TRLS: Mapping[LogProbs, LibraryChange] = {
    "trl-1.15": TILES_LOGITS,
    "trl-1.6": VIEWS_LOGITS,
    "trl-0.29": COPIES_LOGITS,
    "trl-0.19": RETURNS_HIDDEN_STATES,
    "trl-0.15": BY_SAMPLE,
    "trl-0.12": LETS_GO_OF_LOGITS,
}
"""The latest first."""
KTOS: Mapping[LogProbs, LibraryChange] = {
    "trl-kto-1.9": COPIES_LABELLED_LATE,
    "trl-kto-1.8": TELLS_KTOS_ENTROPY,
    "trl-kto-1.7": COPIES_NO_KTO_LOGITS,
    "trl-kto-1.6": HOLDS_KTOS_OUTPUTS,
    "trl-kto-0.17": LETS_GO_OF_MISMATCHED,
    "trl-kto-0.15": BY_SAMPLE,
}


def put_preference(
    run: TrainerRun, named: Setting, reference: Reference, by: LogProbs | None = None
) -> None:
    """Set a loss over log-probabilities that `by` somebody's code are computed, TRL's DPO as its
    release has it.
    """
    draft = run.draft
    said = {"objective": "preference", "reference": reference}
    for field in [field for field, value in said.items() if value != "none"]:
        if named.value == named.file:
            draft.recognise(named)
            draft.default(f"{LOSS}/{field}", said[field], f"the name of {named.file}")
        else:
            draft.put(f"{LOSS}/{field}", said[field], named)
    if by is not None:
        draft.default(f"{LOSS}/log_probs_by", by, "whose trainer runs")
    else:
        draft.default(f"{LOSS}/log_probs_by", released(run, TRLS, "trl-0.9"), "TRL")
    if not run.releases.has(LOSS_WIDENS_LOGITS):
        draft.default(f"{LOSS}/shifted", "fp32_logits", "transformers")


def released(
    run: TrainerRun, changes: Mapping[LogProbs, LibraryChange], first: LogProbs
) -> LogProbs:
    """Whose code a run's release has, the first release's where it has none of the changes."""
    return next((name for name, change in changes.items() if run.releases.has(change)), first)


def put_trls(run: TrainerRun, named: Setting, *, adapters: bool) -> None:
    """Set what TRL's DPO computes. The reference is a second model, unless its log-probabilities
    were computed before, or adapters can be switched off for it.
    """
    arguments = run.arguments
    reference: Reference = "copy"
    if arguments.get("gamma_beta_ratio") is not None:
        put_preference(run, named, "none", by="trl-0.12")  # SimPO's own simpo_trainer.py
        return
    if arguments.is_on("precompute_ref_log_probs"):
        reference = "none"
    elif adapters and not arguments.is_on("force_use_ref_model"):
        reference = "base"
    put_preference(run, named, reference)
    _put_nll(run)
    _leave_out(run)


def put_orpos(run: TrainerRun, named: Setting, *, own: bool, by: LogProbs | None = None) -> None:
    """Set what TRL's ORPO, or else its CPO computes, whose losses compare with no reference: the
    cross entropy of chosen samples is a part of ORPO's, and of CPO's unless cpo_alpha is 0, which
    it is of AlphaPO.
    """
    released: LogProbs = "trl-orpo-0.15" if run.releases.has(BY_SAMPLE) else "trl-orpo-0.9"
    put_preference(run, named, "none", by or released)
    alpha = run.arguments.get("cpo_alpha")
    weighs = alpha is None or as_int(alpha.value) != 0
    if own or (weighs and run.arguments.word("loss_type") != "alphapo"):
        run.draft.default(f"{LOSS}/chosen_nll", True, "whose trainer runs")


def put_ktos(run: TrainerRun, named: Setting, *, adapters: bool) -> None:
    """Set what TRL's KTO computes. Its script loads a reference beside adapters too, and holds it
    where log-probabilities were computed before, until 1.8.
    """
    before = run.arguments.is_on("precompute_ref_log_probs")
    reference: Reference = "none" if before else "base" if adapters else "copy"
    if (before or adapters) and not run.releases.has(LOADS_NO_KTO_REFERENCE):
        reference = "copy"
    put_preference(run, named, reference, released(run, KTOS, "trl-kto-0.9"))
    _leave_out(run)


def put_swifts(run: TrainerRun, named: Setting, *, adapters: bool) -> None:
    """Set what DPO and KTO of ms-swift compute: without adapters beside a second model. Their
    logits are of completions alone, unless a model cannot leave the others out.
    """
    put_preference(run, named, "base" if adapters else "copy", "ms-swift")
    source = "ms-swift's trainers/mixin.py: get_use_logits_to_keep, prepare_logits_to_keep"
    run.draft.leave_out(named, _of_completions(source))


def put_openrlhfs(run: TrainerRun, named: Setting) -> None:
    """Set what OpenRLHF's DPO computes, always beside a second model."""
    put_preference(run, named, "copy", "openrlhf")


def _put_nll(run: TrainerRun) -> None:
    """RPO adds the cross entropy of the chosen samples, as the loss called sft does."""
    alpha, kind = run.arguments.get("rpo_alpha"), run.arguments.get("loss_type")
    if alpha is not None and alpha.value not in (None, "None", "null"):
        run.draft.put(f"{LOSS}/chosen_nll", True, alpha)
    elif kind is not None and "sft" in str(kind.value):
        run.draft.put(f"{LOSS}/chosen_nll", True, kind)


def _leave_out(run: TrainerRun) -> None:
    """What else moves the peak: kernels that make no whole logits, logits of completions alone,
    and weights of samples.
    """
    source = "trl/trainer/dpo_trainer.py: {}"
    arguments, draft = run.arguments, run.draft
    for key in ("use_liger_loss", "use_liger_kernel"):
        if (setting := arguments.get(key)) is not None and arguments.is_on(key):
            why = "Liger's kernel makes the logits of one sample after the other"
            effect = Effect(why, "lowers", source.format("_compute_loss_liger"), within=TILED)
            draft.leave_out(setting, effect)
    for key in ("use_logits_to_keep", "use_num_logits_to_keep"):
        if (setting := arguments.get(key)) is not None and arguments.is_on(key):
            draft.leave_out(setting, _of_completions(source.format("concatenated_forward")))
    weighted = arguments.get("use_weighting")
    if weighted is not None and arguments.is_on("use_weighting"):
        draft.leave_out(weighted, "what the weights of samples take is not modelled")


TILED = {f"{LOSS}/log_probs_by": "trl-1.15"}
"""Whose code makes no whole logits."""


def _of_completions(source: str) -> Effect:
    """What it does to make no logits of prompts."""
    why = "logits are of completions alone, however long those are"
    return Effect(why, "lowers", source, within=TILED)
