"""Towers of images, against transformers' classes and by hand."""

from typing import Any

import pytest

from trainfit.estimator.blocks.tower import pytorch as tower
from trainfit.estimator.frameworks.pytorch import towers
from trainfit.estimator.ledger import Group
from trainfit.estimator.legend import pytorch_legend_of
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.results import Estimate
from trainfit.estimator.segment import add_up, walk
from trainfit.questions.estimate import answer, plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.architecture import Encoder
from trainfit.specs.job import Job

QWEN = "Qwen/Qwen2.5-VL-3B-Instruct"
WIDTH, FFN, PATCHES = 320, 864, 512
NOTHING: frozenset[str] = frozenset()


def asked(tokens: int | None, *, model: str = QWEN, **training: Any) -> Job:
    return Job.model_validate(
        {
            "model": {"hf_id": model},
            "training": {
                "seq_length": 2048,
                "precision": "bf16-pure",
                "image_tokens": tokens,
                **training,
            },
            "framework": {"name": "transformers"},
        }
    )


def estimate(tokens: int | None, **training: Any) -> Estimate:
    return answer(asked(tokens, **training))


def expected(tokens: int | None, **training: Any) -> int:
    return estimate(tokens, **training).stages[0].allocated_bytes.expected


def small(kind: str) -> Encoder:
    gated = kind == "qwen2_5_vl"
    ffn = 4 * WIDTH if kind == "qwen2_vl" else FFN
    activations = {"qwen2_5_vl": "silu", "qwen2_vl": "quick_gelu", "qwen3_vl": "gelu_pytorch_tanh"}
    return Encoder(
        num_layers=2,
        hidden_size=WIDTH,
        ffn_hidden_size=ffn,
        patches_per_token=4,
        heads=4,
        norm="rmsnorm" if gated else "layernorm",
        gated=gated,
        activation=activations[kind],
        patch_values=1176,
        text_width=512,
    )


