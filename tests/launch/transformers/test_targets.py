"""Which linears words, ends of paths and patterns name."""

from __future__ import annotations

import pytest

from tests.launch.launches import launch_of, read
from trainfit.launch.transformers.targets import linears_of
from trainfit.questions.python import estimate

OF_TEXT = (
    r"model.language_model.layers.[\d]+.(mlp|cross_attn|self_attn).(up|down|gate|q|k|v|o)_proj"
)
WRAPPED = (
    r"model.language_model.layers.[\d]+.(_checkpoint_wrapped_module.)?(mlp|self_attn)"
    r".(up|down|gate|q|k|v|o)_proj"
)
SOME = r".*\.layers\.(3|7|11)\.self_attn\.(q|k|v|o)_proj|.*\.mlp\.(gate|up|down)_proj"
ALL = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["q_proj", "v_proj"], {"q_proj", "v_proj"}),
        (["self_attn.q_proj", "mlp.down_proj"], {"q_proj", "down_proj"}),
        ([OF_TEXT], ALL),
        ([WRAPPED], ALL),
        ([SOME], ALL),
        ([r"^(language_model).*\.(q_proj|k_proj)$"], {"q_proj", "k_proj"}),
        ([r".*\.vision_tower\..*"], None),
        (["("], None),
    ],
)
def test_names_of_linears(given: list[str], names: set[str] | None) -> None:
    found = linears_of(given)
    assert found is None if names is None else set(found or ()) == names


AXOLOTL = """base_model: meta-llama/Llama-3.1-8B
adapter: lora
lora_r: 8
lora_target_modules: '{}'
sequence_len: 512
micro_batch_size: 1
optimizer: adamw_torch
bf16: true
"""


def test_a_pattern_trains_what_it_names() -> None:
    def trained(pattern: str) -> int:
        files = [{"path": "a.yaml", "content": AXOLOTL.format(pattern)}]
        launch = {"files": files, "overrides": {"parallelism": {"num_gpus": 1}}}
        return estimate({"launch": launch}, activations=False).model.parameters.trainable

    # of q_proj [4096, 4096] in 32 layers: 8 elements for each row and each column
    assert trained(r".*\.layers\.[\d]+\.self_attn\.q_proj") == 32 * 8 * (4096 + 4096)
    assert trained(OF_TEXT.replace(".language_model", "")) == trained(",".join(sorted(ALL)))


def test_a_pattern_of_which_nothing_is_known_is_unsupported() -> None:
    files = {"a.yaml": AXOLOTL.format(r".*\.tower\..*")}
    launch = launch_of(files, overrides={"parallelism": {"num_gpus": 1}})
    assert read(launch).unsupported == {"lora_target_modules"}


@pytest.mark.parametrize("pattern", ["a{99999999999}", "(?:" * 2000 + "a" + ")" * 2000, "(", "a**"])
def test_a_pattern_that_cannot_be_compiled_names_nothing(pattern: str) -> None:
    assert linears_of([pattern]) is None
