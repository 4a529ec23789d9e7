"""In whose keys a job can be written, and what is written then. What writes those of a framework is
loaded where they are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from trainfit.specs.job import Job
from trainfit.specs.launch import LaunchFile, LaunchTarget


@dataclass(frozen=True, slots=True)
class WrittenLaunch:
    """A job in the keys of its framework: arguments of the program, files that it reads, and
    variables of its environment.
    """

    to: LaunchTarget
    arguments: list[str]
    files: list[LaunchFile] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)


def write(job: Job, to: LaunchTarget) -> WrittenLaunch:
    """The job in the keys of a framework. Read back with the same number of GPUs it is the same;
    segments that may grow or not do, as is expected.

    Raises RefusedError with every field that those keys cannot say.
    """
    from trainfit.launch.allocator import VARIABLE, written_allocator

    launch = WRITERS[to](job)
    allocator = written_allocator(job.framework)
    return replace(launch, environment={VARIABLE: allocator}) if allocator else launch


def _megatron(job: Job) -> WrittenLaunch:
    from trainfit.launch.convert.megatron import megatron_arguments

    return WrittenLaunch("megatron-args", megatron_arguments(job))


def _torchtitan(job: Job) -> WrittenLaunch:
    from trainfit.launch.convert.torchtitan import torchtitan_options, torchtitan_toml

    file = LaunchFile(path="train.toml", content=torchtitan_toml(job))
    return WrittenLaunch("torchtitan", torchtitan_options(job), [file])


def _deepspeed(job: Job) -> WrittenLaunch:
    from trainfit.launch.convert.deepspeed import deepspeed_arguments
    from trainfit.launch.convert.transformers import model_files

    words = deepspeed_arguments(job)
    return WrittenLaunch("deepspeed", words, [*model_files(job), _deepspeed_file(job)])


def _accelerate(job: Job) -> WrittenLaunch:
    import yaml

    from trainfit.launch.convert.accelerate import PATH, accelerate_arguments, accelerate_config
    from trainfit.launch.convert.transformers import model_files

    words = accelerate_arguments(job)
    config = accelerate_config(job)
    text = yaml.safe_dump(config, sort_keys=False)
    files = [LaunchFile(path=PATH, content=text), *model_files(job)]
    if "deepspeed_config" in config:
        files.append(_deepspeed_file(job))
    return WrittenLaunch("accelerate", words, files)


def _deepspeed_file(job: Job) -> LaunchFile:
    from trainfit.launch.convert.deepspeed import PATH, deepspeed_config

    text = json.dumps(deepspeed_config(job), indent=2) + "\n"
    return LaunchFile(path=PATH, content=text)


WRITERS: Mapping[LaunchTarget, Callable[[Job], WrittenLaunch]] = {
    "megatron-args": _megatron,
    "torchtitan": _torchtitan,
    "deepspeed": _deepspeed,
    "accelerate": _accelerate,
}
