"""Jobs that are inconsistent, and what mends them."""

from typing import Any

import pytest

from trainfit.questions.estimate import plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.job import Job

LLAMA = {"hf_id": "meta-llama/Llama-3.1-8B"}
QWEN_MOE = {"hf_id": "Qwen/Qwen3-30B-A3B"}
DEEPSEEK = {"hf_id": "deepseek-ai/DeepSeek-V3"}


def refusal(job: dict[str, Any]) -> RefusedError:
    with pytest.raises(RefusedError) as refused:
        plan_of(Job.model_validate(job))
    return refused.value


@pytest.mark.parametrize(
    ("model", "parallelism", "pointer", "words"),
    [
        (LLAMA, {"num_gpus": 12, "tp": 8}, "num_gpus", "no multiple of tp * pp * cp = 8"),
        (QWEN_MOE, {"num_gpus": 8, "ep": 8, "tp": 2}, "num_gpus", "pp * ep * etp = 16"),
        (LLAMA, {"tp": 3}, "tp", "32 attention heads do not divide by tp = 3; by 2 they do"),
        (LLAMA, {"tp": 16, "num_gpus": 16}, None, ""),
        (QWEN_MOE, {"ep": 5}, "ep", "128 experts do not divide by ep = 5; by 4 they do"),
        (LLAMA, {"ep": 2}, "ep", "no experts to divide"),
        (QWEN_MOE, {"tp": 2, "sequence_parallel": False}, "sequence_parallel", "needs sequence"),
        (LLAMA, {"pp": 3}, "pp", "32 layers do not divide over 3 pipeline stages; 11+11+10 does"),
        (DEEPSEEK, {"pp": 16}, "pp", "61 layers do not divide"),
        (LLAMA, {"vpp": 2}, "vpp", "vpp > 1 needs pp > 1"),
        (LLAMA, {"pp": 4, "vpp": 3}, "pp", "of 3 chunks"),
        (LLAMA, {"pp": 4, "vpp": 2, "pipeline_schedule": "1f1b"}, "pipeline_schedule", "one chunk"),
        (LLAMA, {"pp": 4, "pipeline_schedule": "interleaved"}, "vpp", "needs vpp > 1"),
        (
            LLAMA,
            {"pp": 2, "pipeline_model_parallel_layout": "Et*16|t*15L"},
            "pipeline_model_parallel_layout",
            "names 31 t; the model has 32",
        ),
        (
            DEEPSEEK,
            {"pp": 2, "pipeline_model_parallel_layout": "Et*30|t*31L"},
            "pipeline_model_parallel_layout",
            "names 0 m; the model trains 1",
        ),
        (
            LLAMA,
            {
                "pp": 2,
                "use_distributed_optimizer": False,
                "data_parallel_sharding_strategy": "optim",
            },
            "use_distributed_optimizer",
            "says the opposite",
        ),
        (
            LLAMA,
            {"num_gpus": 6, "data_parallel_replicate_size": 4},
            "data_parallel_replicate_size",
            "do not divide into 4 groups",
        ),
        (
            LLAMA,
            {"cp": 4, "cp_comm_type": "a2a+p2p", "hierarchical_context_parallel_sizes": [2, 1]},
            "hierarchical_context_parallel_sizes",
            "whose product is cp = 4",
        ),
        ({"hf_id": "state-spaces/mamba-2.8b-hf"}, {"tp": 3}, "tp", "does not divide by tp = 3"),
    ],
)
def test_layouts(
    model: dict[str, str], parallelism: dict[str, Any], pointer: str | None, words: str
) -> None:
    job = {"model": model, "parallelism": parallelism}
    if pointer is None:
        plan_of(Job.model_validate(job))
        return
    findings = refusal(job).findings
    found = [f for f in findings if f.pointer == f"/parallelism/{pointer}"]
    assert any(words in finding.message for finding in found), findings


