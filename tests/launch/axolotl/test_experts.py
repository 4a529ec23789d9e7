"""What axolotl makes of experts below adapters."""

from __future__ import annotations

import pytest

from tests.launch.launches import launch_of, read
from trainfit.launch.account import Bounded
from trainfit.specs.launch import Launch

QLORA = """
base_model: Qwen/Qwen3-30B-A3B
adapter: qlora
load_in_4bit: true
lora_r: 16
lora_target_modules: [q_proj, v_proj]
sequence_len: 2048
micro_batch_size: 1
gradient_checkpointing: true
"""
QUANTISED = "/training/peft/quantize_experts"
OF_A_LAYER = 3 * 128 * 768 * 2048
"""Elements of the experts of a layer: matrices, experts, width, hidden size."""


def launch(more: str = "", version: str | None = None) -> Launch:
    gpus = {"parallelism": {"num_gpus": 2}}
    return launch_of({"qlora.yaml": QLORA + more}, overrides=gpus, framework_version=version)


def bounded(asked: Launch, key: str) -> Bounded:
    (found,) = [each for each in read(asked).account.bounded if each.key == key]
    return found


def test_the_library_says_whether_experts_are_quantised() -> None:
    assert read(launch()).field(QUANTISED) is None
    assert read(launch(version="transformers 4.57")).field(QUANTISED) is True
    assert read(launch("quantize_moe_experts: true\n")).field(QUANTISED) is True


def test_experts_that_are_not_quantised_may_be_widened() -> None:
    effect = bounded(launch(), "load_in_4bit")
    (within,) = effect.within
    assert (effect.direction, within.pointer, within.value) == (
        "raises",
        "/training/peft/base_dtype",
        "fp32",
    )
    under_fsdp = "fsdp_version: 2\nfsdp_config:\n  reshard_after_forward: true\n"
    assert "load_in_4bit" not in read(launch(under_fsdp)).bounded


@pytest.mark.parametrize(
    ("more", "number"),
    [
        ("", 2 * OF_A_LAYER),
        ("gradient_checkpointing: false\n", 48 * 2 * OF_A_LAYER),
        (
            "fsdp_version: 2\nfsdp_config:\n  reshard_after_forward: true\n",
            2 * OF_A_LAYER + 48 * (OF_A_LAYER // 2 + OF_A_LAYER // 64 + OF_A_LAYER // 4096),
        ),
    ],
)
def test_experts_are_made_wide_where_they_are_read(more: str, number: int) -> None:
    text = QLORA.replace("gradient_checkpointing: true\n", "") if "checkpointing" in more else QLORA
    asked = launch_of(
        {"qlora.yaml": text + more + "quantize_moe_experts: true\n"},
        overrides={"parallelism": {"num_gpus": 2}},
    )
    effect = bounded(asked, "quantize_moe_experts")
    assert (effect.direction, effect.bytes) == ("raises", number)


@pytest.mark.parametrize(("again", "layers"), [(True, 1), (False, 48)])
def test_experts_of_8_bits_are_made_fp32_as_are_their_rows(again: bool, layers: int) -> None:
    """A matrix twice while it is made, and what 2,048 tokens have of 8 experts each."""
    text = QLORA.replace("adapter: qlora\nload_in_4bit", "adapter: lora\nload_in_8bit")
    if not again:
        text = text.replace("gradient_checkpointing: true\n", "")
    asked = launch_of(
        {"lora.yaml": text + "quantize_moe_experts: true\n"},
        overrides={"parallelism": {"num_gpus": 2}},
    )
    rows = 2 * 8 * 2048 * (2 * 2048 + 3 * 768) * (layers + 1)
    effect = bounded(asked, "quantize_moe_experts")
    assert effect.bytes == 4 * OF_A_LAYER * layers + 4 * OF_A_LAYER // 3 + rows


def test_its_own_fsdp2_widens_nothing() -> None:
    """Source: axolotl/monkeypatch/accelerate/fsdp2.py, in the place of accelerate's."""
    whole = QLORA.replace("adapter: qlora\nload_in_4bit: true\n", "bf16: true\n")
    gpus = {"parallelism": {"num_gpus": 8}}
    for version, precision in ((1, "bf16"), (2, "bf16-pure")):
        text = f"{whole}fsdp_version: {version}\nfsdp_config:\n  reshard_after_forward: true\n"
        found = read(launch_of({"full.yaml": text}, overrides=gpus))
        assert found.field("/training/precision") == precision
