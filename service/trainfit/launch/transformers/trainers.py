"""Whose loop trains, by the name of the program and by keys that only one loop has."""

from __future__ import annotations

import re
from collections.abc import Mapping

from trainfit.launch.names import Keys
from trainfit.launch.program import Program
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.keys import DPO, SCRIPT, SFT, TRAINER
from trainfit.launch.transformers.run import Kind, Run, Trainer

OTHERS = (
    "grpo",
    "ppo",
    "rloo",
    "online",
    "nash",
    "xpo",
    "gkd",
    "kto",
    "orpo",
    "cpo",
    "bco",
    "reward",
    "prm",
)
"""Loops of TRL whose losses, reference models or engines of inference are not modelled."""

ONLY_SFT = ("packing", "dataset_text_field", "completion_only_loss", "assistant_only_loss")
ONLY_DPO = ("precompute_ref_log_probs", "f_divergence_type", "max_prompt_length", "rpo_alpha")
ONLY_OTHERS = (
    "num_generations",
    "use_vllm",
    "vllm_mode",
    "reward_funcs",
    "kl_coef",
    "num_ppo_epochs",
)
TRAINERS_OWN = ("per_device_train_batch_size", "per_gpu_train_batch_size", "output_dir")

OTHER = (
    "of TRL's loops only SFT is modelled. What an inference engine beside it takes can be given as "
    "reserved_other_bytes, and this key accepted"
)
PREFERENCES = (
    "the log-probabilities that a preference loss keeps are not modelled, nor the reference model "
    "beside the one that is trained where there is one; the batch is of pairs"
)

KEYS: Mapping[Kind, Keys] = {
    "sft": TRAINER | SCRIPT | SFT,
    "dpo": TRAINER | SCRIPT | DPO,
    "other": TRAINER | SCRIPT,
    "trainer": TRAINER | SCRIPT,
    "script": TRAINER | SCRIPT,
}


def trainer_of(program: Program, settings: Mapping[str, Setting]) -> Trainer:
    """The loop by the name of the program, else the one whose keys are there."""
    name = program.name or ""
    command = [name, *(word.text for word in program.arguments[:1] if name.endswith("trl"))]
    script = command[-1].rpartition("/")[2].lower()
    named = set(re.split(r"[^a-z]+", script))
    setting = Setting(script, name, "argv", None)
    if any(each in named or script.startswith(each) for each in OTHERS):
        return Trainer("other", setting)
    if "dpo" in named:
        return Trainer("dpo", setting)
    return Trainer("sft", setting) if "sft" in named else _by_keys(settings)


def _by_keys(settings: Mapping[str, Setting]) -> Trainer:
    groups: Mapping[Kind, tuple[str, ...]] = {
        "other": ONLY_OTHERS,
        "dpo": ONLY_DPO,
        "sft": ONLY_SFT,
        "trainer": TRAINERS_OWN,
    }
    for kind, keys in groups.items():
        for key in keys:
            if key in settings:
                return Trainer(kind, settings[key])
    return Trainer("script")


def check_trainer(run: Run) -> None:
    """Refuse what a loop does beside training on samples, and note that it was recognised."""
    kind, named = run.trainer
    if kind == "dpo":
        run.arguments.get("precompute_ref_log_probs")
    if kind in ("other", "dpo") and named is not None:
        run.draft.leave_out(named, PREFERENCES if kind == "dpo" else OTHER)
