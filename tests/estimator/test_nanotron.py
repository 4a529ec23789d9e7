"""What nanotron keeps, by the formulas of its source; its published peaks stand in
tests/accuracy/test_nanotron_runs.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from math import ceil, prod
from typing import Any

import pytest

from trainfit.estimator.estimate import estimate
from trainfit.estimator.frameworks.nanotron.ledger import NanotronLedger
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.ledger import Lifetime
from trainfit.estimator.local_parameters import ParameterTable, divided_model
from trainfit.estimator.placement import place
from trainfit.estimator.results import Estimate, Stage
from trainfit.estimator.tree import Module, module_tree
from trainfit.questions.estimate import plan_of
from trainfit.resolve.nanotron.plan import NanotronPlan
from trainfit.specs.job import Job

S, B, H, A, G, D, F, V, L = 2048, 2, 1024, 16, 4, 64, 4096, 32_000, 8
MODEL = {
    "num_layers": L,
    "hidden_size": H,
    "num_attention_heads": A,
    "num_query_groups": G,
    "ffn_hidden_size": F,
    "vocab_size": V,
    "position_embedding_type": "rope",
    "normalization": "RMSNorm",
    "swiglu": True,
    "add_bias_linear": False,
    "untie_embeddings_and_output_weights": True,
}
SCATTERED = {"sequence_parallel": True}


def plan(
    parallelism: dict[str, Any],
    training: dict[str, Any] | None = None,
    framework: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
) -> NanotronPlan:
    sizes = {"micro_batch_size": B, "seq_length": S, "num_microbatches": 8}
    found = plan_of(
        Job.model_validate(
            {
                "model": {"spec": MODEL | (model or {})},
                "parallelism": parallelism,
                "training": sizes | (training or {}),
                "framework": {"name": "nanotron"} | (framework or {}),
                "gpu": "H100-80GB",
            }
        )
    )
    assert isinstance(found, NanotronPlan)
    return found


def priced(*parts: Any, **more: Any) -> Estimate:
    return estimate(plan(*parts, **more))


def component(stage: Stage, name: str) -> int:
    return next(each.bytes for each in stage.components if each.name == name)


def saved_by_a_layer(of: NanotronPlan) -> int:
    (chunk, *_), *_ = place(of)
    segments = NanotronLedger(of).segments(chunk.content)
    return next(each.segment.saved for each in segments if each.layer == 0)


def expected_of_a_layer(t: int, shard: int, b: int) -> int:
    """The table of a layer: norms' inputs with their root mean squares, their outputs, q, keys with
    values, the kernel's output and logsumexp, gate and up, silu(gate), their product. A copy of the
    kernel's output, tokens before samples, where there are several and PyTorch's own product runs.
    """
    n = S * b
    of_residual = 2 * (2 * n * H // shard + 4 * n // shard) + 2 * 2 * n * H // shard
    attention = (2 * n * A * D + 2 * n * 2 * G * D + 2 * n * A * D + 4 * n * A) // t
    copy = 2 * n * A * D // t if b > 1 else 0
    return of_residual + attention + copy + (2 * n * 2 * F + 2 * n * F + 2 * n * F) // t


@pytest.mark.parametrize("b", [1, 2])
@pytest.mark.parametrize("t", [1, 4])
def test_what_a_layer_saves(t: int, b: int) -> None:
    size = {"micro_batch_size": b}
    assert saved_by_a_layer(plan({"tp": t}, size)) == expected_of_a_layer(t, 1, b)
    scattered = plan({"tp": t} | SCATTERED, size)
    assert saved_by_a_layer(scattered) == expected_of_a_layer(t, t, b)


def test_an_asynchronous_linear_keeps_a_view() -> None:
    alone = plan({"tp": 4} | SCATTERED, None, {"tp_linear_async_communication": True})
    assert saved_by_a_layer(alone) == expected_of_a_layer(4, 4, B) - 2 * S * B * A * D // 4


def test_inputs_that_are_not_gathered_again_are_kept_gathered() -> None:
    kept = plan({"tp": 4} | SCATTERED, None, {"tp_recompute_allgather": False})
    more = 2 * (2 * S * B * H) * 3 // 4
    assert saved_by_a_layer(kept) == expected_of_a_layer(4, 4, B) + more


def test_a_recomputed_layer_keeps_its_input() -> None:
    again = plan({"tp": 4} | SCATTERED, {"recompute": {"granularity": "full"}})
    assert saved_by_a_layer(again) == 2 * S * B * H // 4


def parameters_of_a_rank(stage: Stage) -> int:
    return sum(chunk.parameters for chunk in stage.chunks)


@pytest.mark.parametrize(
    ("zero", "shared"), [(False, 12), (True, 12 / 8)], ids=["zero 0", "zero 1"]
)
def test_states_in_fp32(zero: bool, shared: float) -> None:
    """ZeRO shares out master weights and moments, and never the buffer of gradients."""
    asked = {"num_gpus": 8, "use_distributed_optimizer": zero}
    (stage,) = priced(asked).stages
    here = parameters_of_a_rank(stage)
    assert component(stage, "weights") == 2 * here
    assert component(stage, "gradients") == 4 * here
    assert component(stage, "optimizer_states") == pytest.approx(shared * here, abs=12)


def test_states_without_accumulation_in_fp32_are_bf16() -> None:
    (stage,) = priced({"num_gpus": 1}, {"precision": "bf16-pure"}).stages
    here = parameters_of_a_rank(stage)
    assert component(stage, "gradients") == 2 * here
    assert component(stage, "optimizer_states") == 4 * here


@pytest.mark.parametrize(
    ("num_gpus", "zero", "precision", "buckets"),
    [
        (1, False, "bf16", 0),
        (8, False, "bf16", 2),
        (8, True, "bf16", 0),
        (8, True, "bf16-pure", 2),
    ],
)
def test_ddp_has_buckets_unless_zero_reduces_in_fp32(
    num_gpus: int, zero: bool, precision: str, buckets: int
) -> None:
    asked = {"num_gpus": num_gpus, "use_distributed_optimizer": zero}
    (stage,) = priced(asked, {"precision": precision}).stages
    tables = L * 2 * S * D
    here = parameters_of_a_rank(stage)
    assert component(stage, "framework_buffers") == buckets * here + tables


def test_gathered_inputs_and_gradients_have_buffers() -> None:
    def buffers(**framework: bool) -> int:
        (stage,) = priced({"tp": 4} | SCATTERED, None, framework).stages
        return component(stage, "framework_buffers") - L * 2 * S * D

    each = 2 * S * B * H
    assert buffers() == each
    assert buffers(tp_linear_async_communication=True) == 2 * each
    assert buffers(tp_recompute_allgather=False) == 0


def test_gradients_stay_until_the_backward_of_a_micro_batch_ends() -> None:
    """At its end those of all weights are there in bf16, beside the buffer in fp32."""
    of = plan({"pipeline_schedule": "1f1b"}, {"seq_length": 16, "micro_batch_size": 1})
    told = framework_of(of).timeline(of, 0)
    assert told is not None
    (stage,) = estimate(of).stages
    here = parameters_of_a_rank(stage)
    highest = max(each.highest_bytes for each in told.passes if each.direction == "backward")
    assert 2 * here <= highest <= 2 * here + 2**21


def test_in_bf16_they_stay_for_the_whole_step_and_are_added_up_in_place() -> None:
    size = {"seq_length": 16, "micro_batch_size": 1, "precision": "bf16-pure"}
    of = plan({"pipeline_schedule": "1f1b"}, size)
    told = framework_of(of).timeline(of, 0)
    assert told is not None
    largest = 2 * V * H
    highest = max(each.highest_bytes for each in told.passes)
    assert largest <= highest <= largest + 2**23


@pytest.mark.parametrize(
    ("schedule", "flying"), [(None, [8, 8, 8, 8]), ("gpipe", [8] * 4), ("1f1b", [4, 3, 2, 1])]
)
def test_micro_batches_in_flight(schedule: str | None, flying: list[int]) -> None:
    stages = priced({"pp": 4, "pipeline_schedule": schedule}, model={"num_layers": 16}).stages
    assert [stage.microbatches_in_flight for stage in stages] == flying


def test_all_micro_batches_are_in_flight_without_a_pipeline_too() -> None:
    """The engine is asked for either way: afab runs all forwards first."""
    (usual,), (alternating,) = (
        priced({"pipeline_schedule": schedule}).stages for schedule in (None, "1f1b")
    )
    assert (usual.microbatches_in_flight, alternating.microbatches_in_flight) == (8, 1)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("recompute", [{}, {"granularity": "full"}])
def test_the_highest_pass_is_the_peak(schedule: str, recompute: dict[str, str]) -> None:
    asked = {"pp": 4, "tp": 2, "pipeline_schedule": schedule} | SCATTERED
    of = plan(asked, {"recompute": recompute}, model={"num_layers": 16})
    framework = framework_of(of)
    for number, stage in enumerate(estimate(of).stages):
        told = framework.timeline(of, number)
        assert told is not None
        assert told.passes[-1].kept_bytes == 0
        held = component(stage, "activations") + component(stage, "workspace")
        workspaces = 2 * 33_554_432
        assert max(each.highest_bytes for each in told.passes) == held - workspaces


def test_zero_gathers_all_weights_in_one_piece_at_the_end_of_the_step() -> None:
    """Its own share, all ranks' shares and what NCCL writes them from; the last gets a segment of
    its own.
    """
    asked = {"num_gpus": 8, "use_distributed_optimizer": True}
    small = {"seq_length": 16, "micro_batch_size": 1}
    (stage,) = priced(asked, small).stages
    here = parameters_of_a_rank(stage)
    assert stage.peak.moment == "optimizer_step"
    workspaces = 2 * 33_554_432
    step = 2 * ceil(here / 8) + 2 * 2 * here
    assert component(stage, "workspace") == step + workspaces
    (long,) = priced(asked).stages
    (growing,) = priced(asked, None, {"expandable_segments": True}).stages
    assert long.peak.moment != "optimizer_step"
    flat = 2 * parameters_of_a_rank(long)
    allocated = long.allocated_bytes.expected
    assert component(long, "allocator_slack") == flat + allocated * 4 // 100
    assert component(growing, "allocator_slack") == allocated // 100


def test_foreach_borrows_a_denominator() -> None:
    small = {"seq_length": 16, "micro_batch_size": 1}
    (stage,) = priced({"num_gpus": 1}, small, {"torch_adam_is_fused": False}).stages
    assert stage.peak.moment == "optimizer_step"
    assert component(stage, "workspace") == 4 * parameters_of_a_rank(stage) + 2 * 33_554_432


def tensors(module: Module) -> Iterator[Any]:
    yield from module.tensors
    yield from chain.from_iterable(map(tensors, module.children))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("parallelism", [{}, {"tp": 2}, {"tp": 4} | SCATTERED, {"pp": 2}])
def test_bytes_are_shape_times_width(parallelism: dict[str, Any], tied: bool) -> None:
    untied = {"untie_embeddings_and_output_weights": not tied}
    of = plan(parallelism, model=untied)
    ranks = range(of.layout.pipeline.pp)
    found = list(chain.from_iterable(tensors(module_tree(of, rank)) for rank in ranks))
    assert len(found) > 40
    for each in found:
        assert each.shape is not None
        assert each.bytes == prod(each.shape) * each.element_bytes


def test_the_tree_of_a_stage_saves_what_its_forward_does() -> None:
    of = plan({"pp": 2, "tp": 2})
    table, ledger = ParameterTable(divided_model(of)), NanotronLedger(of)
    for rank, (chunk,) in enumerate(place(of)):
        tree = module_tree(of, rank)
        assert tree.parameters == table.chunk(chunk.content).all.whole
        assert tree.saved_bytes == sum(
            each.segment.saved for each in ledger.segments(chunk.content)
        )


def test_every_weight_leaves_its_gradient() -> None:
    """In bf16, of the rows and columns that a rank has."""
    of = plan({"tp": 2} | SCATTERED)
    ledger = NanotronLedger(of)
    ((chunk,),) = place(of)
    left = sum(each.segment.gradients for each in ledger.segments(chunk.content))
    assert left == 2 * ParameterTable(divided_model(of)).chunk(chunk.content).all.dense
    rows = chain.from_iterable(op.tensors for group in ledger.head() for op in group)
    assert [r.bytes for r in rows if r.lifetime is Lifetime.GRADIENT] == [2 * V * H // 2]
