"""torchao's float8: what products copy, and what FSDP2 gathers."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.estimator.frameworks.pytorch.engines.registry import engine_of
from trainfit.estimator.frameworks.pytorch.states import shares_of
from trainfit.estimator.frameworks.pytorch.units import Unit
from trainfit.estimator.ledger import Lifetime
from trainfit.estimator.legend import pytorch_legend_of
from trainfit.estimator.local_parameters import ParameterTable, divided_model
from trainfit.estimator.memo import Memo
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.run import pytorch_way_of
from trainfit.questions.estimate import answer, plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.job import Job

WIDE: dict[str, Any] = {"params": "fp32", "compute": "bf16"}
CAST = WIDE | {"fp8_recipe": "tensorwise"}
GATHERED = CAST | {"fp8_param_gather": True}
ROWS, INPUTS, OUTPUTS = 4096, 8192, 28672


def job(precision: dict[str, Any], **framework: Any) -> Job:
    return Job.model_validate(
        {
            "model": {"hf_id": "meta-llama/Llama-3.1-70B"},
            "parallelism": {"num_gpus": 64},
            "training": {"precision": precision, "recompute": {"granularity": "full"}},
            "framework": {"name": "torchtitan", **framework},
        }
    )


def plan(precision: dict[str, Any], **framework: Any) -> PytorchPlan:
    resolved = plan_of(job(precision, **framework))
    assert isinstance(resolved, PytorchPlan)
    return resolved


def borrowed(precision: dict[str, Any], lifetime: Lifetime, **framework: Any) -> int:
    resolved = plan(precision, **framework)
    step = Modules(pytorch_legend_of(resolved), pytorch_way_of(resolved))
    step.linear("up_proj", step.tensor("x", ROWS, INPUTS), OUTPUTS)
    (product,) = step.group()
    return sum(tensor.bytes for tensor in product.tensors if tensor.lifetime is lifetime)


def test_what_is_kept_for_backward_stays_wide() -> None:
    kept = [borrowed(each, Lifetime.SAVED) for each in (WIDE, CAST, GATHERED)]
    assert kept == [2 * ROWS * INPUTS] * 3


@pytest.mark.parametrize(("compiled", "casts"), [(False, 2), (True, 1)])
def test_products_read_copies_of_a_byte_an_element(compiled: bool, casts: int) -> None:
    wide, narrow = (borrowed(each, Lifetime.BACKWARD, compile=compiled) for each in (WIDE, CAST))
    weight = INPUTS * OUTPUTS
    assert narrow - wide == casts * ROWS * OUTPUTS + ROWS * INPUTS + weight
    assert borrowed(GATHERED, Lifetime.BACKWARD, compile=compiled) == narrow - weight


def test_matrices_of_layers_are_gathered_in_half() -> None:
    """All of a layer but its norms, 2 x 8192."""
    wide, narrow = map(unit_of_a_layer, (CAST, GATHERED))
    norms = 2 * 8192
    assert wide.weights - norms * 2 == 2 * (narrow.weights - norms * 2)
    assert wide.reduce_scatter == narrow.reduce_scatter


def unit_of_a_layer(precision: dict[str, Any]) -> Unit:
    of_job = plan(precision)
    shares = shares_of(of_job, ParameterTable(divided_model(of_job)), Memo())
    return engine_of(of_job).unit(shares.layer(0))


def test_less_is_gathered_at_the_peak() -> None:
    cast, gathered = (answer(job(each)).stages[0].allocated_bytes for each in (CAST, GATHERED))
    assert gathered.expected < cast.expected


@pytest.mark.parametrize(
    ("precision", "words"),
    [
        (WIDE | {"fp8_param_gather": True}, "fp8_recipe is tensorwise"),
        (GATHERED | {"fp8_recipe": "rowwise"}, "fp8_recipe is tensorwise"),
    ],
)
def test_weights_of_other_recipes_are_not_gathered_in_fp8(
    precision: dict[str, Any], words: str
) -> None:
    with pytest.raises(RefusedError, match=words):
        plan(precision)