@pytest.mark.parametrize(
    ("training", "framework", "pointer", "words"),
    [
        ({"global_batch_size": 3, "micro_batch_size": 2}, {}, "global_batch_size", "4 are"),
        ({"global_batch_size": 8, "num_microbatches": 3}, {}, "num_microbatches", "makes 8"),
        ({"recompute": {"method": "uniform"}}, {}, "recompute/method", "granularity full"),
        ({"recompute": {"modules": ["mlp"]}}, {}, "recompute/modules", "granularity selective"),
        (
            {"recompute": {"granularity": "full", "num_layers": 99}},
            {},
            "recompute/num_layers",
            "32 layers",
        ),
        (
            {"attention": {"backend": "flash"}},
            {"transformer_impl": "local"},
            "attention/backend",
            "unfused attention only",
        ),
        (
            {"moe": {"pad_expert_input_to_capacity": True}},
            {},
            "moe/expert_capacity_factor",
            "needs a capacity factor",
        ),
        (
            {"recompute": {"granularity": "full"}, "offload_modules": ["core_attn"]},
            {},
            "offload_modules",
            "nothing to offload",
        ),
    ],
)
def test_steps(
    training: dict[str, Any], framework: dict[str, Any], pointer: str, words: str
) -> None:
    named = {"name": "megatron"} | framework
    findings = refusal({"model": LLAMA, "training": training, "framework": named}).findings
    found = [f for f in findings if f.pointer == f"/training/{pointer}"]
    assert any(words in finding.message for finding in found), findings


@pytest.mark.parametrize(
    ("parallelism", "training", "framework"),
    [
        ({"cp": 2}, {"attention": {"backend": "unfused"}}, {}),
        ({"cp": 2}, {}, {"transformer_impl": "local"}),
        ({}, {"precision": "fp8"}, {"transformer_impl": "local"}),
    ],
)
def test_what_only_transformer_engine_runs(
    parallelism: dict[str, Any], training: dict[str, Any], framework: dict[str, Any]
) -> None:
    job = {
        "model": LLAMA,
        "parallelism": parallelism,
        "training": training,
        "framework": {"name": "megatron"} | framework,
    }
    assert {finding.code for finding in refusal(job).findings} == {"conflict"}


def test_a_sequence_divides_by_twice_the_context_parallel_ranks() -> None:
    job = {"model": LLAMA, "parallelism": {"cp": 4}, "training": {"seq_length": 4100}}
    (finding,) = refusal(job).findings
    assert finding.message == ("a sequence of 4100 tokens does not divide by 8 (2 * cp); 4096 does")
    assert finding.suggestion[0].value == 4096


def test_multi_token_prediction_recomputes_uniformly_one_layer_at_a_time() -> None:
    for recompute in ({"method": "block", "num_layers": 2}, {"num_layers": 2}):
        job = {
            "model": DEEPSEEK,
            "training": {"recompute": {"granularity": "full"} | recompute},
        }
        assert {finding.code for finding in refusal(job).findings} == {"recompute"}


