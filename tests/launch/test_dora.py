"""Decomposed adapters: a field of PEFT's, elsewhere bounded by what a linear makes and keeps of its
weights besides.
"""

from __future__ import annotations

import pytest

from tests.launch.launches import Read, launch_of, read

DECOMPOSED = "/training/peft/decomposed"
LLAMA = "meta-llama/Llama-3.1-8B"
EIGHT = {"parallelism": {"num_gpus": 8}}
TRL = (
    f"python sft.py --model_name_or_path {LLAMA} --per_device_train_batch_size 2 --max_length 1024 "
    "--bf16 --use_peft --lora_target_modules all-linear --output_dir out --use_dora "
)
FACTORY = f"""model_name_or_path: {LLAMA}
finetuning_type: lora
template: llama3
cutoff_len: 1024
per_device_train_batch_size: 2
bf16: true
use_dora: true
"""
AXOLOTL = f"""base_model: {LLAMA}
sequence_len: 1024
micro_batch_size: 2
adapter: lora
lora_r: 8
lora_target_linear: true
peft_use_dora: true
optimizer: adamw_torch
gradient_checkpointing: true
bf16: true
"""
TORCHTUNE = """model:
  _component_: torchtune.models.llama3_1.lora_llama3_1_8b
  lora_attn_modules: ['q_proj', 'v_proj']
  apply_lora_to_mlp: True
  lora_rank: 8
  use_dora: True
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  max_seq_len: 1024
batch_size: 2
dtype: bf16
enable_activation_checkpointing: True
optimizer:
  _component_: torch.optim.AdamW
"""
H, KV, F, LAYERS, TOKENS = 4096, 1024, 14336, 32, 2048
ROWS = H + 2 * KV + H + 2 * F + H
COLUMNS = 6 * H + F
WEIGHTS = 2 * H * H + 2 * KV * H + 3 * F * H
KEPT = 4 * (TOKENS * (2 * ROWS + COLUMNS) + WEIGHTS)
ONCE = 4 * (4 * F * H + max(F, H) ** 2 + 6 * TOKENS * F) + 20 * LAYERS * ROWS


def trl(more: str) -> Read:
    return read(launch_of(argv=(TRL + more).split(), overrides=EIGHT))


def of_file(text: str) -> Read:
    return read(launch_of({"run.yaml": text}, overrides=EIGHT))


@pytest.mark.parametrize(
    "found", [trl(""), of_file(FACTORY), of_file(AXOLOTL + "lora_mlp_kernel: false\n")]
)
def test_peft_learns_lengths(found: Read) -> None:
    assert found.field(DECOMPOSED) is True
    assert not [each for each in found.account.bounded if "dora" in each.key]


@pytest.mark.parametrize(
    ("found", "layers"),
    [
        (of_file(AXOLOTL), 1),
        (of_file(TORCHTUNE), 1),
        (
            of_file(TORCHTUNE.replace("checkpointing: True", "checkpointing: False")),
            LAYERS,
        ),
    ],
)
def test_what_is_kept_and_made_bounds_it(found: Read, layers: int) -> None:
    (told,) = [each for each in found.account.bounded if "dora" in each.key]
    assert told.direction == "raises"
    # of the down projection [h, f], an identity [f, f]
    assert told.bytes == layers * KEPT + ONCE
    assert not [each for each in found.unsupported if "dora" in each]
    assert found.field(DECOMPOSED) is None


def test_it_changes_nothing_without_adapters_or_switched_off() -> None:
    told_off = read(launch_of(argv=TRL.replace("--use_dora", "--use_dora false").split()))
    assert not [each for each in told_off.left_out if "dora" in each]
    assert told_off.field(DECOMPOSED) is None
    whole = read(launch_of(argv=TRL.replace("--use_peft ", "").split()))
    assert not [each for each in whole.left_out if "dora" in each]


@pytest.mark.parametrize("model", ["Qwen/Qwen3-30B-A3B", "mistralai/Mixtral-8x7B-v0.1"])
def test_experts_are_not_bounded(model: str) -> None:
    found = read(launch_of(argv=TRL.replace(LLAMA, model).split(), overrides=EIGHT))
    (told,) = [each for each in found.account.unsupported if each.key == "use_dora"]
    assert told.direction == "raises"
