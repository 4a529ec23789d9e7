"""What starts a training program on many GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainfit.launch.commands import counts, slurm
from trainfit.launch.commands.interfaces import (
    ACCELERATE,
    COMPOSER,
    DECIDES_ELSEWHERE,
    DEEPSPEED,
    MPIRUN,
    SLURM,
    TORCHRUN,
)
from trainfit.launch.commands.options import Parsed
from trainfit.launch.program import TrainingProgram, Word
from trainfit.launch.settings import Setting

Step = tuple[Sequence[Word], TrainingProgram]
"""The words that are left, and the program with what was taken off them."""


def torchrun(words: Sequence[Word], program: TrainingProgram) -> Step:
    """torchrun, python -m torch.distributed.run or .launch: processes on each of some nodes."""
    parsed = TORCHRUN.parse(words[1:])
    default = Setting.of("nproc_per_node", words[0], 1)
    each = parsed.get("nproc_per_node") or program.environment.get("PET_NPROC_PER_NODE", default)
    of_nodes = parsed.get("nnodes") or program.environment.get("PET_NNODES")
    nodes = None if of_nodes is None else counts.nodes(of_nodes)
    num_gpus = counts.known((_processes(each, program), nodes))
    program = noted(parsed, program, "torchrun")
    return _as_python(parsed), replace(program, launcher="torchrun", num_gpus=num_gpus)


def _processes(each: Setting, program: TrainingProgram) -> Setting:
    """--nproc_per_node, which may be as many as there are GPUs."""
    if each.value in ("gpu", "auto") and each.unknown is None:
        found = counts.gpus_per_node(program)
        if found is not None:
            return found
        why = f"the number of GPUs of a machine is not given; {counts.BY_OVERRIDES}"
        return replace(each, unknown=why)
    return counts.counted(each)


def accelerate(words: Sequence[Word], program: TrainingProgram) -> Step:
    """accelerate launch; its format tells what its options and its config file become."""
    parsed = ACCELERATE.parse(words[2:])
    processes = parsed.get("num_processes")
    num_gpus = () if processes is None else (counts.counted(processes),)
    program = with_stray(parsed, program, "accelerate launch")
    return _as_python(parsed), replace(
        program, launcher="accelerate", launcher_settings=parsed.options, num_gpus=num_gpus
    )


def deepspeed(words: Sequence[Word], program: TrainingProgram) -> Step:
    """deepspeed: GPUs of each of some hosts, or those that --include lists."""
    parsed = DEEPSPEED.parse(words[1:])
    included, each, nodes = (parsed.get(name) for name in ("include", "num_gpus", "num_nodes"))
    if included is not None:
        num_gpus: tuple[Setting, ...] = (_included(included),)
    else:
        gpus = counts.counted(each) if each is not None else counts.gpus_per_node(program)
        num_gpus = counts.known((gpus, counts.counted(nodes) if nodes is not None else None))
        num_gpus = num_gpus if gpus is not None else ()
    program = noted(parsed, program, "deepspeed")
    return _as_python(parsed), replace(program, launcher="deepspeed", num_gpus=num_gpus)


def composer(words: Sequence[Word], program: TrainingProgram) -> Step:
    """composer: processes on this node, by default as many as it has GPUs, or on all of several."""
    parsed = COMPOSER.parse(words[1:])
    here, environment = parsed.get("nproc"), program.environment
    all_of = parsed.get("world_size") or environment.get("WORLD_SIZE")
    found = all_of or here or environment.get("LOCAL_WORLD_SIZE") or counts.gpus_per_node(program)
    num_gpus = () if found is None else (counts.counted(replace(found, value=str(found.value))),)
    program = noted(parsed, program, "composer")
    return _as_python(parsed), replace(program, launcher="composer", num_gpus=num_gpus)


def _included(setting: Setting) -> Setting:
    """host:0,1@other:0,1 with the slots of each host."""
    if setting.unknown is not None:
        return setting
    hosts = [host.partition(":")[2] for host in str(setting.value).split("@")]
    if not all(hosts):
        why = f"a host without its slots has as many as it has; {counts.BY_OVERRIDES}"
        return replace(setting, unknown=why)
    return replace(setting, value=sum(len(slots.split(",")) for slots in hosts))


def srun(words: Sequence[Word], program: TrainingProgram) -> Step:
    """srun: tasks on the nodes of an allocation."""
    parsed = SLURM.parse(words[1:])
    given = slurm.allocation(parsed, program.allocation)
    program = noted(parsed, program, "srun")
    return parsed.rest, replace(program, allocation=replace(given, started=True))


def axolotl(words: Sequence[Word], program: TrainingProgram) -> Step | None:
    """axolotl train config -- options of its launcher, which is accelerate unless it is named."""
    texts = [word.text for word in words]
    if "--" not in texts:
        return None
    at = texts.index("--")
    name, options = words[0], words[at + 1 :]
    if any(text.removeprefix("--launcher=") == "torchrun" for text in texts[:at]):
        _, program = torchrun([name, *options], program)
    else:
        _, program = accelerate([name, name, *options], program)
    return words[:at], program


def mpirun(words: Sequence[Word], program: TrainingProgram) -> Step:
    """mpirun and mpiexec: so many processes."""
    parsed = MPIRUN.parse(words[1:])
    processes = parsed.get("n")
    tasks = () if processes is None else (counts.counted(processes),)
    given = replace(program.allocation, tasks=tasks, started=True)
    return parsed.rest, replace(noted(parsed, program, "mpirun"), allocation=given)


def noted(parsed: Parsed, program: TrainingProgram, name: str) -> TrainingProgram:
    """The program with the options of what wraps it in their places of the account."""
    irrelevant = [each for key, each in parsed.given if key not in DECIDES_ELSEWHERE]
    elsewhere = [
        (each, DECIDES_ELSEWHERE[key]) for key, each in parsed.given if key in DECIDES_ELSEWHERE
    ]
    program = replace(
        program,
        irrelevant=(*program.irrelevant, *irrelevant),
        unsupported=(*program.unsupported, *elsewhere),
    )
    return with_stray(parsed, program, name)


def with_stray(parsed: Parsed, program: TrainingProgram, name: str) -> TrainingProgram:
    """The program with what stands among the options of `name` and is none of them."""
    stray = [(each, each.unknown or f"{name} has no such option") for each in parsed.stray]
    return replace(program, unsupported=(*program.unsupported, *stray))


def _as_python(parsed: Parsed) -> Sequence[Word]:
    """What a launcher hands to python, as a command line; --no_python starts a program itself."""
    if "no_python" in parsed.options:
        return parsed.rest
    flag = parsed.options.get("module")
    python = (Word("python", "", None),)
    if flag is None:
        return (*python, *parsed.rest)
    return (*python, Word("-m", flag.file, flag.line), *parsed.rest)