@pytest.mark.parametrize("pp", [2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16])
def test_the_split_that_is_offered_works(pp: int) -> None:
    job: dict[str, Any] = {"model": DEEPSEEK, "parallelism": {"pp": pp}}
    (finding,) = refusal(job).findings
    assert finding.suggestion
    for change in finding.suggestion:
        job["parallelism"][change.path.rsplit("/", 1)[-1]] = change.value
    plan = plan_of(Job.model_validate(job))
    layers = [stage.layers for stage in plan.layout.pipeline.virtual_stages]
    assert sum(layers) == 61
    assert max(layers) - min(layers) <= max(1, pp // 2)


def test_every_finding_is_told_at_once() -> None:
    job = {
        "model": DEEPSEEK,
        "parallelism": {"tp": 3, "pp": 4, "ep": 7},
        "training": {"seq_length": 4097},
    }
    pointers = {finding.pointer for finding in refusal(job).findings}
    assert {"/parallelism/tp", "/parallelism/pp", "/parallelism/ep"} <= pointers
    assert "/training/seq_length" in pointers


def test_all_that_is_suggested_holds_together() -> None:
    """No length is offered for a tensor parallel size that has to change."""
    job: dict[str, Any] = {
        "model": LLAMA,
        "parallelism": {"tp": 3, "sequence_parallel": True},
        "training": {"seq_length": 4096},
    }
    found = refusal(job).findings
    assert {each.pointer for each in found} >= {"/parallelism/tp", "/training/seq_length"}
    changes = {change.path: change.value for each in found for change in each.suggestion}
    assert changes == {"/parallelism/tp": 2}
    job["parallelism"]["tp"] = 2
    assert plan_of(Job.model_validate(job)).layout.tp == 2


def test_every_default_is_echoed_with_its_origin() -> None:
    plan = plan_of(Job.model_validate({"model": DEEPSEEK, "parallelism": {"tp": 4, "pp": 61}}))
    defaults = {default.pointer: default for default in plan.defaults}
    assert defaults["/parallelism/etp"].value == 4
    assert defaults["/parallelism/etp"].origin == "framework"
    assert defaults["/parallelism/num_gpus"].value == 244
    assert defaults["/training/mtp"].origin == "config"
    assert "/parallelism/tp" not in defaults
    assert all(default.why for default in plan.defaults)


@pytest.mark.parametrize(("ep", "etp"), [(1, 2), (4, 1)])
def test_torchtitan_divides_experts_or_their_width(ep: int, etp: int) -> None:
    layout = {"num_gpus": 8, "tp": 2, "ep": ep}
    asked = {"model": DEEPSEEK, "parallelism": layout, "framework": {"name": "torchtitan"}}
    assert plan_of(Job.model_validate(asked)).layout.etp == etp
    asked["model"] = LLAMA
    layout["ep"] = 1
    assert plan_of(Job.model_validate(asked)).layout.etp == 1


SCOUT = {"hf_id": "meta-llama/Llama-4-Scout-17B-16E-Instruct"}
MLLAMA = {"hf_id": "meta-llama/Llama-3.2-11B-Vision-Instruct"}
VISION = {"hf_id": "Qwen/Qwen2.5-VL-7B-Instruct"}
PROMPT = {"method": "prompt_tuning", "num_virtual_tokens": 20}
PREFIX = {"method": "prefix_tuning", "num_virtual_tokens": 20}
LSTM = {
    "method": "p_tuning",
    "num_virtual_tokens": 20,
    "encoder_reparameterization_type": "LSTM",
}
TRANSFORMERS = {"name": "transformers"}
TORCHTITAN = {"name": "torchtitan"}


@pytest.mark.parametrize(
    ("job", "pointer", "words"),
    [
        (
            {"framework": TORCHTITAN, "training": {"peft": PROMPT}},
            "/framework/name",
            "for models of transformers",
        ),
        (
            {
                "framework": TRANSFORMERS,
                "training": {"peft": PROMPT},
                "parallelism": {"num_gpus": 2, "tp": 2},
            },
            "/parallelism/tp",
            "tp with prompt_tuning is not modelled",
        ),
        (
            {
                "framework": TRANSFORMERS,
                "training": {"peft": PREFIX, "recompute": {"granularity": "full"}},
            },
            "/training/recompute/granularity",
            "no prefix tuning where activations are recomputed",
        ),
        (
            {"model": DEEPSEEK, "framework": TRANSFORMERS, "training": {"peft": PREFIX}},
            "/training/peft/method",
            "keys and values of one width",
        ),
        (
            {
                "framework": TRANSFORMERS,
                "training": {"peft": LSTM},
                "parallelism": {
                    "num_gpus": 2,
                    "data_parallel_sharding_strategy": "optim_grads_params",
                },
            },
            "/training/peft/encoder_reparameterization_type",
            "an LSTM whose weights are sharded",
        ),
        (
            {
                "framework": TRANSFORMERS
                | {"data_parallel_engine": "deepspeed", "deepspeed": {"offload_param": True}},
                "parallelism": {
                    "num_gpus": 2,
                    "data_parallel_sharding_strategy": "optim_grads",
                },
            },
            "/framework/deepspeed/offload_param",
            "in stage 3",
        ),
        (
            {
                "framework": TRANSFORMERS,
                "training": {"optimizer": {"cpu_offload_fraction": 0.5}},
            },
            "/training/optimizer/cpu_offload_fraction",
            "cpu_offload_fraction under transformers",
        ),
        (
            {"framework": TRANSFORMERS, "parallelism": {"num_gpus": 2, "cp": 2}},
            "/parallelism/cp",
            "cp under ddp is not modelled",
        ),
        (
            {
                "framework": TRANSFORMERS,
                "parallelism": {
                    "num_gpus": 2,
                    "cp": 2,
                    "data_parallel_sharding_strategy": "optim_grads_params",
                },
                "training": {"attention": {"backend": "flash"}},
            },
            "/training/attention/backend",
            "within sdpa only",
        ),
        (
            {
                "model": {"hf_id": "Qwen/Qwen3-30B-A3B"},
                "framework": TRANSFORMERS | {"data_parallel_engine": "deepspeed"},
                "parallelism": {"num_gpus": 2, "tp": 2},
            },
            "/parallelism/tp",
            "tp under DeepSpeed is not modelled for qwen3_moe",
        ),
        (
            {
                "framework": TRANSFORMERS,
                "training": {
                    "precision": "bf16-pure",
                    "peft": {"method": "lora", "base_dtype": "fp32"},
                },
            },
            "/training/peft/base_dtype",
            "precision that says how the base is stored",
        ),
        (
            {"framework": TORCHTITAN, "training": {"loss": {"cross_entropy": "chunked_nll"}}},
            "/training/loss/cross_entropy",
            "torchtitan's is chunked",
        ),
        (
            {
                "framework": TRANSFORMERS,
                "training": {"loss": {"cross_entropy": "chunked_nll"}},
                "parallelism": {"num_gpus": 2, "tp": 2},
            },
            "/training/loss/cross_entropy",
            "a head that tensor-parallel ranks share",
        ),
        (
            {"framework": TRANSFORMERS, "training": {"num_frozen_layers": 33}},
            "/training/num_frozen_layers",
            "the model has 32 layers",
        ),
        (
            {
                "framework": TRANSFORMERS,
                "training": {"num_frozen_layers": 1, "peft": {"method": "lora"}},
            },
            "/training/num_frozen_layers",
            "freeze every layer themselves",
        ),
        (
            {
                "framework": TRANSFORMERS,
                "training": {"num_frozen_last_layers": 1, "peft": {"method": "lora"}},
            },
            "/training/num_frozen_last_layers",
            "freeze every layer themselves",
        ),
        (
            {"framework": TRANSFORMERS, "training": {"frozen": ["router"]}},
            "/training/frozen",
            "the model has no router",
        ),
        (
            {"framework": TRANSFORMERS, "training": {"frozen": ["vision_tower"]}},
            "/training/frozen",
            "the model has no vision_tower",
        ),
        (
            {"model": MLLAMA, "framework": TRANSFORMERS, "training": {"frozen": ["vision_tower"]}},
            "/training/frozen",
            "only multi_modal_projector and vision_tower together",
        ),
        (
            {
                "model": VISION,
                "framework": TRANSFORMERS,
                "training": {"frozen": ["vision_tower", "multi_modal_projector", "language_model"]},
            },
            "/training/frozen",
            "nothing is left that is trained",
        ),
        (
            {"framework": TRANSFORMERS, "training": {"frozen": ["mlp"]}},
            "/training/frozen",
            "embed_tokens, lm_head, norm",
        ),
    ],
)
def test_steps_of_pytorch(job: dict[str, Any], pointer: str, words: str) -> None:
    findings = refusal({"model": LLAMA} | job).findings
    found = [finding for finding in findings if finding.pointer == pointer]
    assert any(words in finding.message for finding in found), findings


@pytest.mark.parametrize(
    ("framework", "expected"), [("transformers", "eager"), ("torchtitan", "sdpa")]
)
def test_transformers_has_sinks_in_eager_attention_only(framework: str, expected: str) -> None:
    asked = {"model": {"hf_id": "openai/gpt-oss-20b"}, "framework": {"name": framework}}
    plan = plan_of(Job.model_validate(asked | {"parallelism": {"num_gpus": 8}}))
    assert isinstance(plan, PytorchPlan)
    assert plan.step.attention_backend == expected


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [("V100-32GB", "unfused"), ("A100-80GB", "flash"), ("H100-80GB", "fused")],
)
def test_the_kernel_of_attention_is_that_of_the_card(gpu: str, expected: str) -> None:
    asked = {"model": {"hf_id": "meta-llama/Llama-2-7b-hf"}, "gpu": gpu}
    plan = plan_of(Job.model_validate(asked | {"parallelism": {"num_gpus": 8}}))
    assert isinstance(plan, MegatronPlan)
    assert plan.step.attention_backend == expected


