"""Programs that ran once, worked out for other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.estimator.jobs import plans
from trainfit.estimator.arithmetic import Number, RecordedArithmetic, Recording, recording
from trainfit.estimator.compiled import Compiled, compiled
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.layers import sublayer_groups
from trainfit.estimator.frameworks.megatron.programs import added_up
from trainfit.estimator.frameworks.pytorch.begun import Begun
from trainfit.estimator.frameworks.pytorch.conventions import conventions_of
from trainfit.estimator.frameworks.pytorch.tables import end_tables, layer_table
from trainfit.estimator.legend import PytorchLegend, pytorch_legend_of
from trainfit.estimator.run import pytorch_way_of, run_of
from trainfit.estimator.segment import add_up
from trainfit.questions.estimate import plan_of
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.job import Job


def written(a: int, b: int) -> tuple[RecordedArithmetic, Number, Number]:
    found = RecordedArithmetic()
    return found, found.input(a), found.input(b)


def followed(found: RecordedArithmetic, *results: Number) -> Recording:
    return recording(found, 2, results)[0]


def test_arithmetic_is_done_again_with_other_numbers() -> None:
    found, a, b = written(6, 4)
    steps, (at,) = recording(found, 2, [(3 * a * b) // 5 + b - 1])
    for x, y in ((6, 4), (1, 1), (7, 9)):
        values = steps.again([x, y])
        assert values is not None
        assert values[at] == 3 * x * y // 5 + y - 1


def test_what_is_made_twice_is_written_once_and_what_leads_nowhere_not_at_all() -> None:
    found, a, b = written(6, 4)
    assert (a * b).place == (a * b).place
    assert len(followed(found, a * b).steps) == 1
    assert not followed(found, a).steps


def test_numbers_by_which_another_recording_is_made_are_found_out() -> None:
    found, a, b = written(6, 4)
    steps = followed(found, max(a, b))
    assert steps.again([2, 1]) is not None
    assert steps.again([1, 2]) is None


def test_what_is_above_zero_anyway_decides_nothing() -> None:
    found, a, b = written(6, 4)
    assert a * b + 1
    assert not found.decided
    assert a // b
    assert found.decided


def test_nobody_takes_a_number_for_the_one_that_it_is_now() -> None:
    _, a, _ = written(6, 4)
    takers: list[Callable[[Any], object]] = [int, float, range, hash]
    for taken in takers:
        with pytest.raises(TypeError):
            taken(a)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(plans())
def test_a_compiled_program_comes_to_what_it_leaves_behind(plan: MegatronPlan) -> None:
    """Whatever sizes it was compiled for: each example finds those of the examples before."""
    ledger = MegatronLedger(run_of(plan))
    for layer in plan.model.layer_kinds:
        for each in layer.sublayers:
            found = compiled(added_up, ledger.way, sublayer_groups, each)(ledger.sizes)
            assert found == add_up(ledger.sublayer(each), ledger.dropped)


MODELS = ("google/gemma-3-12b-pt", "gpt2", "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V2-Lite")
LORA = {"method": "lora", "r": 8}
TRAININGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("transformers", {"precision": "bf16-pure", "peft": LORA}),
    (
        "transformers",
        {"precision": "autocast-bf16", "peft": LORA | {"dropout": 0.1, "quantization": "nf4"}},
    ),
    ("transformers", {"attention": {"backend": "eager"}, "loss": {"cross_entropy": "liger"}}),
    ("torchtitan", {"recompute": {"granularity": "selective"}}),
)
SIZES = [(512, 1), (1024, 1), (1024, 3), (256, 1), (700, 2)]
"""Tokens of a sample, and samples: with a window that is shorter, and one that is not."""


def asked(
    model: str, framework: str, seq_length: int, samples: int, **training: Any
) -> PytorchPlan:
    plan = plan_of(
        Job.model_validate(
            {
                "model": {"hf_id": model},
                "parallelism": {"num_gpus": 1},
                "training": {"seq_length": seq_length, "micro_batch_size": samples, **training},
                "framework": {"name": framework},
            }
        )
    )
    assert isinstance(plan, PytorchPlan)
    return plan


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("framework", "training"), TRAININGS)
def test_compiled_modules_come_to_what_they_leave_behind(
    model: str, framework: str, training: dict[str, Any]
) -> None:
    """Whatever sizes they were compiled for, and where gradients begin within them or before."""
    plans = [asked(model, framework, *sizes, **training) for sizes in SIZES]
    way, conventions, spec = pytorch_way_of(plans[0]), conventions_of(plans[0]), plans[0].model
    assert {pytorch_way_of(each) for each in plans} == {way}
    begun: tuple[Begun, ...] = ("before", "within", "behind")
    works: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (layer_table, (conventions.experts, layer, each))
        for layer in spec.layer_kinds
        for each in begun
    ]
    works.append((end_tables, (spec.final_norms, conventions.loss_in_forward)))
    for work, given_ in works:
        made: Compiled[PytorchLegend, Any] = compiled(work, way, *given_)
        for plan in plans:
            sizes = pytorch_legend_of(plan)
            for _ in range(2):  # one is written down when it is asked for twice
                assert made(sizes) == work(sizes, way, *given_)
        assert made._recordings
