"""What programs leave behind."""

from __future__ import annotations

from itertools import chain
from math import prod
from typing import Any

import pytest

from tests.estimator.jobs import megatron_plan
from trainfit.catalog.configs import bundled_ids
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.ledger import Lifetime, Row
from trainfit.estimator.legend import legend_of
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.program import Program
from trainfit.estimator.run import run_of
from trainfit.estimator.tree import Module, module_tree
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.specs.job import Job

LLAMA = "meta-llama/Llama-3.1-8B"


def plan(hf_id: str = LLAMA, training: dict[str, Any] | None = None, **layout: Any) -> MegatronPlan:
    job = {"model": {"hf_id": hf_id}, "parallelism": layout, "training": training or {}}
    return megatron_plan(Job.model_validate(job))


def rows(program: Program) -> dict[str, list[tuple[str, Lifetime]]]:
    """Names and lifetimes of what each operation left behind."""
    return {
        operation.name: [(row.name, row.lifetime) for row in operation.tensors]
        for operation in program.group()
    }


@pytest.fixture
def program() -> Program:
    return Program(legend_of(run_of(plan())))


def test_a_storage_is_saved_once_by_the_first_that_reads_it(program: Program) -> None:
    x = program.tensor("x", 2, 3)
    program.operation("first", saves=(x,))
    program.operation("second", saves=(x,))
    assert rows(program) == {"first": [("x", Lifetime.SAVED)], "second": []}


def test_an_output_that_nobody_saves_is_alive_while_its_operation_runs(program: Program) -> None:
    y, z = program.tensor("y", 2), program.tensor("z", 2)
    program.operation("makes", makes=(y, z))
    program.operation("reads", saves=(z,))
    assert rows(program) == {
        "makes": [("y", Lifetime.FORWARD)],
        "reads": [("z", Lifetime.SAVED)],
    }


def test_what_is_held_is_not_counted_beside_what_is_saved(program: Program) -> None:
    x, y = program.tensor("x", 2), program.tensor("y", 2)
    program.operation("sends", holds=(x, y))
    program.operation("reads", saves=(x,))
    assert rows(program) == {"sends": [("y", Lifetime.HELD)], "reads": [("x", Lifetime.SAVED)]}


def test_a_module_makes_again_what_was_made_within_it(program: Program) -> None:
    x = program.tensor("x", 2)
    with program.module("outer"):
        y = program.tensor("y", 2, dropped_by=("own",))
        with program.module("inner"):
            z = program.tensor("z", 2)
            program.operation("reads", saves=(x, y, z))
    (operation,) = program.group()
    assert operation.modules == ("outer", "inner")
    dropped = {row.name: row.dropped_by for row in operation.tensors}
    assert dropped == {"x": (), "y": ("outer", "own"), "z": ("outer", "inner")}


def test_all_linears_share_one_copy_in_fp8() -> None:
    in_fp8 = plan(training={"precision": "fp8"})
    step = TransformerEngine(legend_of(run_of(in_fp8)), run_of(in_fp8).way)
    x = step.tensor("x", 4, 4)
    assert tuple(step.reads(x)) == tuple(step.reads(x)) != (x,)
    assert all(each.bytes < x.bytes for each in step.reads(x))


def kept(module: Module) -> list[tuple[str, int, tuple[int, ...] | None, float | None]]:
    own = [(each.name, each.bytes, each.shape, each.element_bytes) for each in module.tensors]
    return own + list(chain.from_iterable(map(kept, module.children)))


LAYOUTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"num_gpus": 64}, {"attention": {"backend": "unfused"}}),
    ({"num_gpus": 64, "tp": 2, "cp": 2}, {"precision": "fp8"}),
]


@pytest.mark.parametrize(("layout", "training"), LAYOUTS)
def test_bytes_are_shape_times_width(layout: dict[str, Any], training: dict[str, Any]) -> None:
    """In every row of every bundled model that Megatron runs."""
    seen = 0
    for hf_id in bundled_ids():
        try:
            asked = plan(hf_id, training, **layout)
        except ValueError:
            continue
        for name, size, shape, width in kept(module_tree(asked, 0)):
            assert shape is not None, (hf_id, name)
            assert width is not None
            assert size - 1 < prod(shape) * width <= size, (hf_id, name)
            seen += 1
    assert seen > 5000


@pytest.mark.parametrize(
    "hf_id", [LLAMA, "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-Next-80B-A3B-Instruct"]
)
def test_symbols_change_no_byte(hf_id: str) -> None:
    asked = plan(hf_id, num_gpus=64, tp=2, cp=2)
    plain, symbolic = MegatronLedger(run_of(asked)), MegatronLedger(run_of(asked), symbolic=True)
    assert plain.layer_segments == symbolic.layer_segments
    of_layers = zip(plain.kinds, symbolic.kinds, strict=True)
    for groups, named in of_layers:
        for row, same in zip(_rows(groups), _rows(named), strict=True):
            assert (row.name, row.bytes, row.lifetime) == (same.name, same.bytes, same.lifetime)


def _rows(groups: Any) -> list[Row]:
    return [row for group in groups for operation in group for row in operation.tensors]


def saved(asked: MegatronPlan) -> dict[str, int]:
    """Bytes that every operation of the first kind of layer saves."""
    return {
        operation.name: sum(r.bytes for r in operation.tensors if r.lifetime is Lifetime.SAVED)
        for operation in chain.from_iterable(MegatronLedger(run_of(asked)).kinds[0])
    }


def test_two_norms_of_one_input_keep_it_once() -> None:
    """Falcon's attention and feed-forward network have norms of their own, of the same x."""
    asked = plan("tiiuae/falcon-40b", num_gpus=8)
    groups = MegatronLedger(run_of(asked)).kinds[0]
    norms = [each for each in chain.from_iterable(groups) if each.name == "norm"]
    inputs = [row for each in norms for row in each.tensors if row.name == "norm input"]
    assert len(norms) == 2
    assert len(inputs) == 1


@pytest.mark.parametrize(("backend", "in_bf16"), [("fused", True), ("unfused", False)])
def test_attention_output_in_bf16_beside_its_copy_in_fp8(backend: str, *, in_bf16: bool) -> None:
    """Only the kernel reads it again in backward; unfused attention does not."""
    asked = plan(training={"precision": "fp8", "attention": {"backend": backend}})
    tensors = [
        row.name
        for row in _rows(MegatronLedger(run_of(asked)).kinds[0])
        if row.lifetime is Lifetime.SAVED
    ]
    assert ("attention output" in tensors) is in_bf16
    assert "attention output in fp8" in tensors


def test_offloaded_rows_are_back_when_their_gradient_is_made() -> None:
    """The weight gradient of fc1 needs them, and nothing before it in forward does."""
    asked = plan(
        "Qwen/Qwen3-30B-A3B",
        {"offload_modules": ["expert_fc1"]},
        num_gpus=8,
        ep=8,
    )
    dropped = {
        operation.name
        for operation in chain.from_iterable(MegatronLedger(run_of(asked)).kinds[0])
        for row in operation.tensors
        if "offload:expert_fc1" in row.dropped_by
    }
    assert dropped == {"experts_fc1"}
