"""mason.py of open-instruct: what stands behind `--` runs on each of some nodes of Beaker.

Source: allenai/open-instruct mason.py (get_args, parse_commands, make_task_spec).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainfit.launch.commands import counts
from trainfit.launch.commands.launchers import Step, noted
from trainfit.launch.commands.options import Interface, names
from trainfit.launch.program import TrainingProgram, Word
from trainfit.launch.settings import Setting

SCRIPT = "mason.py"
OPTIONS = Interface(
    valued=names(
        "cluster hostname max_retries budget gpus shared_memory num_nodes image workspace "
        "beaker_datasets description task_name priority auto_output_dir_path "
        "auto_checkpoint_state_dir artifact_ttl env secret timeout"
    ),
    switches=names(
        "preemptible pure_docker_mode mount_docker_socket no_hf_cache_env no_mount_nfs "
        "non_resumable no_auto_dataset_cache no_host_networking"
    ),
)
LISTS = ("cluster", "hostname", "beaker_datasets")
"""Options that take as many words as follow."""
SIGNS = ("&&", ";")
"""Between commands."""
PROCESSES = "--num_processes"
"""What mason multiplies by the nodes, as the command says it of one."""


def mason(words: Sequence[Word], program: TrainingProgram) -> Step | None:
    """The last command behind `--`, as those before it in a shell prepare a node; None where
    nothing stands there.
    """
    texts = [word.text for word in words]
    if "--" not in texts:
        return None
    at = texts.index("--")
    parsed = OPTIONS.parse(_without_lists(words[1:at]))
    program = noted(parsed, program, SCRIPT)
    nodes, gpus = (
        None if setting is None else counts.counted(setting)
        for setting in (parsed.get("num_nodes"), parsed.get("gpus"))
    )
    given = replace(program.allocation, nodes=nodes, gpus_per_node=gpus)
    return _of_all(_last(words[at + 1 :]), nodes), replace(program, allocation=given)


def _without_lists(words: Sequence[Word]) -> list[Word]:
    """Options of which each has one value at most."""
    kept: list[Word] = []
    option = ""
    for word in words:
        if word.text.startswith("--"):
            option = word.text.removeprefix("--").replace("-", "_")
        elif option in LISTS and not kept[-1].text.startswith("--"):
            continue
        kept.append(word)
    return kept


def _last(words: Sequence[Word]) -> Sequence[Word]:
    """The last of several commands, which an escaped && or another `--` sets apart, with a blank
    behind it or without.
    """
    ends = [at for at, word in enumerate(words) if word.text.startswith(SIGNS) or word.text == "--"]
    if not ends:
        return words
    sign = words[ends[-1]]
    begun = "" if sign.text == "--" else sign.text.lstrip("&;")
    return [*([replace(sign, text=begun)] if begun else []), *words[ends[-1] + 1 :]]


def _of_all(words: Sequence[Word], nodes: Setting | None) -> Sequence[Word]:
    """The command with the processes of all nodes."""
    count = nodes.value if nodes is not None and nodes.unknown is None else 1
    multiplied = list(words)
    for at, word in enumerate(words[1:], 1):
        if words[at - 1].text == PROCESSES and word.text.isdecimal():
            multiplied[at] = replace(word, text=str(int(word.text) * count))
    return multiplied
