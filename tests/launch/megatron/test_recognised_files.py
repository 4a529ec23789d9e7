"""Which files are taken for those of a model that Megatron builds."""

from __future__ import annotations

import pytest

from tests.launch.launches import launch_of, read
from trainfit.launch.errors import LaunchError

SPEECH = """
name: Conformer-CTC
model:
  sample_rate: 16000
  train_ds: {batch_size: 16}
  encoder: {_target_: nemo.collections.asr.modules.ConformerEncoder, n_layers: 16, d_model: 176}
trainer: {devices: -1, num_nodes: 1}
"""
A_PATH = """
model: Qwen/Qwen3-0.6B
micro_batch_size: 1
train:
  gpus: 4
"""


@pytest.mark.parametrize("text", [SPEECH, A_PATH], ids=["speech", "the path of a model"])
def test_what_has_no_layers_of_megatron_is_not_one(text: str) -> None:
    with pytest.raises(LaunchError, match="holds no launch that is recognised"):
        read(launch_of({"config.yaml": text}))


def test_a_model_of_any_program_may_trust_remote_code() -> None:
    argv = ["python", "-m", "some.generation", "model.path=gpt2", "+model.trust_remote_code=True"]
    with pytest.raises(LaunchError, match="holds no launch that is recognised"):
        read(launch_of(argv=argv))
