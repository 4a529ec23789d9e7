"""Towers of images beside Megatron's layers, by hand from Megatron-Bridge's sources."""

from typing import Any

import pytest

from trainfit.estimator.blocks.tower.weights import shared_parameters
from trainfit.estimator.frameworks.megatron import towers
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.placement import placements
from trainfit.estimator.results import Estimate, Stage
from trainfit.estimator.run import MegatronRun, run_of
from trainfit.estimator.segment import Segment
from trainfit.questions.estimate import answer, plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.specs.job import Job

OF_TRANSFORMERS, OF_MEGATRON = "Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen3-VL-8B-Instruct"
TOKENS, PATCHES = 1024, 4 * 1024
BOTH = ["vision_tower", "multi_modal_projector"]


def asked(
    model: str,
    tokens: int | None,
    parallelism: dict[str, Any] | None = None,
    framework: dict[str, Any] | None = None,
    **training: Any,
) -> Job:
    return Job.model_validate(
        {
            "model": {"hf_id": model},
            "parallelism": {"num_gpus": 8, "tp": 2} | (parallelism or {}),
            "training": {"seq_length": 2048, "image_tokens": tokens, **training},
            "framework": {"name": "megatron", **(framework or {})},
            "gpu": "H100-80GB",
        }
    )


def run(*args: Any, **training: Any) -> MegatronRun:
    plan = plan_of(asked(*args, **training))
    assert isinstance(plan, MegatronPlan)
    return run_of(plan)


def segments(*args: Any, **training: Any) -> list[Segment]:
    of = run(*args, **training)
    assert of.model.encoder is not None
    return list(towers._segments(of.model.encoder, TOKENS, of))


def estimate(*args: Any, **training: Any) -> Estimate:
    return answer(asked(*args, **training), replay=False)


def sizes(stage: Stage) -> dict[str, int]:
    return {each.name: each.bytes for each in stage.components}


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_megatrons_layers_keep_a_share_of_what_is_wide(tp: int) -> None:
    """Of a patch, 16 heads of 72 and 4304 features in bf16: what enters either half and its norm's
    output are whole on every rank, statistics and cosines and sines fp32.
    """
    h, f, heads, d = 1152, 4304, 16, 72
    attention = 2 * 2 * h + 8 + 3 * 2 * h // tp + 2 * h // tp + 4 * heads // tp + 4 * 4 * d
    network = 2 * 2 * h + 8 + 2 * 2 * f // tp
    merger = 2 * 2 * h + 8 + 2 * 2 * h // tp
    _, *layers = segments(OF_MEGATRON, TOKENS, {"tp": tp})
    assert [each.saved for each in layers[:27]] == [PATCHES * (attention + network)] * 27
    assert [each.saved for each in layers[27:]] == [PATCHES * merger] * 4


def test_transformers_modules_are_whole_on_every_rank() -> None:
    """The gradient of each weight is added to the main gradients, and let go of."""
    one, four = (segments(OF_TRANSFORMERS, TOKENS, {"tp": tp}) for tp in (1, 4))
    assert one == four
    as_is = segments(OF_MEGATRON, TOKENS, {"tp": 4}, {"tower_impl": "transformers"})
    assert sum(each.saved for each in as_is) > sum(
        each.saved for each in segments(OF_MEGATRON, TOKENS, {"tp": 4})
    )
    assert all(each.gradients == 0 for each in one)


@pytest.mark.parametrize("model", [OF_TRANSFORMERS, OF_MEGATRON])
def test_a_tower_lies_on_the_first_stage(model: str) -> None:
    """Its activations wait there for as many micro-batches as are in flight."""
    layout = {"pp": 2, "tp": 1}
    none, some = (estimate(model, tokens, layout) for tokens in (0, TOKENS))
    of_tower = sum(each.saved for each in segments(model, TOKENS, layout))
    first, second = (
        sizes(after)["activations"] - sizes(before)["activations"]
        for before, after in zip(none.stages, some.stages, strict=True)
    )
    assert some.stages[0].microbatches_in_flight == 2
    assert second == 0
    # One of two is half way through its backward where the peak is.
    assert of_tower < first <= 2 * of_tower


def test_ranks_share_out_what_megatrons_linears_multiply_with() -> None:
    """27 layers of 16 heads, a merger and three of earlier layers, with the bias of what is shared
    out by rows.
    """
    h, f, text = 1152, 4304, 4096
    layer = 3 * h * h + 3 * h + h * h + h * f + f + f * h
    merger = 16 * h * h + 4 * h + 4 * h * text
    found = run(OF_MEGATRON, 0)
    assert found.model.encoder is not None
    assert shared_parameters(found.model.encoder) == (27 * layer + 3 * merger, merger)
    whole, halves = (
        estimate(OF_MEGATRON, 0, {"tp": 2}, framework).stages[0].chunks[0].parameters
        for framework in ({"tower_impl": "transformers"}, {})
    )
    assert whole - halves == (27 * layer + 4 * merger) // 2


