"""verl's trainer on samples, which runs the engine of the PPO trainer's actor under other names.

Sources: verl/trainer/sft_trainer.py, trainer/config/sft_trainer_engine.yaml and engine/fsdp.yaml,
workers/engine/fsdp/transformer_impl.py (b178a3c and later); of the trainer before it
verl/trainer/fsdp_sft_trainer.py and trainer/config/sft_trainer.yaml (v0.1 to v0.7.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from trainfit.launch.documents import mapping_in
from trainfit.launch.draft import Draft, Reading
from trainfit.launch.effects import Effect
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.launch.values import flag
from trainfit.launch.verl.keys import (
    ACTOR,
    ALWAYS_ENTROPY,
    FIRST,
    FSDP,
    LATEST,
    MODEL,
    OPTIMIZER,
    PADS,
)
from trainfit.specs.launch import LaunchFile

TRAINER, OLDER = "sft_trainer", "fsdp_sft_trainer"
TRAINERS = (TRAINER, OLDER)
ENGINE = "engine"
ENGINES = ("fsdp", "fsdp2")
GPUS = ("trainer.n_gpus_per_node", "trainer.nnodes")


class Words(NamedTuple):
    """What a trainer calls keys of the actor, by `sections` and by `names`, and its defaults."""

    whose: str
    sections: Mapping[str, str]
    names: dict[str, str]
    defaults: dict[str, Any]

    def named(self, key: str) -> str:
        """A key by the actor's name."""
        for section, name in self.sections.items():
            if key not in self.names and key.startswith(section):
                return name + key.removeprefix(section)
        return self.names.get(key, key)


SECTIONS: Mapping[str, str] = {
    "model.": f"{MODEL}.",
    "engine.": f"{FSDP}.",
    "optim.": f"{OPTIMIZER}.",
}
NAMES: dict[str, str] = {
    "engine.strategy": f"{ACTOR}.strategy",
    "data.micro_batch_size_per_gpu": f"{ACTOR}.ppo_micro_batch_size_per_gpu",
    "data.max_token_len_per_gpu": f"{ACTOR}.ppo_max_token_len_per_gpu",
    "data.use_dynamic_bsz": f"{ACTOR}.use_dynamic_bsz",
    "data.train_batch_size": f"{ACTOR}.ppo_mini_batch_size",
}
"""What means the same, and what the actor's is called."""
DEFAULTS: dict[str, Any] = {
    "data.micro_batch_size_per_gpu": 4,
    "data.max_token_len_per_gpu": 8192,
    "data.use_dynamic_bsz": True,
    "data.train_batch_size": 256,
    "model.use_remove_padding": True,
}
WORDS: Mapping[str, Words] = {
    TRAINER: Words("verl's sft_trainer_engine.yaml", SECTIONS, NAMES, DEFAULTS),
    OLDER: Words(
        "verl's sft_trainer.yaml",
        {
            "model.fsdp_config.": f"{FSDP}.",
            "model.": f"{MODEL}.",
            "optim.": f"{OPTIMIZER}.",
        },
        {
            "model.partial_pretrain": f"{MODEL}.path",
            "model.strategy": f"{ACTOR}.strategy",
            "data.micro_batch_size_per_gpu": f"{ACTOR}.ppo_micro_batch_size_per_gpu",
            "data.train_batch_size": f"{ACTOR}.ppo_mini_batch_size",
            "ulysses_sequence_parallel_size": f"{ACTOR}.ulysses_sequence_parallel_size",
            "use_remove_padding": f"{MODEL}.use_remove_padding",
        },
        {
            "data.micro_batch_size_per_gpu": 4,
            "data.train_batch_size": 256,
            "model.strategy": "fsdp2",
        },
    ),
}
BEFORE_FSDP2 = ALWAYS_ENTROPY
"""Releases whose older trainer shards with FSDP1, whatever it is told."""
KEEPS_LAYERS = (*BEFORE_FSDP2, "v0.4.0")
"""Releases whose older trainer recomputes only when asked."""
ALIKE = (
    (*(each for each in PADS if each not in KEEPS_LAYERS), LATEST),
    ("v0.4.0",),
    tuple(each for each in BEFORE_FSDP2 if each != FIRST),
    (FIRST,),
)
"""Releases whose older trainer has the same defaults, the latest first."""
TOGETHER, EACH = "data.micro_batch_size", "data.micro_batch_size_per_gpu"
PATH = "partial_pretrain"
MODEL_PATHS = ("model.path", f"model.{PATH}")
SAMPLE: Mapping[str, int] = {"data.max_length": 1024}
LOSS = "/training/loss"
EARLIER = Effect(
    "releases before v0.4.0 shard with FSDP1",
    "either",
    "verl/trainer/fsdp_sft_trainer.py (_build_model_optimizer)",
    within={"/framework/data_parallel_engine": "fsdp1"},
)
COPIED = Effect(
    "logits of all tokens but the last are copied in their own type, and widened once",
    "lowers",
    "verl/trainer/fsdp_sft_trainer.py (_compute_loss_and_backward)",
    within={f"{LOSS}/shifted": "labels"},
)
LIGER = Effect(
    "Liger's kernels are modelled all together only; its loss does not run here",
    "lowers",
    "verl/trainer/fsdp_sft_trainer.py (_apply_liger_kernel_to_instance)",
    within={"/framework/liger_kernel": True},
)


