"""Engines of data parallelism: what each gathers, reduces and keeps of one unit."""

from typing import Any

import pytest

from trainfit.estimator.frameworks.pytorch.engines.engine import Stage
from trainfit.estimator.frameworks.pytorch.engines.registry import engine_of
from trainfit.estimator.frameworks.pytorch.states import Numbers, States
from trainfit.questions.estimate import plan_of
from trainfit.resolve.plan import PytorchPlan
from trainfit.specs.job import Job

RANKS, PARAMETERS = 8, 8_000
NUMBERS = Numbers(
    dense=PARAMETERS, expert=0, frozen_matrices=0, frozen=0, trained_matrices=PARAMETERS
)
STAGE = Stage(NUMBERS, NUMBERS, largest=1_000, undivided=0)
STATES = States(weights=0, gradients=111, optimizer=0, step=0)
BF16 = 2


def plan(engine: str, sharding: str, *, micro_batches: int = 1, **switches: Any) -> PytorchPlan:
    """A plan of eight ranks under transformers, with an engine and what it shards."""
    job = {
        "model": {"hf_id": "Qwen/Qwen3-8B"},
        "parallelism": {"num_gpus": RANKS, "data_parallel_sharding_strategy": sharding},
        "training": {"precision": "bf16", "num_microbatches": micro_batches},
        "framework": {"name": "transformers", "data_parallel_engine": engine} | switches,
        "gpu": "H200",
    }
    made = plan_of(Job.model_validate(job))
    assert isinstance(made, PytorchPlan)
    return made


def test_ddp_has_buckets_beside_the_gradients_or_in_their_place() -> None:
    beside = engine_of(plan("ddp", "no_shard"))
    width = plan("ddp", "no_shard").step.states.gradients
    assert beside.unit(NUMBERS).gradients == width * PARAMETERS
    assert beside.buffers(STAGE) == width * PARAMETERS
    views = engine_of(plan("ddp", "no_shard", gradient_as_bucket_view=True))
    assert views.unit(NUMBERS).gradients == 0
    assert views.buffers(STAGE) == 0
    assert views.accumulated(NUMBERS, STATES).whole == STATES.gradients


@pytest.mark.parametrize("engine", ["fsdp1", "fsdp2"])
def test_fsdp_gathers_all_of_a_unit_and_leaves_a_share_of_its_gradients(engine: str) -> None:
    of = plan(engine, "optim_grads_params")
    unit, states = engine_of(of).unit(NUMBERS), of.step.states
    assert unit.weights == unit.all_gather == states.gathered * PARAMETERS
    assert unit.gradients == states.gradients * PARAMETERS // RANKS
    assert engine_of(of).buffers(STAGE) == 0


def test_fsdp_adds_gradients_up_unsharded_unless_it_reduces_each_time() -> None:
    of = plan("fsdp2", "optim_grads_params", micro_batches=4)
    reduced = of.step.states.reduced * PARAMETERS
    waiting = engine_of(of).accumulated(NUMBERS, STATES)
    assert (waiting.whole, waiting.sharded) == (reduced, 0)
    assert engine_of(of).unit(NUMBERS).accumulated == reduced
    each = plan("fsdp2", "optim_grads_params", micro_batches=4, sync_each_micro_batch=True)
    assert engine_of(each).accumulated(NUMBERS, STATES).sharded == STATES.gradients
    assert engine_of(each).unit(NUMBERS).accumulated == 0


def test_only_fsdp2_copies_gradients_that_are_of_the_type_in_which_they_are_reduced() -> None:
    copied, in_place = (plan(each, "optim_grads_params") for each in ("fsdp2", "fsdp1"))
    same = copied.step.states.gathered == copied.step.states.reduced
    assert engine_of(copied).unit(NUMBERS).reduce_scatter > 0
    assert (engine_of(in_place).unit(NUMBERS).reduce_scatter == 0) == same


def test_zero_shards_one_state_more_with_each_stage() -> None:
    stages = [plan("deepspeed", each) for each in ("optim", "optim_grads", "optim_grads_params")]
    width = stages[0].step.states.gradients
    first, second, third = map(engine_of, stages)
    assert first.unit(NUMBERS).gradients == width * PARAMETERS
    assert second.unit(NUMBERS).gradients == width * PARAMETERS // RANKS
    assert third.unit(NUMBERS).gradients == 0
    assert third.accumulated(NUMBERS, STATES).sharded == STATES.gradients
    assert third.buffers(STAGE) > first.buffers(STAGE) == second.buffers(STAGE) == 0


def test_offloading_sends_gradients_by_way_of_a_buffer() -> None:
    on_host = engine_of(plan("deepspeed", "optim_grads", deepspeed={"offload_optimizer": True}))
    assert on_host.unit(NUMBERS).gradients == 0
    assert on_host.buffers(STAGE) == BF16 * STAGE.largest