@pytest.mark.parametrize("model", [OF_TRANSFORMERS, OF_MEGATRON])
def test_what_is_frozen_has_no_gradients_and_no_states(model: str) -> None:
    spec = run(model, 0, {"tp": 1}).model
    projector = spec.projector_parameters or 0
    tower = spec.encoder_parameters - projector
    all_, without, alone = (
        estimate(model, TOKENS, {"tp": 1}, frozen=frozen)
        for frozen in ([], BOTH, ["vision_tower", "language_model"])
    )
    assert all_.model.parameters.trainable - without.model.parameters.trainable == projector + tower
    assert alone.model.parameters.trainable == projector
    for found, trained in ((all_, None), (without, None), (alone, projector)):
        trained = trained or found.model.parameters.trainable
        gradients = sizes(found.stages[0])["gradients"]
        assert gradients == 4 * trained
        assert sizes(found.stages[0])["weights"] == 2 * all_.model.parameters.total


@pytest.mark.parametrize("model", [OF_TRANSFORMERS, OF_MEGATRON])
def test_a_frozen_tower_keeps_nothing(model: str) -> None:
    assert not any(each.saved for each in segments(model, TOKENS, frozen=BOTH))
    learns = segments(model, TOKENS, frozen=["vision_tower"])
    assert any(each.saved for each in learns)
    assert sum(each.saved for each in learns) < sum(each.saved for each in segments(model, TOKENS))
    adapters = {"method": "lora", "r": 8, "target_modules": ["linear_qkv"]}
    assert not any(each.saved for each in segments(model, TOKENS, peft=adapters))


def test_a_frozen_text_model_keeps_no_inputs_of_its_linears() -> None:
    """Gradients go through it to the projector."""
    trained, frozen = (
        sizes(estimate(OF_TRANSFORMERS, 0, frozen=names).stages[0])["activations"]
        for names in ([], ["language_model"])
    )
    assert 0 < frozen < trained


@pytest.mark.parametrize(
    ("model", "values"), [(OF_TRANSFORMERS, 3 * 2 * 14 * 14), (OF_MEGATRON, 3 * 2 * 16 * 16)]
)
def test_the_first_stage_is_sent_pixels_in_fp32(model: str, values: int) -> None:
    """Colours of patches of two frames."""
    plan = plan_of(asked(model, TOKENS, {"pp": 2}))
    assert isinstance(plan, MegatronPlan)
    ledger = MegatronLedger(run_of(plan))
    sent = [
        ledger.batch_bytes(placement.content)
        for rank in placements(plan.layout.pipeline, plan.model.pattern, plan.mtp_layers)
        for placement in rank
    ]
    assert sent == [4 * PATCHES * values, 0]


def test_positions_of_sounds_that_are_never_trained_have_no_gradients() -> None:
    """1,500 of Whisper's 1,280 sines."""
    found = estimate("mistralai/Voxtral-Mini-3B-2507", 0, {"tp": 1})
    counts = found.model.parameters
    assert counts.total - counts.trainable == 1500 * 1280
    assert sizes(found.stages[0])["gradients"] == 4 * counts.trainable


@pytest.mark.parametrize("granularity", ["selective", "full"])
def test_megatrons_layers_are_recomputed_as_the_texts(granularity: str) -> None:
    once = segments(OF_MEGATRON, TOKENS)
    again = segments(OF_MEGATRON, TOKENS, recompute={"granularity": granularity})
    if granularity == "full":
        assert [each.saved for each in again[1:28]] == [PATCHES * 2 * 1152] * 27
        return
    log_sum_exp = 4 * 16 // 2
    assert once[1].saved - again[1].saved == PATCHES * log_sum_exp


def test_transformers_layers_are_recomputed_where_it_is_said() -> None:
    recompute = {"granularity": "full"}
    once = segments(OF_TRANSFORMERS, TOKENS, recompute=recompute)
    again = segments(OF_TRANSFORMERS, TOKENS, {}, {"recompute_tower": True})
    assert [each.saved for each in again[2:34]] == [PATCHES * 2 * 1280] * 32
    assert all(each.saved > PATCHES * 2 * 1280 for each in once[2:34])


@pytest.mark.parametrize("pp", [1, 4])
@pytest.mark.parametrize("model", [OF_TRANSFORMERS, OF_MEGATRON])
def test_unsaid_the_bounds_span_from_no_image_to_nothing_else(model: str, pp: int) -> None:
    """On a first stage that as many micro-batches are in flight on as there are stages."""
    unsaid, none, every = (estimate(model, tokens, {"pp": pp}) for tokens in (None, 0, 2048))
    assert "encoder-bounded" in {each.id for each in unsaid.assumptions}
    assert not unsaid.warnings
    bounds = unsaid.stages[0].allocated_bytes
    assert bounds.low <= none.stages[0].allocated_bytes.expected
    assert every.stages[0].allocated_bytes.expected <= bounds.high


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"frozen": ["lm_head"]}, "Megatron-Bridge freezes"),
        ({"frozen": [*BOTH, "language_model"]}, "nothing is left"),
    ],
)
def test_what_cannot_be_frozen_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        plan_of(asked(OF_TRANSFORMERS, 0, **changes))


@pytest.mark.parametrize(
    ("model", "framework", "message"),
    [
        (OF_TRANSFORMERS, {"tower_impl": "transformer_engine"}, "does not make this model"),
        (OF_MEGATRON, {"recompute_tower": True}, "recomputed where the text's are"),
    ],
)
def test_towers_that_nobody_makes_are_refused(
    model: str, framework: dict[str, Any], message: str
) -> None:
    with pytest.raises(RefusedError, match=message):
        plan_of(asked(model, 0, {}, framework))
