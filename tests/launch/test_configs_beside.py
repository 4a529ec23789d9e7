"""DeepSpeed's configs that come with a tool: read where a launch names one and does not send it."""

from __future__ import annotations

import pytest

from tests.launch.launches import Read, launch_of, read
from trainfit.launch.errors import LaunchError

FACTORY = """model_name_or_path: Qwen/Qwen2.5-7B-Instruct
finetuning_type: full
template: qwen
cutoff_len: 4096
per_device_train_batch_size: 1
bf16: true
deepspeed: NAMED
"""
AXOLOTL = """base_model: Qwen/Qwen2.5-7B-Instruct
sequence_len: 4096
micro_batch_size: 1
bf16: true
optimizer: adamw_torch
deepspeed: NAMED
"""
EIGHT = {"parallelism": {"num_gpus": 8}}
SHARING = "/parallelism/data_parallel_sharding_strategy"


def of(text: str, named: str, *sent: str) -> Read:
    files = {"run.yaml": text.replace("NAMED", named), **dict.fromkeys(sent, SENT)}
    return read(launch_of(files, overrides=EIGHT))


SENT = '{"zero_optimization": {"stage": 1}}'


def test_llama_factorys_are_read_and_an_older_one_takes_more() -> None:
    found = of(FACTORY, "examples/deepspeed/ds_z3_config.json")
    assert found.field(SHARING) == "optim_grads_params"
    assert found.field("/framework/deepspeed/overlap_comm") is False
    (told,) = found.account.bounded
    assert (told.key, told.direction) == ("deepspeed", "raises")
    assert [each.pointer for each in told.within] == ["/framework/deepspeed/overlap_comm"]
    away = of(FACTORY, "../LlamaFactory/examples/deepspeed/ds_z2_offload_config.json")
    assert away.field(SHARING) == "optim_grads"
    assert away.field("/framework/deepspeed/offload_optimizer") is True


def test_axolotls_are_read() -> None:
    found = of(AXOLOTL, "deepspeed_configs/zero3_bf16.json")
    assert found.field(SHARING) == "optim_grads_params"
    assert found.field("/framework/deepspeed/overlap_comm") is True
    assert not found.left_out


def test_what_is_sent_counts() -> None:
    path = "examples/deepspeed/ds_z3_config.json"
    found = of(FACTORY, path, path)
    assert found.field(SHARING) == "optim"
    assert not found.left_out


@pytest.mark.parametrize("named", ["ds_z3_config.json", "examples/deepspeed/mine.json"])
def test_another_has_to_be_sent(named: str) -> None:
    with pytest.raises(LaunchError, match="send that file"):
        of(FACTORY, named)
