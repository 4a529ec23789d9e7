"""What people type out of habit with other tools, in the words that these commands have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from trainfit.cli.errors import RefusedCommandError

SAME: Mapping[str, str] = {
    other: flag
    for flag, others in {
        "--num-gpus": "gpus ngpus n-gpus num-devices",
        "--tp": "tp-size tensor-parallel-size tensor-parallel",
        "--pp": "pp-size pipeline-parallel-size pipeline-parallel",
        "--cp": "cp-size context-parallel",
        "--ep": "ep-size expert-parallel-size expert-parallel",
        "--micro-batch-size": "mbs micro-bs per-device-train-batch-size per-device-batch-size",
        "--global-batch-size": "gbs train-batch-size",
        "--num-microbatches": "gradient-accumulation-steps grad-accum",
        "--seq-length": "seq seq-len seqlen sequence-length max-seq-len max-seq-length "
        "max-length context-length cutoff-len",
        "--precision": "dtype mixed-precision",
        "--attention-backend": "attn-implementation attn",
        "--no-add-bias-linear": "disable-bias-linear",
        "--lora-r": "lora-rank lora-dim peft-r peft-rank",
    }.items()
    for other in (f"--{each}" for each in others.split())
}
"""Other names of a flag, which take the same values."""

MODEL_FLAGS = ("--model", "--config", "--hf-id", "--model-name-or-path")
"""What other tools have in front of a model, which is a word of its own here."""

PIPED = "/dev/stdin"

SHARDING: Mapping[str, Mapping[str, str]] = {
    "--zero": {
        "0": "no_shard",
        "1": "optim",
        "2": "optim_grads",
        "3": "optim_grads_params",
    },
    "--fsdp": {
        "full_shard": "optim_grads_params",
        "shard_grad_op": "optim_grads",
        "no_shard": "no_shard",
    },
}
"""The values of each, and what data-parallel ranks then share."""

SHORT: Mapping[str, str] = {
    "--ddp": "--data-parallel-engine ddp",
    "--lora": "--peft lora",
    "--qlora": "--peft lora --peft-quantization nf4",
    "--bf16": "--precision bf16",
    "--fp16": "--precision fp16",
    "--fp8": "--precision fp8",
    "--sp": "--sequence-parallel",
    "--flash-attn": "--attention-backend flash",
    "--use-flash-attn": "--attention-backend flash",
}
"""What stands for other flags whoever runs the step."""

OF_TRANSFORMERS = (*SHARDING, "--ddp", "--qlora")
"""What says that transformers run the step, where nothing else says who does."""

CHECKPOINTING = ("--gradient-checkpointing", "--activation-checkpointing")
FULL = "--recompute-granularity full"
MEGATRON_FULL = f"{FULL} --recompute-method uniform --recompute-num-layers 1"

NODES = ("--nodes", "--nnodes", "--num-nodes")
GPUS_OF_A_NODE = 8

ASKED_BACK: Mapping[str, str] = {
    **dict.fromkeys(
        ("--dp", "--dp-size", "--data-parallel-size"),
        "follows from the others; use --num-gpus, which is dp * tp * pp * cp",
    ),
    **dict.fromkeys(
        ("--batch-size", "--bs", "--batch"),
        "use --micro-batch-size for the samples of one GPU at once, --global-batch-size for those "
        "of a step",
    ),
}
"""What leaves open which of several is meant."""


def understood(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of a command line in its own flags, and what is worth telling of that: whatever
    was more than another name.

    Raises RefusedCommandError where several flags could be meant.
    """
    command, *rest = words
    framework = _framework(rest)
    named = any(word.partition("=")[0] == "--framework" for word in rest)
    models: list[str] = []
    made: list[str] = []
    readings: list[str] = []
    ahead = iter(_apart(rest))
    for word in ahead:
        name, sign, value = word.partition("=")
        if not word.startswith("--"):
            made.append(PIPED if word == "-" else word)
        elif name in SAME:
            made.append(f"{SAME[name]}{sign}{value}")
        elif name in MODEL_FLAGS:
            models.append(value if sign else next(ahead, ""))
        elif name in ASKED_BACK:
            raise RefusedCommandError(f"trainfit: {name}: {ASKED_BACK[name]}")
        elif name in NODES:
            raise RefusedCommandError(_nodes(name, value or next(ahead, "")))
        elif read := _read(name, value, framework):
            if name in OF_TRANSFORMERS and not named:
                read, named = f"--framework transformers {read}", True
            made += read.split()
            readings.append(f"{' '.join([name, *([value] if value else [])])} is read as {read}")
        else:
            made.append(word)
    return [command, *models, *made], readings


def _apart(words: Sequence[str]) -> Iterator[str]:
    """The words, with the value of what shares data-parallel state, or the rank of adapters, in one
    with its name.
    """
    previous: str | None = None
    for word in words:
        if previous is not None:
            known = word in SHARDING.get(previous, ()) or (
                not word.startswith("-") if previous == "--zero" else word.isdecimal()
            )
            yield f"{previous}={word}" if known else previous
            previous = None
            if known:
                continue
        if word in SHARDING or word == "--lora":
            previous = word
        else:
            yield word
    if previous is not None:
        yield previous


def _framework(words: Sequence[str]) -> str | None:
    """The framework that is named, or that other words stand for."""
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        name, sign, value = word.partition("=")
        if name == "--framework":
            return value if sign else following
    others = any(word.partition("=")[0] in OF_TRANSFORMERS for word in words)
    return "transformers" if others else None


def _read(name: str, value: str, framework: str | None) -> str | None:
    if name in CHECKPOINTING:
        return MEGATRON_FULL if framework in (None, "megatron") else FULL
    if name in SHORT:
        return f"{SHORT[name]} --lora-r {value}" if name == "--lora" and value else SHORT[name]
    if name not in SHARDING:
        return None
    values = SHARDING[name]
    if value not in values and (value or name == "--zero"):
        one = " or ".join([", ".join([*values][:-1]), [*values][-1]])
        raise RefusedCommandError(f"trainfit: {name}: use {name} with {one}, as in {name} 3")
    strategy = f"--data-parallel-sharding-strategy {values.get(value, 'optim_grads_params')}"
    if framework != "transformers":
        return strategy
    engine = "deepspeed" if name == "--zero" else "fsdp2"
    return f"--data-parallel-engine {engine} {strategy}"


def _nodes(name: str, value: str) -> str:
    said = f"trainfit: {name}: use --num-gpus, the GPUs of all nodes"
    if not value.isdecimal():
        return said
    return f"{said}: --num-gpus {int(value) * GPUS_OF_A_NODE} where each has {GPUS_OF_A_NODE}"
