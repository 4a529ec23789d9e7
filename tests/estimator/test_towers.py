"""Towers of images, against transformers' classes and by hand."""

from typing import Any

import pytest

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.qwen_vl import (
    qwen2_5_vl_vision,
    qwen2_vl_vision,
    qwen3_vl_vision,
)
from trainfit.estimator.blocks.tower import pytorch as tower
from trainfit.estimator.blocks.tower import stretches
from trainfit.estimator.frameworks.pytorch import towers
from trainfit.estimator.ledger import Group
from trainfit.estimator.legend import pytorch_legend_of
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.results import Estimate
from trainfit.estimator.run import pytorch_way_of
from trainfit.estimator.segment import add_up, walk
from trainfit.questions.estimate import answer, plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.encoder import Encoder
from trainfit.specs.job import Job

QWEN = "Qwen/Qwen2.5-VL-3B-Instruct"
WIDTH, FFN, PATCHES = 320, 864, 512
NOTHING: frozenset[str] = frozenset()
READERS = {
    "qwen2_5_vl": qwen2_5_vl_vision,
    "qwen2_vl": qwen2_vl_vision,
    "qwen3_vl": qwen3_vl_vision,
}
PIXELS = 4 * 1024 * 1176 * 4
"""Bytes of 4 patches for each of 1024 tokens, of two frames of 14 x 14 in three colours, in fp32:
they come with the batch, whatever is trained.
"""


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
    """Of two layers, as its class reads it."""
    names = {"hidden_size": 512, "embed_dim": WIDTH} if kind == "qwen2_vl" else {}
    sizes = {"hidden_size": WIDTH, "out_hidden_size": 512, "intermediate_size": FFN, **names}
    config = Config({"depth": 2, "num_heads": 4, "patch_size": 14, **sizes})
    encoder = READERS[kind](config).encoder
    assert encoder is not None
    return encoder


