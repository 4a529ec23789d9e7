"""What holds for every job: sums, monotony, determinism.

Where neither reserved nor device bytes are looked at, the allocator is not replayed: that would be
nine tenths of the time.
"""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.estimator.jobs import jobs, plans
from trainfit.estimator.estimate import estimate
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.parameters import count_parameters
from trainfit.estimator.peak import chunk_activations
from trainfit.estimator.placement import place
from trainfit.estimator.results import Estimate, Stage
from trainfit.questions.estimate import answer, plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.specs.job import Job

IN_ALLOCATOR = 6
"""Components before allocator slack."""


def weights_count(stage: Stage) -> int:
    return stage.components[0].parameter_count


def most_parameters(result: Estimate) -> int:
    return max(stage.components[0].parameter_count_per_gpu for stage in result.stages)


@given(plans())
@settings(max_examples=30)
def test_components_sum_to_the_total_and_intervals_are_nested_on_every_stage(
    plan: MegatronPlan,
) -> None:
    for stage in estimate(plan).stages:
        sizes = [component.bytes for component in stage.components]
        assert sum(sizes[:IN_ALLOCATOR]) == stage.allocated_bytes.expected
        assert sum(sizes[: IN_ALLOCATOR + 1]) == stage.reserved_bytes.expected
        assert sum(sizes) == stage.device_bytes.expected
        assert min(sizes) >= 0
        for interval in (stage.allocated_bytes, stage.reserved_bytes, stage.device_bytes):
            assert interval.low <= interval.expected <= interval.high
        assert stage.allocated_bytes.high <= stage.reserved_bytes.high <= stage.device_bytes.high


@given(plans())
def test_stages_sum_to_the_model(plan: MegatronPlan) -> None:
    """Besides the published parameters there are: padded rows, the copy of a tied head on the
    last stage, multi-token prediction and the embedding that it brings along.
    """
    spec, counts = plan.model, count_parameters(plan.model)
    rows, tied, alone = plan.vocabulary_rows, spec.output_layer.tied, plan.layout.pipeline.pp == 1
    padding = (rows - spec.embedding.rows) * spec.hidden_size
    extra = counts.mtp + padding * (1 if tied else 2)
    matrix = rows * spec.hidden_size
    if not alone and plan.mtp_layers:
        extra += matrix + spec.embedding.position_rows * spec.hidden_size
    elif not alone and tied:
        extra += matrix
    assert sum(map(weights_count, estimate(plan, replay=False).stages)) == counts.total + extra


@given(plans())
def test_every_layer_lies_on_one_chunk(plan: MegatronPlan) -> None:
    stages = estimate(plan, replay=False).stages
    layers = [layer for stage in stages for chunk in stage.chunks for layer in chunk.layers]
    assert sorted(layers) == list(range(plan.model.num_layers))
    assert sum(chunk.embedding for stage in stages for chunk in stage.chunks) == 1
    assert sum(chunk.output_layer for stage in stages for chunk in stage.chunks) == 1


@given(plans())
def test_chunks_sum_to_the_parameters_of_a_gpu(plan: MegatronPlan) -> None:
    for stage in estimate(plan, replay=False).stages:
        here = stage.components[0].parameter_count_per_gpu
        assert sum(chunk.parameters for chunk in stage.chunks) == here


@given(jobs(), st.sampled_from([2, 4]))
def test_more_tensor_parallelism_never_raises_parameters(job: Job, factor: int) -> None:
    """With the optimizer unsharded and the experts left where they are. Padding is by tp, so the
    rows of the vocabulary are those that divide anyway.
    """
    given_ = job.parallelism
    wider = given_.model_copy(
        update={
            "tp": given_.tp * factor,
            "num_gpus": None,
            "etp": given_.etp,
            "sequence_parallel": True,
        }
    )
    spec = job.model.spec
    assert spec is not None
    model = job.model.model_copy(update={"spec": spec.model_copy(update={"vocab_size": 8192})})
    try:
        narrow = answer(job.model_copy(update={"model": model}), replay=False)
        wide = answer(job.model_copy(update={"model": model, "parallelism": wider}), replay=False)
    except RefusedError:
        return
    assert most_parameters(wide) <= most_parameters(narrow)


@given(jobs())
@settings(max_examples=30)
def test_an_estimate_is_deterministic(job: Job) -> None:
    assert answer(job) == answer(Job.model_validate_json(job.model_dump_json(exclude_unset=True)))


@given(plans())
def test_sharding_the_optimizer_never_costs(plan: MegatronPlan) -> None:
    unsharded = replace(
        plan, layout=replace(plan.layout, optimizer_shards=1, expert_optimizer_shards=1)
    )
    less, more = (estimate(each, replay=False).stages for each in (plan, unsharded))
    for sharded, whole in zip(less, more, strict=True):
        assert sharded.allocated_bytes.expected <= whole.allocated_bytes.expected


@given(plans())
def test_recompute_never_keeps_more(plan: MegatronPlan) -> None:
    """What a chunk keeps for backward. The peak of a small model is often elsewhere."""
    policy = replace(plan.step.recompute, full="none", modules=frozenset[str]())
    everything = replace(plan, step=replace(plan.step, recompute=policy))
    ledger = framework_of(plan).ledger
    some, all_ = ledger(plan), ledger(everything)
    for rank in place(plan):
        for chunk in rank:
            kept = chunk_activations(some, chunk.content).saved
            assert kept <= chunk_activations(all_, chunk.content).saved


@given(plans())
@settings(max_examples=30)
def test_without_activations_only_standing_bytes_remain(plan: MegatronPlan) -> None:
    for stage in estimate(plan, activations=False).stages:
        assert stage.components[3].bytes == 0
        assert stage.peak.moment == "optimizer_step"


@given(jobs())
@settings(max_examples=30)
def test_more_microbatches_than_the_pipeline_holds_change_nothing(job: Job) -> None:
    few = job.training.model_copy(update={"num_microbatches": 64})
    many = job.training.model_copy(update={"num_microbatches": 4096})
    one = estimate(plan_of(job.model_copy(update={"training": few})), replay=False)
    other = estimate(plan_of(job.model_copy(update={"training": many})), replay=False)
    assert [s.allocated_bytes for s in one.stages] == [s.allocated_bytes for s in other.stages]
