"""Whose loop trains, by the name of the program and by keys that only one loop has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from operator import or_

from trainfit.launch.effects import preference
from trainfit.launch.keys import Keys, table_of
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.launch.transformers import policy
from trainfit.launch.transformers.grpo import put_policy
from trainfit.launch.transformers.preferences import (
    LOSS,
    put_ktos,
    put_openrlhfs,
    put_orpos,
    put_swifts,
    put_trls,
)
from trainfit.launch.transformers.run import Kind, Trainer, TrainerRun

OTHERS = (
    "ppo",
    "rloo",
    "online",
    "nash",
    "xpo",
    "gkd",
    "bco",
    "prm",
)
"""Loops of TRL whose losses, reference models or engines of inference are not modelled."""

NAMED: Mapping[tuple[str, ...], Kind] = {
    OTHERS: "other",
    ("grpo",): "grpo",
    ("kto",): "kto",
    ("orpo", "cpo"): "orpo",
    ("reward",): "reward",
    ("dpo",): "dpo",
    ("sft",): "sft",
}
"""Words of the name of a script, of a command of TRL or of a file, and whose loop they name."""

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
GRPOS_OWN = ("num_generations", "max_completion_length", "reward_funcs", "use_vllm")
"""A script of that name without any of TRL's words, nor TRL's command, is another."""
TRAINERS_OWN = ("per_device_train_batch_size", "per_gpu_train_batch_size", "output_dir")

OTHER = (
    "of such loops only supervised training is modelled. What an inference engine beside it takes "
    "can be given as reserved_other_bytes, and this key accepted"
)
PREFERENCES = (
    "the log-probabilities that a preference loss keeps are not modelled, nor the reference model "
    "beside the one that is trained where there is one; the batch is of pairs"
)

OPEN_INSTRUCT = "allenai/open-instruct open_instruct/dpo_tune_cache.py, dpo_utils.py"

TABLES: Mapping[Kind, str] = {
    "sft": "sft",
    "dpo": "dpo",
    "kto": "dpo",
    "orpo": "dpo",
    "alone": "dpo",
    "reward": "reward",
    "grpo": "generating",
    "other": "generating",
}
"""Tables of keys that only one loop has."""


def keys_of_trainer(kind: Kind) -> Keys:
    """Keys of TrainingArguments, of the scripts beside them and of this loop."""
    names = ("trainer", "script", *([TABLES[kind]] if kind in TABLES else ()))
    return reduce(or_, (table_of(__package__, name) for name in names))


def trainer_of(program: TrainingProgram, settings: Mapping[str, Setting]) -> Trainer:
    """The loop by the name of the program or the path of a file of arguments, else by keys of its
    own. The directory of a script, and what starts it, say nothing of whose it is.
    """
    script = program.name or ""
    word = program.arguments[0].text if program.arguments and script.endswith("trl") else ""
    command = {each.file for each in program.arguments}
    paths = {each.file for each in settings.values()} - command
    for name in (script.rpartition("/")[2], word, *sorted(paths)):
        words = set(re.split(r"[^a-z]+", name.lower()))
        for loops, kind in NAMED.items():
            if named := sorted(words.intersection(loops)):
                file, line = (name, 1) if name in paths else ("argv", None)
                if kind == "grpo" and not (word or settings.keys() & {*GRPOS_OWN}):
                    kind = "other"
                return Trainer(kind, Setting(named[0], name, file, line))
    return _by_keys(settings)


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


def check_trainer(run: TrainerRun, *, adapters: bool) -> None:
    """Refuse what a loop does beside training on samples, and note that it was recognised."""
    kind, named = run.trainer
    if kind == "dpo" and named is not None:
        put_trls(run, named, adapters=adapters)
        refuse_offloaded_copy(run, named)
    if kind == "orpo" and named is not None:
        put_orpos(run, named, own=named.key == "orpo")
    if kind == "kto" and named is not None:
        put_ktos(run, named, adapters=adapters)
        refuse_offloaded_copy(run, named)
    if kind in ("own_pairs", "own_kto") and named is not None:
        put_swifts(run, named, adapters=adapters)
        refuse_offloaded_copy(run, named)
    if kind == "alone" and named is not None:
        put_orpos(run, named, own=named.value == "orpo", by="trl-orpo-0.15")
    if kind == "pairs" and named is not None:
        put_openrlhfs(run, named)
        refuse_offloaded_copy(run, named)
    if kind == "cached" and named is not None:
        run.draft.leave_out(named, preference(OPEN_INSTRUCT))
    if kind == "actor":
        policy.put_actors_loss(run)
    if kind in ("policy", "actor") and named is not None:
        policy.put_beside(run, named)
    if kind == "grpo" and named is not None:
        put_policy(run, named, adapters=adapters)
        refuse_offloaded_copy(run, named)
    if kind == "other" and named is not None:
        run.draft.leave_out(named, OTHER)


def refuse_offloaded_copy(run: TrainerRun, named: Setting) -> None:
    """What of a second model waits on the host, and what of it is on the card, is not known."""
    if run.draft.get(f"{LOSS}/reference") == "copy" and _offloads(run):
        run.draft.leave_out(named, PREFERENCES)


def _offloads(run: TrainerRun) -> bool:
    """Whether anything waits on the host, by DeepSpeed's config or accelerate's short form."""
    written = {} if run.deepspeed is None else run.deepspeed.settings
    settings = {**run.accelerate.settings, **written}
    return any(
        "offload" in key and key.endswith(WHERE) and str(each.value).lower() not in NOWHERE
        for key, each in settings.items()
    )


WHERE = ("device", "cpu_offload", "cpu_offload_params", "offload_params")
"""Keys that say whether anything is offloaded, and values that say it is not."""
NOWHERE = ("none", "null", "false")
