"""FlashAttention under axolotl's context parallelism, as examples/distributed-parallel has it."""

from __future__ import annotations

import pytest

from tests.launch.launches import Read, launch_of, read

CONFIG = """
base_model: Qwen/Qwen3-8B
dp_shard_size: 2
context_parallel_size: 2
tensor_parallel_size: 2
fsdp_version: 2
fsdp_config:
  auto_wrap_policy: TRANSFORMER_BASED_WRAP
  transformer_layer_cls_to_wrap: Qwen3DecoderLayer
sequence_len: 8192
sample_packing: true
micro_batch_size: 1
attn_implementation: flash_attention_2
bf16: true
"""


def run(old: str = "", new: str = "") -> Read:
    text = CONFIG.replace(old, new) if old else CONFIG
    return read(launch_of({"a.yaml": text}, overrides={"parallelism": {"num_gpus": 8}}))


@pytest.mark.parametrize("named", ["attn_implementation: flash_attention_2", "flash_attention: on"])
def test_a_ring_keeps_what_the_one_of_sdpa_does_and_gathers_keys_and_values(named: str) -> None:
    found = run("attn_implementation: flash_attention_2", named)
    assert found.field("/parallelism/cp") == 2
    assert found.field("/training/attention/backend") == "sdpa"
    (told,) = [each for each in found.account.bounded if each.key == named.partition(":")[0]]
    # Keys, values and the gradients of both, once more while the next are fetched: 8 heads of 128.
    assert (told.direction, told.bytes) == ("raises", 2 * 2 * 4 * 8192 * 8 * 128)


def test_without_context_parallelism_flash_attention_is_itself() -> None:
    found = run("context_parallel_size: 2", "context_parallel_size: 1")
    assert found.field("/training/attention/backend") == "flash"
    assert not found.left_out


def test_a_model_that_is_not_known_here_leaves_the_ring_open() -> None:
    assert "attn_implementation" in run("Qwen/Qwen3-8B", "own/model").unsupported