def groups_of(program: stretches.Program, encoder: Encoder) -> tuple[Group, ...]:
    """Of as many patches as `PATCHES`, in bf16 throughout."""
    plan = plan_of(asked(PATCHES // 4))
    assert isinstance(plan, PytorchPlan)
    sizes = stretches.sizes_of(encoder, PATCHES // 4, pytorch_legend_of(plan))
    return program(Modules(sizes, stretches.way_of(encoder, pytorch_way_of(plan))), encoder)


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
        found = walk("embedding", add_up(groups_of(tower.projector, encoder), NOTHING), 0).saved
        assert found == merger


def test_stretches_one_after_another_are_one() -> None:
    encoder = small("qwen3_vl")
    first, second = groups_of(tower.layer, encoder), groups_of(tower.projector, encoder)
    apart = [walk("embedding", add_up(groups, NOTHING), 7) for groups in (first, second)]
    joined = stretches.one_after_another(apart)
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
    ("model", "tokens", "rows", "saved"),
    [
        # 8 [n, h] and 2 [n, f] in bf16: norms, products, and what fused attention keeps
        ("google/gemma-3-4b-it", 512, 2 * 4096, 27 * 2 * (8 * 1152 + 2 * 4304)),
        # quick_gelu keeps its input, the sigmoid and its own output; the last layer is not read
        ("llava-hf/llava-1.5-7b-hf", 1152, 2 * 577, 23 * 2 * (8 * 1024 + 3 * 4096)),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 576, 4 * 577, 34 * 2 * (8 * 1408 + 2 * 5632)),
    ],
)
def test_layers_of_others_keep_what_their_classes_keep(
    model: str, tokens: int, rows: int, saved: int
) -> None:
    """`saved` bytes of a row by hand, from modeling_siglip.py, modeling_clip.py and
    modeling_llama4.py; beside layers there are pixels, norms, projector.
    """
    kept = saved_of(tokens, model)
    assert saved * rows < kept < 1.06 * saved * rows
    assert "encoder-bounded" in {each.id for each in answer(asked(None, model=model)).assumptions}
    unknown = plan_of(asked(None, model=model))
    assert isinstance(unknown, PytorchPlan)
    assert unknown.model.encoder is not None
    assert saved_of(2048, model) < towers.most_bytes(unknown.model.encoder, unknown)


def saved_of(tokens: int, model: str) -> int:
    """Bytes that the tower keeps of one sample with so many tokens of images."""
    plan = plan_of(asked(tokens, model=model))
    assert isinstance(plan, PytorchPlan)
    assert plan.model.encoder is not None
    parts = stretches.with_pixels(
        plan.model.encoder, tokens, pytorch_legend_of(plan), pytorch_way_of(plan)
    )
    return sum(part.saved for part in parts)


def test_every_layer_of_a_tower_that_is_trained_hands_gradients_on() -> None:
    plan = plan_of(asked(128, micro_batch_size=1))
    assert isinstance(plan, PytorchPlan)
    encoder = plan.model.encoder
    assert encoder is not None
    layers = (
        encoder.num_layers
        * walk("embedding", add_up(groups_of(tower.layer, encoder), NOTHING), 0).saved
    )
    assert PATCHES == 4 * 128
    assert layers < saved_of(128, QWEN) < 1.02 * layers


def test_an_image_is_run_whole() -> None:
    one, more = (
        answer(asked(tokens, model="google/gemma-3-4b-it")).stages[0].allocated_bytes.expected
        for tokens in (200, 256)
    )
    assert one == more


def test_of_a_frozen_tower_there_are_pixels_alone() -> None:
    frozen = {"frozen": ["vision_tower", "multi_modal_projector"]}
    assert expected(1024, **frozen) == expected(0, **frozen) + PIXELS


def test_a_frozen_projector_hands_on_what_the_tower_learns_from() -> None:
    whole = expected(1024) - expected(0)
    (tower, merger) = (
        expected(1024, frozen=[name]) - expected(0, frozen=[name])
        for name in ("multi_modal_projector", "vision_tower")
    )
    assert PIXELS < merger < 0.05 * whole
    assert 0.98 * whole < tower < whole


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
    assert expected(1024, **text) == expected(0, **text) + PIXELS
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


@pytest.mark.parametrize("tokens", [0, 64])
def test_under_megatron_a_tower_is_known_too(tokens: int) -> None:
    words = asked(0).model_dump(mode="json", exclude_unset=True)
    words |= {"framework": {"name": "megatron"}, "training": {"image_tokens": tokens}}
    assert answer(Job.model_validate(words)).warnings == []


@pytest.mark.parametrize(
    ("model", "targets", "trained"),
    [
        (QWEN, "all-linear", 41_363_456),
        (QWEN, ["q_proj", "v_proj"], 3_686_400),
        (QWEN, ["q_proj", "gate_proj", "up_proj", "down_proj"], 32_139_264),
        ("google/gemma-3-4b-it", "all-linear", 38_497_792),
        ("google/gemma-3-4b-it", ["q_proj", "v_proj"], 6_447_104),
        ("llava-hf/llava-1.5-7b-hf", "all-linear", 47_267_840),
        ("llava-hf/llava-1.5-7b-hf", ["q_proj", "v_proj"], 9_961_472),
    ],
)
def test_adapters_stand_beside_linears_of_towers(model: str, targets: Any, trained: int) -> None:
    """As many elements as PEFT 0.19.1 makes of rank 16, of which a frozen tower has none."""
    peft = {"method": "lora", "r": 16, "target_modules": targets}
    assert answer(asked(0, model=model, peft=peft)).model.parameters.trainable == trained
    frozen = {"frozen": ["vision_tower", "multi_modal_projector"]}
    without = answer(asked(0, model=model, peft=peft, **frozen)).model.parameters.trainable
    assert without is not None
    assert (without < trained) == (
        targets == "all-linear" or "gate_proj" in targets or model != QWEN
    )


def test_whatever_images_there_are_a_frozen_tower_keeps_none() -> None:
    whole, frozen = (
        answer(asked(None, frozen=names)).stages[0].allocated_bytes
        for names in ([], ["vision_tower", "multi_modal_projector"])
    )
    none = answer(asked(0, frozen=["vision_tower", "multi_modal_projector"]))
    beside = frozen.high - none.stages[0].allocated_bytes.high
    assert 2 * PIXELS < beside < 0.1 * (whole.high - whole.low)


def test_adapters_may_stand_beside_a_tower_alone() -> None:
    """As many as PEFT makes; with the tower frozen the name is no linear's that has one."""
    peft = {"method": "lora", "r": 16, "target_modules": ["qkv"]}
    assert answer(asked(0, peft=peft)).model.parameters.trainable == 2_621_440
    with pytest.raises(RefusedError, match="no linear of the model is called qkv"):
        answer(asked(0, peft=peft, frozen=["vision_tower"]))


SMOL = {
    "model_type": "smolvlm",
    "scale_factor": 3,
    "text_config": {
        "model_type": "llama",
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 24,
        "num_attention_heads": 32,
        "vocab_size": 49280,
    },
    "vision_config": {
        "model_type": "smolvlm_vision",
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
        "image_size": 384,
        "patch_size": 14,
    },
}
"""As large as SmolVLM2-2.2B."""


def test_a_tile_of_smolvlm_makes_as_many_tokens_as_nine_patches_make_one() -> None:
    """Each layer keeps what SigLIP's does: both inputs and norms' outputs with fp32 statistics,
    queries, keys, values, attention's output with its logsumexp, both sides of the activation.
    """
    words = asked(4 * 81).model_dump(mode="json", exclude_unset=True)
    plan = plan_of(Job.model_validate(words | {"model": {"hf_config": SMOL}}))
    assert isinstance(plan, PytorchPlan)
    encoder, patches, h, f = plan.model.encoder, 4 * 27**2, 1152, 4304
    assert encoder is not None
    parts = list(stretches.segments(encoder, 4 * 81, pytorch_legend_of(plan), pytorch_way_of(plan)))
    layer = patches * (2 * (8 * h + 2 * f) + 2 * 8 + 4 * 16)
    assert [each.saved for each in parts[1:28]] == [layer] * 27
    assert parts[-1].saved == 2 * patches * h


QWEN2_AUDIO = {
    "model_type": "qwen2_audio",
    "text_config": {
        "model_type": "qwen2",
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 2,
        "num_attention_heads": 32,
        "vocab_size": 32000,
    },
    "audio_config": {
        "model_type": "qwen2_audio_encoder",
        "d_model": 1280,
        "encoder_ffn_dim": 5120,
        "encoder_layers": 32,
        "encoder_attention_heads": 20,
        "max_source_positions": 1500,
        "num_mel_bins": 128,
    },
}


@pytest.mark.parametrize(
    ("model", "tokens", "masks"),
    [
        ({"hf_id": "mistralai/Voxtral-Mini-3B-2507"}, 375, 0),
        ({"hf_config": QWEN2_AUDIO}, 750, 1),
    ],
)
def test_a_clip_is_heard_whole_by_heads_that_are_copied_back(
    model: dict[str, Any], tokens: int, masks: int
) -> None:
    """Each layer keeps what SigLIP's does, and attention's output with tokens before heads. A mask
    becomes numbers in each layer anew (ATen's attention.cpp, convert_boolean_attn_mask).
    """
    words = asked(tokens).model_dump(mode="json", exclude_unset=True)
    plan = plan_of(Job.model_validate(words | {"model": model}))
    assert isinstance(plan, PytorchPlan)
    encoder, clips, h, f = plan.model.encoder, plan.batch.micro_batch_size, 1280, 5120
    assert encoder is not None
    parts = list(stretches.segments(encoder, tokens, pytorch_legend_of(plan), pytorch_way_of(plan)))
    layer = clips * 1500 * (2 * (9 * h + 2 * f) + 2 * 8 + 4 * 20 + masks * 2 * 1500)
    assert [each.saved for each in parts[1:33]] == [layer] * 32


@pytest.mark.parametrize("backend", ["sdpa", "flash"])
def test_all_layers_of_pixtral_read_one_mask(backend: str) -> None:
    """Images are one sequence [n], which a mask [n, n] keeps apart outside FlashAttention, and its
    cosines and sines are as narrow as what they turn.
    """
    of = asked(64, model="mistralai/Mistral-Small-3.1-24B-Instruct-2503")
    attention = {"attention": {"backend": backend}}
    words = of.model_dump(mode="json", exclude_unset=True)
    plan = plan_of(Job.model_validate(words | {"training": words["training"] | attention}))
    assert isinstance(plan, PytorchPlan)
    encoder, sizes = plan.model.encoder, pytorch_legend_of(plan)
    assert encoder is not None
    patches = 64 * 4 * plan.batch.micro_batch_size
    parts = list(stretches.segments(encoder, 64, sizes, pytorch_way_of(plan)))
    mask = 2 * patches**2 if backend == "sdpa" else 0
    assert parts[1].saved == 2 * 2 * patches * 64 + mask
