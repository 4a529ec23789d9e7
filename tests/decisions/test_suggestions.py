"""Suggestions keep what they promise, and the first ones make the job fit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decisions.questions import EIGHT_GPUS, checked, question
from tests.estimator.jobs import jobs
from trainfit import estimate
from trainfit import fit_check as fit_check_of
from trainfit.decisions.candidates.candidate import Candidate, Price, together
from trainfit.decisions.candidates.single import candidates
from trainfit.decisions.fit_check import fit_check
from trainfit.decisions.patch import apply
from trainfit.decisions.suggestions import RANK
from trainfit.estimator.estimate import estimate as estimated
from trainfit.estimator.results import Estimate
from trainfit.questions.estimate import MEMOS, plan_of
from trainfit.specs.job import Job
from trainfit.specs.policy import FitCheckRequest

MOST_ESTIMATES = 75


def by_ratio(job: Job) -> Estimate:
    """The estimate of a job whose allocator is not replayed: how suggestions are chosen and what
    they say is the same whatever prices them.
    """
    return estimated(plan_of(job), memo=MEMOS.current(), replay=False)


@st.composite
def questions(draw: st.DrawFn) -> FitCheckRequest:
    """A random job on a card that is about as large as what it needs, or half of it."""
    job = draw(jobs())
    needed = by_ratio(job).binding.device_bytes.expected
    share = draw(st.sampled_from([0.5, 0.8, 1.0]))
    return FitCheckRequest.model_validate(
        {
            **{name: getattr(job, name) for name in job.model_fields_set},
            "gpu": {"memory_bytes": int(needed * share)},
        }
    )


@settings(max_examples=60)
@given(questions())
def test_suggestions_are_sorted_save_what_they_promise_and_take_few_prices(
    request_: FitCheckRequest,
) -> None:
    """To the byte, where what they propose is asked again."""
    calls = 0

    def counted(job: Job) -> Estimate:
        nonlocal calls
        calls += 1
        return by_ratio(job)

    before = fit_check(request_, counted)
    assert calls <= MOST_ESTIMATES
    ranks = [RANK[suggestion.verdict] for suggestion in before.suggestions]
    assert ranks == sorted(ranks)
    assert before.binding is not None
    assert before.suggestions
    again = request_.model_copy(update={"suggest": False})
    for suggestion in before.suggestions:
        after = fit_check(apply(again, suggestion.patch), by_ratio)
        assert after.binding is not None
        saved = before.binding.device_bytes.expected - after.binding.device_bytes.expected
        assert saved == suggestion.saves_bytes > 0
        assert after.verdict == suggestion.verdict
        assert suggestion.cost


def test_one_change_that_makes_it_fit_comes_first() -> None:
    answer = checked(question(EIGHT_GPUS))
    assert answer.verdict == "does_not_fit"
    assert answer.suggestions[0].verdict == "fits"
    assert len(answer.suggestions[0].patch) == 1


def test_a_pair_makes_fit_what_no_single_change_does() -> None:
    request = question(EIGHT_GPUS, gpu="A100-40GB")
    before = checked(request)
    first = before.suggestions[0]
    assert first.verdict == "fits"
    assert len(first.patch) > 1
    after = checked(apply(request, first.patch))
    assert after.verdict == "fits"
    assert before.binding is not None
    assert after.binding is not None
    saved = before.binding.device_bytes.expected - after.binding.device_bytes.expected
    assert saved == first.saves_bytes


def test_no_change_is_suggested_where_the_job_fits() -> None:
    answer = checked(question(EIGHT_GPUS, gpu={"memory_bytes": 2**40}))
    assert answer.verdict == "fits"
    assert answer.suggestions == []


def test_suggestions_leave_the_headroom_free() -> None:
    request = question(EIGHT_GPUS, policy={"headroom_ratio": 0.2})
    for suggestion in checked(request).suggestions:
        if suggestion.verdict == "fits":
            after = checked(apply(request, suggestion.patch))
            assert all(
                stage.margin_bytes.low >= after.policy.headroom_bytes for stage in after.stages
            )


def test_what_makes_it_fit_is_ranked_by_the_time_that_it_costs() -> None:
    job = EIGHT_GPUS | {
        "training": {"seq_length": 8192, "micro_batch_size": 1, "global_batch_size": 64}
    }
    before = estimate(job)
    fitting = [each for each in fit_check_of(job).suggestions if each.verdict == "fits"]
    ratios = [round(each.gpu_time_ratio or 0, 2) for each in fitting]
    assert len(ratios) > 2
    assert ratios == sorted(ratios)
    for each in fitting:
        after = estimate(apply(Job.model_validate(job), each.patch))
        assert after.step_seconds == each.step_seconds
        assert before.step is not None
        assert after.step is not None
        rates = [each.step.tokens_per_second_per_gpu for each in (before, after) if each.step]
        assert each.gpu_time_ratio == pytest.approx(rates[0] / rates[1], abs=1e-4)


def proposed(**parts: object) -> list[Candidate]:
    job = Job.model_validate({"model": {"hf_id": "gpt2"}, **parts})
    return list(candidates(job, 8))


def paths(found: list[Candidate]) -> set[str]:
    return {path for candidate in found for path in candidate.values}


def test_experts_below_adapters_are_quantised_with_the_linears() -> None:
    job = {
        "model": {"hf_id": "Qwen/Qwen3-30B-A3B"},
        "training": {
            "seq_length": 2048,
            "peft": {"method": "lora", "quantization": "nf4", "base_dtype": "bf16"},
            "precision": "autocast-bf16",
            "recompute": {"granularity": "full"},
        },
        "framework": {"name": "transformers"},
        "gpu": "A100-40GB",
    }
    answer = fit_check_of(job)
    assert answer.verdict == "does_not_fit"
    fitting = [each for each in answer.suggestions if each.verdict == "fits"]
    pointers = {change.path for each in fitting for change in each.patch}
    assert "/training/peft/quantize_experts" in pointers


def test_what_is_on_already_is_not_proposed() -> None:
    off = {
        "training": {
            "loss": {"cross_entropy": "unfused"},
            "attention": {"backend": "unfused"},
            "moe": {"permute_fusion": False},
            "micro_batch_size": 2,
        },
        "framework": {
            "name": "megatron",
            "deallocate_pipeline_outputs": False,
            "gradient_accumulation_fusion": False,
            "create_attention_mask_in_dataloader": True,
        },
        "parallelism": {
            "tp": 2,
            "sequence_parallel": False,
            "use_distributed_optimizer": False,
            "data_parallel_replicate_size": 2,
            "vpp": 2,
            "pp": 2,
        },
    }
    on = {
        "training": {
            "loss": {"cross_entropy": "te_fused"},
            "recompute": {"granularity": "full"},
            "optimizer": {
                "precision_aware": True,
                "exp_avg_dtype": "bf16",
                "exp_avg_sq_dtype": "bf16",
                "cpu_offload_fraction": 1.0,
            },
            "precision": {"gradients": "bf16"},
            "seq_length": 1,
        },
        "framework": {"name": "megatron", "expandable_segments": True},
        "parallelism": {"data_parallel_sharding_strategy": "optim_grads_params"},
    }
    dropped = paths(proposed(**off)) - paths(proposed(**on))
    assert dropped == {
        "/training/loss/cross_entropy",
        "/training/attention/backend",
        "/training/moe/permute_fusion",
        "/training/micro_batch_size",
        "/training/seq_length",
        "/training/precision",
        "/training/recompute",
        "/training/offload_modules",
        "/training/optimizer/precision_aware",
        "/training/optimizer/exp_avg_dtype",
        "/training/optimizer/exp_avg_sq_dtype",
        "/training/optimizer/cpu_offload_fraction",
        "/framework/deallocate_pipeline_outputs",
        "/framework/gradient_accumulation_fusion",
        "/framework/create_attention_mask_in_dataloader",
        "/framework/expandable_segments",
        "/parallelism/sequence_parallel",
        "/parallelism/use_distributed_optimizer",
        "/parallelism/data_parallel_sharding_strategy",
        "/parallelism/data_parallel_replicate_size",
        "/parallelism/vpp",
    }


def test_smaller_micro_batches_keep_the_global_batch() -> None:
    found = proposed(training={"micro_batch_size": 4, "num_microbatches": 8})
    smaller = [each.values for each in found if "/training/micro_batch_size" in each.values]
    assert smaller == [
        {"/training/micro_batch_size": 2, "/training/num_microbatches": 16},
        {"/training/micro_batch_size": 1, "/training/num_microbatches": 32},
    ]


@pytest.mark.parametrize(
    ("training", "module"),
    [
        ({}, "core_attn"),
        ({"precision": {"fp8_recipe": "delayed"}}, "layernorm"),
        ({"moe": {"grouped_gemm": False}}, "moe_act"),
        ({"moe": {"shared_expert_overlap": True}}, "shared_experts"),
        ({"offload_modules": ["expert_fc1"]}, "moe"),
    ],
)
def test_what_megatron_refuses_to_recompute_is_not_proposed(
    training: dict[str, object], module: str
) -> None:
    for candidate in proposed(training=training):
        recompute = candidate.values.get("/training/recompute", {})
        assert module not in recompute.get("modules", [])


def test_two_changes_at_once() -> None:
    a = Candidate({"/parallelism/tp": 2, "/parallelism/num_gpus": 16}, Price.GPUS, "a")
    b = Candidate({"/parallelism/pp": 2, "/parallelism/num_gpus": 16}, Price.SPEED, "b")
    both = together(a, b)
    assert both == Candidate(
        {"/parallelism/tp": 2, "/parallelism/num_gpus": 16, "/parallelism/pp": 2},
        Price.GPUS,
        "a; b",
    )
    assert together(a, Candidate({"/parallelism/tp": 4}, Price.SPEED, "c")) is None


def test_modules_of_two_changes_add_up() -> None:
    def remade(*modules: str) -> Candidate:
        recompute = {"granularity": "selective", "modules": list(modules)}
        return Candidate({"/training/recompute": recompute}, Price.SPEED, "")

    def away(*modules: str) -> Candidate:
        return Candidate({"/training/offload_modules": list(modules)}, Price.TRANSFERS, "")

    recompute = together(remade("mlp", "layernorm"), remade("mlp", "moe_act"))
    assert recompute is not None
    assert recompute.values["/training/recompute"]["modules"] == ["mlp", "layernorm", "moe_act"]
    offload = together(away("core_attn"), away("qkv_linear"))
    assert offload is not None
    assert offload.values["/training/offload_modules"] == ["core_attn", "qkv_linear"]