def test_uneven_experts_under_torchtitan_are_refused_where_rows_travel() -> None:
    layout = {"num_gpus": 8, "ep": 1}
    asked = {
        "model": DEEPSEEK,
        "parallelism": layout,
        "training": {"moe": {"imbalance_factor": 1.25}},
        "framework": {"name": "torchtitan"},
    }
    assert plan_of(Job.model_validate(asked)).layout.ep == 1
    layout["ep"] = 2
    (finding,) = refusal(asked).findings
    assert finding.pointer == "/training/moe/imbalance_factor"


@pytest.mark.parametrize("framework", ["torchtitan", "transformers"])
def test_modules_of_pytorch_do_not_share_a_key_head_between_ranks(framework: str) -> None:
    """Megatron gives two of sixteen ranks the same one of eight."""
    job = {
        "model": LLAMA,
        "parallelism": {"tp": 16, "num_gpus": 16},
        "framework": {"name": framework},
    }
    (finding,) = refusal(job).findings
    assert finding.pointer == "/parallelism/tp"
    assert "8 key/value heads are no multiple of tp = 16; of 8 they are" in finding.message


@pytest.mark.parametrize(
    ("training", "parallelism", "pointer", "words"),
    [
        (
            {"precision": {"fp8_param_gather": True}},
            {},
            "/training/precision/fp8_param_gather",
            "needs an fp8_recipe",
        ),
        (
            {"precision": {"fp8_recipe": "mxfp8", "fp8_param_gather": True}},
            {"use_distributed_optimizer": False},
            "/training/precision/fp8_param_gather",
            "sharded optimizer states",
        ),
        (
            {
                "precision": {"fp8_recipe": "blockwise", "fp8_param_gather": True},
                "optimizer": {"cpu_offload_fraction": 1.0},
            },
            {},
            "/training/precision/fp8_param_gather",
            "under delayed scaling only",
        ),
        (
            {"optimizer": {"precision_aware": True}},
            {"use_distributed_optimizer": False},
            "/training/optimizer/precision_aware",
            "sharded states",
        ),
        (
            {"optimizer": {"precision_aware": True, "name": "sgd"}},
            {},
            "/training/optimizer/precision_aware",
            "is Adam",
        ),
    ],
)
def test_what_megatrons_distributed_optimizer_alone_does(
    training: dict[str, Any], parallelism: dict[str, Any], pointer: str, words: str
) -> None:
    findings = refusal({"model": LLAMA, "training": training, "parallelism": parallelism}).findings
    assert [found.pointer for found in findings] == [pointer]
    assert words in findings[0].message


def test_a_card_of_the_catalogue_has_no_more_memory_than_it_is_sold_with() -> None:
    l40s = {"name": "L40S", "memory_bytes": 10**12}
    (finding,) = refusal({"model": LLAMA, "gpu": l40s}).findings
    assert finding.pointer == "/gpu/memory_bytes"
    assert "a GPU of the name L40S reports" in finding.message
    (change,) = finding.suggestion
    assert (change.path, change.value) == ("/gpu", "L40S")


@pytest.mark.parametrize(
    "gpu",
    [
        {"name": "L40S", "memory_bytes": 48 * 2**30},
        {"name": "L40S", "memory_bytes": 24 * 2**30},
        {"name": "H100-80GB", "memory_bytes": 80 * 2**30},
        {"name": "a card to come", "memory_bytes": 2**40},
    ],
)
def test_a_card_may_have_what_it_is_sold_with_or_less(gpu: dict[str, Any]) -> None:
    assert plan_of(Job.model_validate({"model": LLAMA, "gpu": gpu})).gpu.memory_bytes
