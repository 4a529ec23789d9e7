"""What keys that are not modelled can do to memory: told in the account, and taken into bounds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.launches import launch_of, read
from trainfit.questions.python import compare, estimate, fit_check

TRAINING = {
    "model_name_or_path": "meta-llama/Llama-3.1-8B",
    "per_device_train_batch_size": 1,
    "max_length": 2048,
    "bf16": True,
    "gradient_checkpointing": True,
    "packing": False,
    "learning_rate": 1e-5,
}
TORCHTUNE = """
model: {_component_: torchtune.models.llama3_1.llama3_1_8b}
tokenizer: {_component_: torchtune.models.llama3.llama3_tokenizer, max_seq_len: 4096}
optimizer: {_component_: torch.optim.AdamW, fused: true}
loss: {_component_: torchtune.modules.loss.LinearCrossEntropyLoss}
batch_size: 2
gradient_accumulation_steps: 1
enable_activation_checkpointing: true
dtype: bf16
"""
ACCEPTED = {"accept_unsupported": ["*"]}


def launch(files: dict[str, str], num_gpus: int = 8) -> dict[str, Any]:
    return {
        "files": [{"path": path, "content": text} for path, text in files.items()],
        "overrides": {"parallelism": {"num_gpus": num_gpus}},
        "gpu": "H100-80GB",
    }


def torchtune() -> dict[str, Any]:
    return launch({"run.yaml": TORCHTUNE})


def trainer(**changes: Any) -> dict[str, Any]:
    text = "\n".join(f"{key}: {value}" for key, value in {**TRAINING, **changes}.items())
    return launch({"sft.yaml": text})


def device(launch: dict[str, Any]) -> tuple[int, int, int]:
    found = estimate({"launch": launch}).binding.device_bytes
    return found.low, found.expected, found.high


def test_a_bound_widens_one_end_only() -> None:
    low, expected, high = device(torchtune())
    without = device(torchtune() | ACCEPTED)
    assert (low, expected) == without[:2]
    whole = torchtune() | ACCEPTED
    whole["overrides"]["training"] = {"loss": {"cross_entropy": "unfused"}}
    assert high == device(whole)[2] > without[2]


def test_the_account_says_what_a_key_can_do_and_who_says_so() -> None:
    (bounded,) = estimate({"launch": torchtune()}).launch.account.bounded  # type: ignore[union-attr]
    assert (bounded.key, bounded.direction) == ("loss._component_", "raises")
    assert [(each.pointer, each.value) for each in bounded.within] == [
        ("/training/loss/cross_entropy", "unfused")
    ]
    assert bounded.source is not None
    assert bounded.source.startswith("torchtune/modules/loss/")


def test_an_answer_names_what_widened_it() -> None:
    assumptions = estimate({"launch": torchtune()}).assumptions
    (told,) = [each.text for each in assumptions if each.id == "bounded-options"]
    assert "run.yaml:5: loss._component_" in told


def test_what_is_accepted_widens_nothing() -> None:
    answer = estimate({"launch": torchtune() | ACCEPTED})
    assert answer.launch is not None
    assert not answer.launch.account.bounded
    assert [each.accepted for each in answer.launch.account.unsupported] == [True]
    assert answer.binding.device_bytes.high < device(torchtune())[2]


def test_a_comparison_has_the_same_bounds() -> None:
    question = torchtune()
    (beside,) = compare({"it": {"launch": question}}).jobs
    assert beside.comparison is not None
    bounds = beside.comparison.binding.device_bytes
    assert (bounds.low, bounds.expected, bounds.high) == device(question)


def test_evaluation_on_a_larger_batch_costs_at_most_a_step_on_it() -> None:
    question = trainer(eval_strategy="steps", per_device_eval_batch_size=8)
    low, expected, high = device(question)
    assert (low, expected) == device(trainer(eval_strategy='"no"'))[:2]
    step = trainer(eval_strategy='"no"', per_device_train_batch_size=8)
    step["overrides"]["training"] = {"loss": {"cross_entropy": "unfused"}}
    assert high == device(step)[2]


def test_evaluation_that_is_off_costs_nothing() -> None:
    found = read(
        launch_of(
            {
                "sft.yaml": "\n".join(f"{k}: {v}" for k, v in TRAINING.items())
                + "\neval_strategy: 'no'\nper_device_eval_batch_size: 64"
            },
            overrides={"parallelism": {"num_gpus": 8}},
        )
    )
    assert not found.account.bounded


AXOLOTL = """
base_model: meta-llama/Llama-3.1-8B
adapter: qlora
load_in_4bit: true
lora_r: 16
lora_target_linear: true
sequence_len: 4096
micro_batch_size: SAMPLES
gradient_accumulation_steps: 1
gradient_checkpointing: true
optimizer: adamw_torch
lora_mlp_kernel: false
layer_offloading: OFFLOADED
"""


def axolotl(samples: int, *, offloaded: bool = True, more: str = "") -> dict[str, Any]:
    text = AXOLOTL.replace("SAMPLES", str(samples)).replace("OFFLOADED", str(offloaded).lower())
    return launch({"config.yml": text + more}, 1)


@pytest.mark.parametrize(
    ("samples", "offloaded", "verdict"),
    [(1, True, "fits"), (1, False, "fits"), (64, False, "does_not_fit"), (64, True, "unknown")],
)
def test_what_only_lowers_the_peak_leaves_fits_standing(
    samples: int, offloaded: bool, verdict: str
) -> None:
    answer = fit_check({"launch": axolotl(samples, offloaded=offloaded)}, suggest=False)
    assert answer.verdict == verdict
    assert [each.direction for each in answer.not_modelled] == ["lowers"] * offloaded


def test_one_key_that_may_do_anything_leaves_nothing_standing() -> None:
    assert fit_check({"launch": axolotl(1, more="lisa_n_layers: 2\n")}).verdict == "unknown"
