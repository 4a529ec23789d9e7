"""The loop that axolotl's rl and reward_model name: losses of preferences, and rewards.

Sources: axolotl's train.py (setup_reference_model) and core/builders/rl.py; its pyproject.toml
demands trl 1.8.0.
"""

from __future__ import annotations

from dataclasses import replace

from trainfit.launch.effects import Effect
from trainfit.launch.transformers.preferences import LOSS, Reference, put_orpos, put_preference
from trainfit.launch.transformers.run import Trainer, TrainerRun
from trainfit.launch.transformers.trainers import OTHER, refuse_offloaded_copy

NEEDLESS_COPY = Effect(
    "a reference model is loaded besides, which nothing runs",
    "raises",
    "axolotl's train.py (setup_reference_model), core/builders/rl.py",
    within={f"{LOSS}/reference": "copy"},
)
TWO_COPIES = (
    "without an adapter axolotl loads a reference model that KTO does not run, and TRL another one "
    "that it does: not modelled"
)


def with_loop(run: TrainerRun) -> TrainerRun:
    """The run with the loop that rl names, or that of rewards."""
    rl, rewarded = run.arguments.get("rl"), run.arguments.get("reward_model")
    if rewarded is not None and run.arguments.is_on("reward_model"):
        return replace(run, trainer=Trainer("rewards", rewarded))
    if rl is None:
        return run
    adapted = run.arguments.word("adapter") in ("lora", "qlora")
    own = adapted and not run.arguments.is_on("rl_adapter_ref_model")
    if rl.value in ("dpo", "ipo"):
        before = run.arguments.is_on("precompute_ref_log_probs")
        reference: Reference = "none" if before else "base" if own else "copy"
        put_preference(run, rl, reference, by="trl-1.6")
        refuse_offloaded_copy(run, rl)
        return replace(run, trainer=Trainer("dpo", rl))
    if rl.value in ("simpo", "orpo"):
        put_orpos(run, rl, own=rl.value == "orpo", by="trl-orpo-0.15")
        if rl.value == "simpo" and not own:
            run.draft.leave_out(rl, NEEDLESS_COPY)
        return replace(run, trainer=Trainer("dpo", rl))
    if rl.value == "kto" and adapted:
        put_preference(run, rl, "base", by="trl-kto-1.8")
        if not own:
            run.draft.leave_out(rl, NEEDLESS_COPY)
        return replace(run, trainer=Trainer("kto", rl))
    if rl.value == "kto":
        run.draft.leave_out(rl, TWO_COPIES)
        return replace(run, trainer=Trainer("kto", rl))
    run.draft.leave_out(rl, OTHER)
    return replace(run, trainer=Trainer("other", rl))
