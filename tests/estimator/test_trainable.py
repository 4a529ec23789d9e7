"""What is trained of a model, beside what the libraries say."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.estimator.frameworks.pytorch.ledger import PytorchLedger
from trainfit.questions.estimate import answer, plan_of
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.job import Job

QWEN, EXPERTS, VISION = "Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen2.5-VL-7B-Instruct"


def trainable(
    framework: str = "transformers",
    num_gpus: int = 1,
    tp: int = 1,
    model: str = QWEN,
    **training: Any,
) -> int:
    job = {
        "model": {"hf_id": model},
        "parallelism": {"num_gpus": num_gpus, "tp": tp},
        "training": {"seq_length": 128, "micro_batch_size": 1, **training},
        "framework": {"name": framework},
    }
    return answer(Job.model_validate(job)).model.parameters.trainable


@pytest.mark.parametrize("tp", [1, 2])
def test_adapters_of_every_linear_are_as_many_as_peft_prints(tp: int) -> None:
    assert trainable(peft={"method": "lora", "r": 16}, tp=tp, num_gpus=tp) == 43_646_976


def test_adapters_of_named_linears() -> None:
    named = {"method": "lora", "r": 8, "target_modules": ["q_proj", "v_proj"]}
    assert trainable(peft=named) == 36 * 8 * ((4096 + 4096) + (4096 + 1024))


def test_embeddings_of_virtual_tokens() -> None:
    peft = {"method": "prompt_tuning", "num_virtual_tokens": 20}
    assert trainable(peft=peft) == 20 * 4096


@pytest.mark.parametrize(
    ("encoder", "count"),
    [
        ({}, 50_425_856),
        ({"encoder_reparameterization_type": "LSTM", "encoder_hidden_size": 512}, 30_512_128),
        (
            {"encoder_reparameterization_type": "LSTM", "encoder_num_layers": 3},
            1_174_695_936,
        ),
    ],
)
def test_encoders_of_virtual_tokens_are_as_large_as_those_of_peft(
    encoder: dict[str, Any], count: int
) -> None:
    assert trainable(peft={"method": "p_tuning", "num_virtual_tokens": 20} | encoder) == count


@pytest.mark.parametrize(("projection", "count"), [(False, 1_474_560), (True, 76_641_280)])
def test_keys_and_values_of_virtual_tokens_are_as_many_as_those_of_peft(
    projection: bool, count: int
) -> None:
    peft = {"method": "prefix_tuning", "num_virtual_tokens": 20, "prefix_projection": projection}
    assert trainable(peft=peft) == count


def test_what_is_frozen_is_not_trained() -> None:
    assert trainable() - trainable(frozen=["embed_tokens"]) == 151_936 * 4096


def test_first_layers_that_are_frozen() -> None:
    of_layers = trainable(frozen=["embed_tokens", "lm_head"]) - 4096
    assert trainable() - trainable(num_frozen_layers=9) == of_layers // 4
    assert trainable(num_frozen_layers=36, frozen=["embed_tokens", "lm_head"]) == 4096


def test_last_layers_that_are_frozen() -> None:
    of_layers = trainable(frozen=["embed_tokens", "lm_head"]) - 4096
    assert trainable() - trainable(num_frozen_last_layers=9) == of_layers // 4
    both = trainable(num_frozen_layers=9, num_frozen_last_layers=9)
    assert trainable() - both == of_layers // 2
    assert trainable(num_frozen_layers=20, num_frozen_last_layers=20) == trainable(
        num_frozen_layers=36
    )


def test_the_final_norm_is_frozen_by_itself_or_with_all_norms() -> None:
    assert trainable() - trainable(frozen=["final_norm"]) == 4096
    assert trainable(frozen=["norm", "final_norm"]) == trainable(frozen=["norm"])


def test_routers_that_are_frozen() -> None:
    assert trainable(model=EXPERTS) - trainable(model=EXPERTS, frozen=["router"]) == (
        48 * 128 * 2048
    )


def test_a_frozen_router_of_torchtitan_keeps_no_copy_of_its_input() -> None:
    """[n, h] in fp32, which only the gradient of the router's weight reads."""

    def kept(**training: Any) -> int:
        job = {
            "model": {"hf_id": EXPERTS},
            "training": {"seq_length": 4096, "micro_batch_size": 1, **training},
            "framework": {"name": "torchtitan"},
        }
        plan = plan_of(Job.model_validate(job))
        assert isinstance(plan, PytorchPlan)
        return PytorchLedger(plan).layer_segments[0].saved

    assert kept() - kept(frozen=["router"]) == 4 * 4096 * 2048


