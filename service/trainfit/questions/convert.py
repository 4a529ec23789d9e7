"""From a job to the keys of its framework: the one path, shared by HTTP and the terminal."""

from trainfit.architectures.as_megatron import as_transformer_config
from trainfit.launch.convert.targets import WrittenLaunch, write
from trainfit.questions.dimensions import Find
from trainfit.specs.framework import Megatron
from trainfit.specs.job import Job
from trainfit.specs.launch import LaunchTarget
from trainfit.specs.model import Model


def converted(job: Job, to: LaunchTarget, find: Find) -> WrittenLaunch:
    """The job in those keys. A model of the Hub is written out in Megatron's dimensions.

    Raises RefusedError with every field that the keys cannot say, ConfigError for a model that they
    cannot, and what `find` raises.
    """
    if to == "megatron-args" and job.model.spec is None and isinstance(job.framework, Megatron):
        spec = as_transformer_config(find(job.model).spec)
        job = job.model_copy(update={"model": Model(spec=spec)})
    return write(job, to)
