"""torchao's recipes: what products copy and keep, and what FSDP2 gathers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from trainfit.estimator.frameworks.pytorch.engines.registry import engine_of
from trainfit.estimator.frameworks.pytorch.ledger import PytorchLedger
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
MXFP8 = WIDE | {"fp8_recipe": "mxfp8"}
NVFP4 = WIDE | {"fp4_recipe": "nvfp4"}
ROWS, INPUTS, OUTPUTS = 4096, 8192, 28672


def job(precision: dict[str, Any], **framework: Any) -> Job:
    return Job.model_validate(
        {
            "model": {"hf_id": "meta-llama/Llama-3.1-70B"},
            "parallelism": {"num_gpus": 64},
            "training": {"precision": precision, "recompute": {"granularity": "full"}},
            "framework": {"name": "torchtitan"} | framework,
        }
    )


def plan(precision: dict[str, Any], **framework: Any) -> PytorchPlan:
    resolved = plan_of(job(precision, **framework))
    assert isinstance(resolved, PytorchPlan)
    return resolved


def borrowed(precision: dict[str, Any], lifetime: Lifetime, **framework: Any) -> int:
    return of_readers(("up_proj",), precision, lifetime, **framework)


def of_readers(
    modules: tuple[str, ...], precision: dict[str, Any], lifetime: Lifetime, **framework: Any
) -> int:
    """Bytes of what linears take that read one input."""
    resolved = plan(precision, **framework)
    step = Modules(pytorch_legend_of(resolved), pytorch_way_of(resolved))
    x = step.tensor("x", ROWS, INPUTS)
    for module in modules:
        step.linear(module, x, OUTPUTS)
    rows = [row for product in step.group() for row in product.tensors]
    return sum(row.bytes for row in rows if row.lifetime is lifetime)


def test_what_is_kept_for_backward_stays_wide() -> None:
    kept = [borrowed(each, Lifetime.SAVED) for each in (WIDE, CAST, GATHERED)]
    assert kept == [2 * ROWS * INPUTS] * 3


INPUT, WEIGHT = ROWS * INPUTS, INPUTS * OUTPUTS
WITH_SCALES = {"fp8": Fraction(33, 32), "fp4": Fraction(9, 16)}


@pytest.mark.parametrize(
    ("precision", "compiled", "kept"),
    [
        (MXFP8, False, 2 * INPUT),
        (MXFP8, True, WITH_SCALES["fp8"] * INPUT),
        (NVFP4, False, WITH_SCALES["fp4"] * (2 * INPUT + 2 * WEIGHT)),
        (NVFP4, True, WITH_SCALES["fp4"] * (INPUT + 2 * WEIGHT)),
    ],
    ids=["mxfp8", "mxfp8, compiled", "nvfp4", "nvfp4, compiled"],
)
def test_what_two_linears_keep_of_one_input(
    precision: dict[str, Any], compiled: bool, kept: Fraction
) -> None:
    """What torch 2.13's partitioner saves of a layer of Llama whose casts and products are opaque
    operations, as torchao's are: in mxfp8 one copy of each input by columns, in nvfp4 that and one
    of each weight. autograd's function saves what it says where nothing is compiled.
    """
    modules = ("gate_proj", "up_proj")
    assert of_readers(modules, precision, Lifetime.SAVED, compile=compiled) == kept


@pytest.mark.parametrize("compiled", [False, True])
def test_products_in_fp4_read_both_copies_of_a_gradient(compiled: bool) -> None:
    wide, narrow = (borrowed(each, Lifetime.BACKWARD, compile=compiled) for each in (WIDE, NVFP4))
    assert narrow - wide == 2 * WITH_SCALES["fp4"] * ROWS * OUTPUTS


def test_checkpointing_by_operations_keeps_no_product_in_fp4() -> None:
    """Of aten's operations it keeps _scaled_mm, and mm of mxfp8's tensors, not _scaled_mm_v2: what
    is left is the output of attention [n, a d], with the 4 bytes a head that its kernel keeps.
    """
    kept = {name: chosen(each) for name, each in (("bf16", WIDE), ("8", MXFP8), ("4", NVFP4))}
    tokens, features, heads = 4096, 8192, 64
    assert kept["4"] == tokens * (2 * features + 4 * heads)
    assert kept["8"] == kept["bf16"] > 2 * kept["4"]
    assert chosen(NVFP4 | {"num_layers_at_end_in_bf16": 80}) == kept["bf16"]


def chosen(precision: dict[str, Any]) -> int:
    """Bytes of the outputs that are kept of the last layer."""
    return PytorchLedger(plan(precision, compile=True)).layer_tables[-1].chosen


def test_layers_that_stay_wide_keep_what_bf16_does() -> None:
    """Between all layers and none lies each number of them."""

    def allocated(last: int) -> float:
        precision = NVFP4 | {"num_layers_at_end_in_bf16": last}
        training = {"precision": precision, "recompute": {"granularity": "selective"}}
        asked = job(precision).model_dump(exclude_unset=True)
        asked["training"] = training
        return answer(Job.model_validate(asked)).stages[0].allocated_bytes.expected

    few, some, all_ = allocated(0), allocated(12), allocated(80)
    assert few < some < all_


@pytest.mark.parametrize(
    ("precision", "framework", "words"),
    [
        (WIDE | {"fp8_recipe": "blockwise"}, "torchtitan", "blockwise under torchtitan"),
        (MXFP8, "transformers", "mxfp8 under transformers"),
        (NVFP4, "transformers", "nvfp4 under transformers"),
        (MXFP8 | NVFP4, "torchtitan", "without an fp8_recipe"),
        (WIDE | {"num_layers_at_end_in_bf16": 2}, "torchtitan", "need an fp8_recipe"),
        (MXFP8 | {"fp8_param_gather": True}, "torchtitan", "fp8_recipe is tensorwise"),
    ],
)
def test_what_torchao_does_not_run_is_refused(
    precision: dict[str, Any], framework: str, words: str
) -> None:
    with pytest.raises(RefusedError, match=words):
        plan(precision, name=framework)


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


def experts(lifetime: Lifetime, recipe: str | None, operation: str, **framework: Any) -> int:
    """Bytes of a grouped product of DeepSeek-V3's experts, of which a rank has one in eight."""
    document = {
        "model": {"hf_id": "deepseek-ai/DeepSeek-V3"},
        "parallelism": {"num_gpus": 64, "ep": 8},
        "training": {"seq_length": ROWS, "micro_batch_size": 1, "moe": {"fp8_recipe": recipe}},
        "framework": {"name": "torchtitan"} | framework,
    }
    resolved = plan_of(Job.model_validate(document))
    assert isinstance(resolved, PytorchPlan)
    kinds = PytorchLedger(resolved).kinds
    every = [each for groups in kinds for group in groups for each in group]
    found = next(each for each in every if each.name == operation)
    return sum(row.bytes for row in found.tensors if row.lifetime is lifetime)


@pytest.mark.parametrize("compiled", [False, True])
def test_grouped_products_copy_rows_and_matrices(compiled: bool) -> None:
    """33 bytes for 32 elements. A compiled graph keeps the rows by columns, in place of the rows,
    and copies less backward.
    """
    rows, h, f, each = 8 * ROWS, 7168, 2048, Fraction(33, 32)

    def more(lifetime: Lifetime, operation: str) -> int:
        narrow, wide = (
            experts(lifetime, recipe, operation, compile=compiled) for recipe in ("mxfp8", None)
        )
        return narrow - wide

    matrices = each * 32 * h * f
    assert more(Lifetime.FORWARD, "experts_w1") == each * rows * h + matrices
    assert more(Lifetime.BACKWARD, "experts_fc2") == max(
        each * rows * h + matrices, each * rows * (h + f * (not compiled))
    )
    assert more(Lifetime.SAVED, "experts_w1") == (each - 2) * rows * h * compiled