def test_a_tower_and_its_language_model_are_frozen_one_without_the_other() -> None:
    towers = ["vision_tower", "multi_modal_projector"]
    of_towers = trainable(model=VISION, frozen=["language_model"])
    of_language_model = trainable(model=VISION, frozen=towers)
    assert of_towers == 676_550_144
    assert of_towers + of_language_model == trainable(model=VISION)
    of_projector = trainable(model=VISION, frozen=["vision_tower", "language_model"])
    assert of_projector == 1280 + (5120 + 1) * 5120 + (5120 + 1) * 3584
    of_tower = trainable(model=VISION, frozen=["multi_modal_projector", "language_model"])
    assert of_tower + of_projector == of_towers


def test_gradients_reach_a_tower_that_is_trained_through_layers_that_are_not() -> None:
    frozen = ["embed_tokens", "lm_head", "norm"]
    towers = ["vision_tower", "multi_modal_projector"]
    trained, untrained = (
        saved(frozen=[*frozen, *names], num_frozen_layers=27) for names in ([], towers)
    )
    assert trained > 20 * untrained
    assert 0.9 * trained < saved(frozen=["language_model"]) < trained


def saved(**training: Any) -> int:
    """Bytes of activations of a step of the model with a tower, the loss aside."""
    job = {
        "model": {"hf_id": VISION},
        "training": {"seq_length": 4096, "precision": "bf16-pure", **training}
        | {"loss": {"cross_entropy": "liger"}, "optimizer": {"name": "sgd"}},
        "framework": {"name": "transformers"},
    }
    (stage,) = answer(Job.model_validate(job)).stages
    return next(part.bytes for part in stage.components if part.name == "activations")


def test_gradients_are_not_accumulated_unless_asked() -> None:
    job = {"model": {"hf_id": "Qwen/Qwen3-8B"}, "training": {"seq_length": 128}}
    for framework in ("transformers", "torchtitan"):
        estimate = answer(Job.model_validate({**job, "framework": {"name": framework}}))
        assert estimate.parallelism.num_microbatches == 1


@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize(
    "training",
    [
        {},
        {"peft": {"method": "lora", "r": 16}},
        {"frozen": ["embed_tokens"]},
        {"num_frozen_layers": 9},
    ],
)
def test_states_are_told_for_what_is_trained(training: dict[str, Any], tp: int) -> None:
    """Adam keeps two moments in fp32 of every parameter that is trained, and of no other."""
    job = {
        "model": {"hf_id": "Qwen/Qwen3-8B"},
        "parallelism": {"num_gpus": tp, "tp": tp},
        "training": {"seq_length": 128, **training},
        "framework": {"name": "transformers"},
    }
    estimate = answer(Job.model_validate(job))
    weights, gradients, states = estimate.stages[0].components[:3]
    assert weights.parameter_count == estimate.model.parameters.total
    for trained in (gradients, states):
        assert trained.parameter_count == estimate.model.parameters.trainable
        assert trained.parameter_count_per_gpu >= trained.parameter_count // tp
    assert states.bytes_per_parameter == 8.0
    assert states.bytes == 8 * states.parameter_count_per_gpu
