"""Job -> Plan: every default filled in, and what is inconsistent refused."""

from dataclasses import replace

from trainfit.resolve.defaults import learned_positions
from trainfit.resolve.findings import Findings, put
from trainfit.resolve.gpu import NO_GPU
from trainfit.resolve.narrow import doubts
from trainfit.resolve.not_modelled import refuse_not_modelled
from trainfit.resolve.plan import ModelSource, Plan, TargetGpu
from trainfit.resolve.registry import framework_of
from trainfit.resolve.speed import refuse_impossible
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.job import Job


def resolve(job: Job, model: ModelSpec, source: ModelSource, gpu: TargetGpu = NO_GPU) -> Plan:
    """The Plan of a job for a model that was looked up.

    Raises RefusedError with every finding: an option that is not modelled, a size that does not
    divide, options that contradict each other. Each finding says what would be right.
    """
    findings = Findings()
    refuse_not_modelled(job, findings)
    job = _within_positions(job, model, findings)
    refuse_impossible(job, gpu.name, findings)
    plan = framework_of(job).plan(job, model, source, gpu, findings)
    if doubtful := doubts(job, gpu):
        plan = replace(plan, remarks=plan.remarks + doubtful)
    if job.calibration is None and job.speed is None:
        return plan
    return replace(plan, calibration=job.calibration, speed=job.speed)


def _within_positions(job: Job, model: ModelSpec, findings: Findings) -> Job:
    """Learned positions are rows of a table, of which a longer sequence finds none. Where no length
    is given it is that of the table, if the usual one is longer.
    """
    known = learned_positions(model)
    training = job.training
    if known is None or training.seq_length <= known:
        return job
    if "seq_length" not in training.model_fields_set:
        values = dict(training) | {"seq_length": known}
        within = type(training).model_construct(training.model_fields_set, **values)
        return job.model_copy(update={"training": within})
    pointer = "/training/seq_length"
    message = f"the model has learned {known} positions, and a run ends at the next one"
    findings.add(pointer, "conflict", message, put(pointer, known))
    return job
