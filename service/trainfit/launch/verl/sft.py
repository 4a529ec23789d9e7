"""verl's trainer on samples, which runs the engine of the PPO trainer's actor under other names.

Sources: verl/trainer/sft_trainer.py, trainer/config/sft_trainer_engine.yaml and engine/fsdp.yaml,
workers/engine/fsdp/transformer_impl.py (b178a3c and later).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainfit.launch.draft import Draft
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.program import Program
from trainfit.launch.settings import Setting
from trainfit.launch.verl.keys import ACTOR, FSDP, MODEL, OPTIMIZER

TRAINER = "sft_trainer"
WHOSE = "verl's sft_trainer_engine.yaml"
ENGINE = "engine"
ENGINES = ("fsdp", "fsdp2")
GPUS = ("trainer.n_gpus_per_node", "trainer.nnodes")
SECTIONS: Mapping[str, str] = {
    "model.": f"{MODEL}.",
    "engine.": f"{FSDP}.",
    "optim.": f"{OPTIMIZER}.",
}
NAMES: Mapping[str, str] = {
    "engine.strategy": f"{ACTOR}.strategy",
    "data.micro_batch_size_per_gpu": f"{ACTOR}.ppo_micro_batch_size_per_gpu",
    "data.max_token_len_per_gpu": f"{ACTOR}.ppo_max_token_len_per_gpu",
    "data.use_dynamic_bsz": f"{ACTOR}.use_dynamic_bsz",
    "data.train_batch_size": f"{ACTOR}.ppo_mini_batch_size",
}
"""What means the same, and what the actor's is called."""
DEFAULTS: Mapping[str, Any] = {
    "data.micro_batch_size_per_gpu": 4,
    "data.max_token_len_per_gpu": 8192,
    "data.use_dynamic_bsz": True,
    "data.train_batch_size": 256,
    "model.use_remove_padding": True,
}
SAMPLE: Mapping[str, int] = {"data.max_length": 1024}


def as_actor(settings: Mapping[str, Setting], program: Program, draft: Draft) -> dict[str, Setting]:
    """The settings by the names of the actor's. The number of GPUs is what starts the trainer.
    Raises LaunchError for another engine.
    """
    engine = settings.get(ENGINE)
    if engine is not None and engine.value not in ENGINES:
        message = f"verl's engine {engine.value} is not read; {' and '.join(ENGINES)} are"
        raise LaunchError(Complaint.at(engine, message))
    usual = {key: Setting(key, value, WHOSE, None, whose=WHOSE) for key, value in DEFAULTS.items()}
    found = {_named(key): each for key, each in (usual | dict(settings)).items()}
    for key in GPUS:
        if (idle := found.pop(key, None)) is not None:
            draft.ignore(idle)
    if not program.num_gpus:
        pointer = "/parallelism/num_gpus"
        draft.require(pointer, f"the number of GPUs is not said; give {pointer} in overrides")
    found |= dict(zip(GPUS, program.num_gpus, strict=False))
    return found


def _named(key: str) -> str:
    for section, name in SECTIONS.items():
        if key not in NAMES and key.startswith(section):
            return name + key.removeprefix(section)
    return NAMES.get(key, key)