def groups_of(program: towers.Program, encoder: Encoder) -> tuple[Group, ...]:
    """Of as many patches as `PATCHES`, in bf16 throughout."""
    plan = plan_of(asked(PATCHES // 4))
    assert isinstance(plan, PytorchPlan)
    sizes = towers._sizes(encoder, PATCHES // 4, pytorch_legend_of(plan))
    return program(Modules(sizes, towers.way_of(encoder, plan)), encoder)


@pytest.mark.parametrize(
    ("kind", "layer", "merger"),
    [
        ("qwen2_5_vl", 8_466_432, 1_968_128),
        ("qwen2_vl", 7_553_024, None),
        ("qwen3_vl", 5_390_336, None),
    ],
)
def test_a_layer_saves_what_its_class_saves(kind: str, layer: int, merger: int | None) -> None:
    """Recorded on a CPU with saved_tensors_hooks: transformers 5.23.0, PyTorch 2.13.0, two images.
    There both LayerNorms keep their statistics in bf16, on a GPU in fp32: 8 bytes more a patch.
    """
    encoder = small(kind)
    assert walk("embedding", add_up(groups_of(tower.layer, encoder), NOTHING), 0).saved == layer
    if merger is not None:
        found = walk("embedding", add_up(groups_of(tower.merger, encoder), NOTHING), 0).saved
        assert found == merger


def test_stretches_one_after_another_are_one() -> None:
    encoder = small("qwen3_vl")
    first, second = groups_of(tower.layer, encoder), groups_of(tower.merger, encoder)
    apart = [walk("embedding", add_up(groups, NOTHING), 7) for groups in (first, second)]
    joined = towers.one_after_another(apart)
    assert joined == walk("embedding", add_up((*first, *second), NOTHING), 7)


def test_without_images_there_is_no_tower() -> None:
    unknown, none = estimate(None), estimate(0)
    low, high = none.stages[0].allocated_bytes.low, none.stages[0].allocated_bytes.high
    assert low == unknown.stages[0].allocated_bytes.low
    assert high < unknown.stages[0].allocated_bytes.high
    assert "encoder-bounded" not in {each.id for each in none.assumptions}


def test_all_tokens_of_images_stay_within_what_is_bound() -> None:
    most = estimate(2048).stages[0].allocated_bytes
    assert expected(1024) < most.expected
    assert most.high < estimate(None).stages[0].allocated_bytes.high


@pytest.mark.parametrize(
    ("model", "patches", "saved"),
    [
        # 8 [n, h] and 2 [n, f] in bf16: norms, products, and what fused attention keeps
        ("google/gemma-3-4b-it", 16, 27 * 2 * (8 * 1152 + 2 * 4304)),
        # quick_gelu keeps its input, the sigmoid and what that is multiplied with
        ("llava-hf/llava-1.5-7b-hf", 1, 24 * 2 * (8 * 1024 + 5 * 4096)),
        # its rotation turns queries and keys in fp32, and keeps both
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 4, 34 * 2 * (8 * 1408 + 8 * 1408 + 2 * 5632)),
    ],
)
def test_what_towers_of_others_keep_is_within_the_bound(
    model: str, patches: int, saved: int
) -> None:
    """`saved` bytes of each patch by hand, from modeling_siglip.py, modeling_clip.py and
    modeling_llama4.py.
    """
    none, some, unknown = (
        answer(asked(tokens, model=model)).stages[0].allocated_bytes for tokens in (0, 512, None)
    )
    assert none.low == some.low == unknown.low
    assert none.expected == some.expected
    assert saved * patches * 512 < some.high - none.high < 4 * saved * patches * 512
    assert 3.9 < (unknown.high - none.high) / (some.high - none.high) < 4.1
    found = answer(asked(512, model=model))
    assert "encoder-bounded" in {each.id for each in found.assumptions}
    assert found.warnings == []


def test_a_frozen_tower_saves_nothing() -> None:
    frozen = {"frozen": ["vision_tower", "multi_modal_projector"]}
    assert expected(1024, **frozen) == expected(0, **frozen)


def test_recomputed_layers_of_a_tower_keep_their_inputs() -> None:
    recompute = {"recompute": {"granularity": "full"}}
    kept = expected(1024, **recompute) - expected(0, **recompute)
    encoder = plan_of(asked(1024)).model.encoder
    assert encoder is not None
    patches = 4 * 1024
    inputs = encoder.num_layers * patches * encoder.hidden_size * 2
    assert inputs < kept < 1.5 * inputs


def test_adapters_of_its_linears_keep_what_they_read() -> None:
    text = {"peft": {"method": "lora", "target_modules": ["q_proj", "v_proj"]}}
    every = {"peft": {"method": "lora", "target_modules": ["gate_proj"]}}
    assert expected(1024, **text) == expected(0, **text)
    assert expected(1024, **every) > expected(0, **every)


@pytest.mark.parametrize(
    ("tokens", "training", "code"),
    [
        (4096, {}, "conflict"),
        (8, {"model": "Qwen/Qwen3-0.6B"}, "conflict"),
        (8, {"attention": {"backend": "eager"}}, "not_modelled"),
    ],
)
def test_images_that_nobody_can_follow(tokens: int, training: dict[str, Any], code: str) -> None:
    with pytest.raises(RefusedError) as raised:
        plan_of(asked(tokens, **training))
    assert [(each.pointer, each.code) for each in raised.value.findings] == [
        ("/training/image_tokens", code)
    ]


def test_under_megatron_a_tower_is_known_without_images_alone() -> None:
    words = asked(0).model_dump(mode="json", exclude_unset=True)
    words |= {"framework": {"name": "megatron"}, "training": {"image_tokens": 0}}
    assert answer(Job.model_validate(words)).warnings == []
    words["training"] = {"image_tokens": 64}
    with pytest.raises(RefusedError, match="image_tokens under megatron"):
        plan_of(Job.model_validate(words))