def is_config(file: LaunchFile) -> bool:
    """Whether a file is the config of the older trainer."""
    found = mapping_in(file, PATH) or {}
    model = found.get("model")
    return isinstance(model, dict) and PATH in model


def as_actor(
    settings: Mapping[str, Setting],
    program: TrainingProgram,
    draft: Draft,
    trainer: str,
    release: str | None,
) -> dict[str, Setting]:
    """The settings by the names of the actor's, as a release has them, or as one that is not known.
    The number of GPUs is what starts the trainer. Raises LaunchError for another engine.
    """
    engine, words = settings.get(ENGINE), WORDS[trainer]
    if trainer == OLDER and release in BEFORE_FSDP2:
        words = words._replace(defaults=words.defaults | {"model.strategy": "fsdp"})
    if trainer == OLDER and release == FIRST:
        names = words.names | {TOGETHER: f"{ACTOR}.ppo_micro_batch_size"}
        defaults = {key: value for key, value in words.defaults.items() if key != EACH}
        defaults[TOGETHER] = 16
        words = words._replace(names=names, defaults=defaults)
    if engine is not None and engine.value not in ENGINES:
        message = f"verl's engine {engine.value} is not read; {' and '.join(ENGINES)} are"
        raise LaunchError(Complaint.at(engine, message))
    usual = {
        key: Setting(key, value, words.whose, None, whose=words.whose)
        for key, value in words.defaults.items()
    }
    if trainer == OLDER and release is None and "model.strategy" not in settings:
        draft.leave_out(Setting("model.strategy", None, words.whose, None), EARLIER)
    found = {words.named(key): each for key, each in (usual | dict(settings)).items()}
    for key in GPUS:
        if (idle := found.pop(key, None)) is not None:
            draft.ignore(idle)
    if not program.num_gpus:
        pointer = "/parallelism/num_gpus"
        draft.require(pointer, f"the number of GPUs is not said; give {pointer} in overrides")
    found |= dict(zip(GPUS, program.num_gpus, strict=False))
    return found


def put_older_loss(reading: Reading, draft: Draft) -> None:
    """Logits of a padded batch, copied without the last token; those that ranks share are not.
    Padding that is removed without such ranks is removed within attention alone.
    """
    reading.get(f"{MODEL}.use_remove_padding")
    if (draft.get("/parallelism/cp") or 1) == 1:
        draft.default(f"{LOSS}/shifted", "logits", "verl's fsdp_sft_trainer")
        draft.leave_out(Setting("shift_logits", None, WORDS[OLDER].whose, None), COPIED)
    liger = reading.get(f"{MODEL}.use_liger")
    if liger is not None and reading.value(f"{MODEL}.use_liger", False, flag):
        draft.leave_out(liger, LIGER)
