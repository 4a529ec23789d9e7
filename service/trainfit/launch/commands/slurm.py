"""What a Slurm script asks for, and the variables that Slurm sets from it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainfit.launch.commands import counts
from trainfit.launch.commands.options import Parsed
from trainfit.launch.program import Allocation, Word
from trainfit.launch.settings import Setting
from trainfit.launch.shell.text import Text

_DIRECTIVE = "#SBATCH"
JOB = ("SLURM_JOB_ID", "SLURM_JOBID")
ANY_JOB = "1"
"""Names files and ports, and that a script runs within a job."""


def directives(script: Text) -> Sequence[Word]:
    """The options of the #SBATCH lines, which stand before the first command of a script."""
    words: list[Word] = []
    for line in script.lines():
        word = line.word()
        text = word.text.strip()
        if text.startswith(_DIRECTIVE):
            given = _split(text[len(_DIRECTIVE) :])
            words += (Word(each, word.file, word.line, word.unknown) for each in given)
        elif text and not text.startswith("#"):
            break
    return words


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.partition(" #")[0].split()


def allocation(parsed: Parsed, outer: Allocation) -> Allocation:
    """What these options ask for, where they say nothing what was asked for around them."""
    nodes = parsed.get("nodes")
    nodes = outer.nodes if nodes is None else counts.nodes(nodes)
    gpus, gpu = _gpus(parsed, nodes)
    tasks = _tasks(parsed, nodes, outer)
    return Allocation(nodes, gpus or outer.gpus_per_node, gpu or outer.gpu, tasks)


def _gpus(parsed: Parsed, nodes: Setting | None) -> tuple[Setting | None, Setting | None]:
    """GPUs of each node, and their model where that is named: gpu:h100:8."""
    each = parsed.get("gpus_per_node")
    resources = parsed.get("gres")
    if each is None and resources is not None and resources.unknown is None:
        listed = [part for part in str(resources.value).split(",") if part.startswith("gpu")]
        if listed:
            kind = listed[0].partition(":")[2].partition("(")[0] or "1"
            each = replace(resources, value=kind)
    if each is not None and each.unknown is None:
        model, _, number = str(each.value).rpartition(":")
        if not number.isdecimal():
            model, number = str(each.value), "1"
        gpu = replace(each, value=model) if model else None
        return counts.counted(replace(each, value=number)), gpu
    return each or _shared(parsed, nodes), None


def _shared(parsed: Parsed, nodes: Setting | None) -> Setting | None:
    """--gpus of all nodes together, or --gpus-per-task. One task alone has one node."""
    total = parsed.get("gpus")
    tasks = parsed.get("ntasks") or parsed.get("ntasks_per_node")
    if nodes is None and tasks is None and total is not None:
        nodes = replace(total, value=1, unknown=None)
    if total is not None and nodes is not None and total.unknown is None and nodes.unknown is None:
        number = str(total.value).rpartition(":")[2]
        if number.isdecimal() and int(number) % nodes.value == 0:
            return counts.counted(replace(total, value=str(int(number) // nodes.value)))
    each, tasks = parsed.get("gpus_per_task"), parsed.get("ntasks_per_node")
    if each is not None and tasks is None:
        return counts.counted(replace(each, value=str(each.value).rpartition(":")[2]))
    return None


def _tasks(parsed: Parsed, nodes: Setting | None, outer: Allocation) -> tuple[Setting, ...]:
    """As many as are asked for, or so many on each node, or one."""
    total, each = parsed.get("ntasks"), parsed.get("ntasks_per_node")
    if total is not None:
        return (counts.counted(total),)
    if each is None and parsed.get("nodes") is None:
        return outer.tasks or counts.known((nodes,))
    of_node = counts.counted(each) if each is not None else None
    if of_node is None and len(outer.tasks) == 2:
        of_node = outer.tasks[1]
    return () if nodes is None else counts.known((nodes, of_node))


def variables(given: Allocation) -> Mapping[str, Setting]:
    """What Slurm sets for the script, as far as its options tell."""
    values = {
        "SLURM_NNODES": given.nodes,
        "SLURM_JOB_NUM_NODES": given.nodes,
        "SLURM_GPUS_ON_NODE": given.gpus_per_node,
        "SLURM_GPUS_PER_NODE": given.gpus_per_node,
        "SLURM_NTASKS": _product(given.tasks),
        "SLURM_NPROCS": _product(given.tasks),
        "SLURM_NTASKS_PER_NODE": given.tasks[1] if len(given.tasks) == 2 else None,
    }
    known = {
        name: replace(setting, key=name, value=str(setting.value))
        for name, setting in values.items()
        if setting is not None and setting.unknown is None
    }
    job = next(iter(known.values()), None)
    numbers = () if job is None else (replace(job, key=name, value=ANY_JOB) for name in JOB)
    return {each.key: each for each in numbers} | known


def _product(settings: Sequence[Setting]) -> Setting | None:
    if not settings or any(each.unknown is not None for each in settings):
        return None
    value = 1
    for each in settings:
        value *= each.value
    return replace(settings[0], value=value)
