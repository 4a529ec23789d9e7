"""Rows that were derived from the source of a program, beside the program's own parser.

Rows are taken alone, and several at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from tests.launch.derived.families import FAMILIES
from tests.launch.derived.family import Family, Said
from tests.launch.launches import Read, read
from tests.parsers.run import parsed_by
from trainfit.launch.errors import LaunchError
from trainfit.specs.launch import Launch

COUNT = 30
MICRO, LENGTH = "/training/micro_batch_size", "/training/seq_length"
RECOMPUTE = "/training/recompute/granularity"
ACTOR, MODEL = "actor_rollout_ref.actor", "actor_rollout_ref.model"


def same(value: Any) -> Any:
    return value


class Field(NamedTuple):
    """The field of a job that a key's value becomes, and how."""

    pointer: str
    becomes: Callable[[Any], Any] = same


class Held(NamedTuple):
    """What of a program's launches its own parser is given: the words behind this one."""

    program: str
    behind: str
    fields: Mapping[str, Field]


HELD = {
    "torchtune": Held(
        "torchtune",
        "full_finetune_distributed",
        {
            "batch_size": Field(MICRO),
            "gradient_accumulation_steps": Field("/training/num_microbatches"),
            "tokenizer.max_seq_len": Field(LENGTH),
            "fsdp.cpu_offload": Field("/framework/offload_params"),
            "compile": Field("/framework/compile"),
            "enable_activation_checkpointing": Field(RECOMPUTE, lambda on: "full" if on else None),
        },
    ),
    "torchtitan": Held(
        "torchtitan",
        "torchtitan.train",
        {
            "training.local_batch_size": Field(MICRO),
            "training.seq_len": Field(LENGTH),
            "parallelism.tensor_parallel_degree": Field("/parallelism/tp"),
            "parallelism.fsdp_reshard_after_forward": Field(
                "/framework/fsdp_reshard_after_forward",
                lambda policy: None if policy == "default" else policy,
            ),
        },
    ),
    "verl": Held(
        "verl",
        "verl.trainer.main_ppo",
        {
            "trainer.nnodes": Field("/parallelism/num_gpus", lambda nodes: 8 * int(nodes)),
            f"{ACTOR}.strategy": Field(
                "/framework/data_parallel_engine", {"fsdp": "fsdp1", "fsdp2": "fsdp2"}.get
            ),
            f"{ACTOR}.entropy_coeff": Field(
                "/training/loss/entropy", lambda factor: "compiled" if factor else None
            ),
            f"{ACTOR}.ulysses_sequence_parallel_size": Field(
                "/parallelism/cp", lambda ranks: None if ranks == 1 else ranks
            ),
            f"{MODEL}.lora_rank": Field("/training/peft/r", lambda rank: rank or None),
            f"{MODEL}.enable_gradient_checkpointing": Field(
                RECOMPUTE, lambda on: "full" if on else None
            ),
        },
    ),
    "litgpt": Held(
        "litgpt",
        "litgpt",
        {
            "train.micro_batch_size": Field(MICRO),
            "train.max_seq_length": Field(LENGTH),
            "lora_r": Field("/training/peft/r"),
            "lora_dropout": Field("/training/peft/dropout"),
            "checkpoint_dir": Field(
                "/model/hf_id", lambda path: str(path).removeprefix("checkpoints/")
            ),
        },
    ),
}


def launches(family: Family) -> list[Launch]:
    """Each row alone, and up to three of them at once."""
    rows = [Said(row) if isinstance(row, str) else row for row in family.rows]
    chance = random.Random(family.source)
    for _ in range(COUNT):
        chosen = chance.sample(rows, k=chance.randint(2, 3))
        words = " ".join(each.words for each in chosen)
        keys = {key: text for each in chosen for key, text in each.keys}
        rows.append(Said(words, tuple(keys.items())))
    return [family.launch(each) for each in rows]


def sent(launch: Launch, behind: str) -> dict[str, Any]:
    assert launch.argv is not None
    words = list(launch.argv)
    files = {file.path: file.content for file in launch.files}
    return {"files": files, "words": words[words.index(behind) + 1 :]}


def read_by_trainfit(launch: Launch) -> Read | None:
    try:
        return read(launch)
    except LaunchError:
        return None


@pytest.mark.parametrize("name", HELD)
def test_fields_are_what_the_parser_makes_of_them(name: str) -> None:
    held, family = HELD[name], FAMILIES[name]
    given, usual = launches(family), read(family.launch(Said())).left_out
    answers = parsed_by(held.program, [sent(each, held.behind) for each in given])
    differ = []
    seen = 0
    for launch, own in zip(given, answers, strict=True):
        found = read_by_trainfit(launch)
        if found is None or own is None or found.left_out - usual:
            continue
        for key, field in held.fields.items():
            if own.get(key) is None:
                continue
            value, expected = found.field(field.pointer), field.becomes(own[key])
            if value != expected:
                differ.append((launch.argv, key, value, expected))
        seen += 1
    assert not differ
    assert seen >= len(given) // 3
