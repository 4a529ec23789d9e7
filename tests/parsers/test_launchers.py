"""Command lines of torchrun and accelerate launch, beside their own parsers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tests.launch.commands.programs import launch, num_gpus
from tests.parsers.run import parsed_by
from trainfit.launch.commands.unwrap import programs_of
from trainfit.launch.errors import LaunchError
from trainfit.launch.program import TrainingProgram

COUNT = 500
TORCHRUN = {
    "nnodes": ("1", "2", "2:2", "1:4", "x"),
    "nproc_per_node": ("1", "4", "8", "cpu", "x"),
    "rdzv_backend": ("c10d",),
    "rdzv_endpoint": ("host:29500",),
    "rdzv_id": ("101",),
    "max_restarts": ("0", "3"),
    "node_rank": ("0",),
    "master_addr": ("a.b",),
    "master_port": ("29500",),
    "log_dir": ("logs",),
    "standalone": (),
    "module": (),
    "no_python": (),
    "use_env": (),
    "nonsense": ("1",),
}
ACCELERATE = {
    "num_processes": ("1", "8", "16", "x"),
    "num_machines": ("1", "2"),
    "machine_rank": ("0",),
    "main_process_ip": ("a.b",),
    "main_process_port": ("29500",),
    "mixed_precision": ("bf16", "fp16", "no", "fp8", "half"),
    "dynamo_backend": ("no", "inductor"),
    "zero_stage": ("2", "3"),
    "deepspeed_config_file": ("ds.json",),
    "gradient_accumulation_steps": ("4",),
    "fsdp_sharding_strategy": ("FULL_SHARD",),
    "fsdp_version": ("1", "2"),
    "use_deepspeed": (),
    "use_fsdp": (),
    "multi_gpu": (),
    "module": (),
    "nonsense": ("1",),
}
SHORT = {"module": "-m"}
Words = list[str]


def written(chance: random.Random, name: str, values: Sequence[str]) -> Words:
    """An option as one may write it: with dashes, cut off where that is clear, or short."""
    if name in SHORT and chance.random() < 0.5:
        return [SHORT[name]]
    spelled = name.replace("_", "-") if chance.random() < 0.4 else name
    if chance.random() < 0.15:
        spelled = spelled[: chance.randint(len(spelled) * 2 // 3, len(spelled))]
    if not values:
        return [f"--{spelled}"]
    value = chance.choice(values)
    return [f"--{spelled}={value}"] if chance.random() < 0.4 else [f"--{spelled}", value]


def command_line(chance: random.Random, options: dict[str, tuple[str, ...]]) -> Words:
    names = chance.choices(list(options), k=chance.randint(0, 6))
    words = [word for name in names for word in written(chance, name, options[name])]
    script = chance.choice(["train.py", "./a/train.py", "pkg.train"])
    return [*words, script, *chance.choice([[], ["--x", "1"], ["--nproc_per_node", "3", "y"]])]


def read_by_trainfit(words: Words) -> TrainingProgram | None:
    """The program, or None where it is not one that is known, or has options that are not."""
    try:
        found = programs_of(launch(words)).programs
    except LaunchError:
        return None
    return None if len(found) != 1 or found[0].unsupported else found[0]


def started(own: dict[str, Any]) -> tuple[str, Words]:
    """The program that a launcher starts, by its last name, and its arguments."""
    script = own["training_script"]
    return script.rpartition("/")[2], list(own["training_script_args"])


def told(found: TrainingProgram) -> tuple[str, Words]:
    return found.name or "", [word.text for word in found.arguments]


def test_torchrun_starts_what_its_parser_says() -> None:
    chance = random.Random("torchrun")
    lines = [command_line(chance, TORCHRUN) for _ in range(COUNT)]
    differ: list[Any] = []
    seen = 0
    answers = parsed_by("launchers", [("torchrun", each) for each in lines])
    for words, own in zip(lines, answers, strict=True):
        found = read_by_trainfit(["torchrun", *words])
        if own is None or found is None:
            continue
        if told(found) != started(own):
            differ.append((words, told(found), started(own)))
        nodes, each = own["nnodes"].partition(":"), own["nproc_per_node"]
        fixed = nodes[0].isdecimal() and (not nodes[1] or nodes[0] == nodes[2])
        count = int(nodes[0]) * int(each) if fixed and each.isdecimal() else None
        if num_gpus(found) != count:
            differ.append((words, num_gpus(found), count))
        seen += 1
    assert not differ
    assert seen > COUNT // 2


def test_accelerate_is_told_what_its_parser_says() -> None:
    chance = random.Random("accelerate")
    lines = [command_line(chance, ACCELERATE) for _ in range(COUNT)]
    differ: list[Any] = []
    seen = 0
    answers = parsed_by("launchers", [("accelerate", each) for each in lines])
    for words, own in zip(lines, answers, strict=True):
        found = read_by_trainfit(["accelerate", "launch", *words])
        if own is None or found is None:
            continue
        if told(found) != started(own):
            differ.append((words, told(found), started(own)))
        for name, setting in found.launcher_settings.items():
            if str(own.get(name)) != str(setting.value):
                differ.append((words, name, setting.value, own.get(name)))
        given = {name for name in ACCELERATE if own.get(name) not in (None, False)}
        by_default = {
            "fsdp_sharding_strategy",
            "fsdp_version",
            "dynamo_backend",
            "deepspeed_config_file",
        }
        if missing := given - by_default - found.launcher_settings.keys():
            differ.append((words, "not read", sorted(missing), ""))
        seen += 1
    assert not differ
    assert seen > COUNT // 2
