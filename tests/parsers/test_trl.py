"""Command lines of TRL's supervised fine-tuning, beside TRL's own parser."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.launch.launches import Read, launch_of, read
from tests.parsers.run import parsed_by
from trainfit.launch.errors import LaunchError

COUNT = 600
COMMAND = ["accelerate", "launch", "--num_processes", "8", "trl/scripts/sft.py"]
BASE = {
    "model_name_or_path": ["Qwen/Qwen3-8B"],
    "output_dir": ["out"],
    "dtype": ["bfloat16"],
    "per_device_train_batch_size": ["2"],
}
NUMBERS = ("1", "2", "3", "16", "0", "-1", "4.0", "1e1", "1_000", "two", "")
SWITCHES = ("True", "False", "true", "false", "yes", "no", "t", "f", "1", "0", "on", "maybe")


class Field(NamedTuple):
    """What a key may be given, the field of a job that its value becomes, and what the field means
    where it is not set.
    """

    values: tuple[str, ...]
    pointer: str
    becomes: Callable[[Any], Any] = lambda value: value
    unset: Any = None


def _on(value: Any, what: Any) -> Any:
    return what if value else None


FIELDS = {
    "per_device_train_batch_size": Field(NUMBERS, "/training/micro_batch_size"),
    "gradient_accumulation_steps": Field(NUMBERS, "/training/num_microbatches", unset=1),
    "max_length": Field((*NUMBERS, "4096"), "/training/seq_length"),
    "gradient_checkpointing": Field(
        SWITCHES, "/training/recompute/granularity", lambda value: _on(value, "full")
    ),
    "use_liger_kernel": Field(SWITCHES, "/framework/liger_kernel", lambda value: _on(value, True)),
    "lora_r": Field(NUMBERS, "/training/peft/r"),
    "lora_dropout": Field(("0.1", "0", ".5", "2", "x"), "/training/peft/dropout", float),
    "load_in_4bit": Field(SWITCHES, "/training/peft/quantization", lambda value: _on(value, "nf4")),
    "lora_modules_to_save": Field(("lm_head", "embed_tokens"), "/training/peft/modules_to_save"),
}
OF_ADAPTERS = ("lora_r", "lora_dropout", "load_in_4bit", "lora_modules_to_save")


def spelled(chance: random.Random, key: str, value: str) -> list[str]:
    """A flag as one may spell it."""
    name = key.replace("_", "-") if chance.random() < 0.2 else key
    if FIELDS[key].values is SWITCHES and chance.random() < 0.25:
        return [f"--no_{name}" if chance.random() < 0.5 else f"--{name}"]
    if chance.random() < 0.1:
        name = name[: chance.randint(len(name) // 2, len(name))]
    if chance.random() < 0.3:
        return [f"--{name}={value}"]
    words = [f"--{name}", value]
    if key == "lora_modules_to_save" and chance.random() < 0.3:
        words.append("lm_head")
    return words


def command_line(chance: random.Random) -> list[str]:
    """One with up to four keys changed, of which some are said twice."""
    keys = chance.choices(list(FIELDS), k=chance.randint(1, 4))
    words = [word for key, values in BASE.items() for word in (f"--{key}", *values)]
    words += ["--packing"]
    if any(key in OF_ADAPTERS for key in keys):
        words += ["--use_peft", "--lora_target_modules", "q_proj"]
    for key in keys:
        words += spelled(chance, key, chance.choice(FIELDS[key].values))
    return words


def read_by_trainfit(words: list[str]) -> Read | None:
    try:
        return read(launch_of(argv=[*COMMAND, *words]))
    except LaunchError:
        return None


def test_fields_are_what_the_parser_makes_of_them() -> None:
    chance = random.Random("TRL")
    lines = [command_line(chance) for _ in range(COUNT)]
    seen: Counter[str] = Counter()
    differ = []
    for words, own in zip(lines, parsed_by("trl", lines), strict=True):
        found = read_by_trainfit(words)
        if found is None or found.unsupported or own is None:
            continue
        for key, field in FIELDS.items():
            if key in OF_ADAPTERS and not own["use_peft"]:
                continue
            value = found.field(field.pointer)
            expected = field.becomes(own[key])
            if (field.unset if value is None else value) != expected:
                differ.append((words[9:], key, value, expected))
            seen[key] += 1
    assert not differ
    assert min(seen[key] for key in FIELDS) >= COUNT // 10
