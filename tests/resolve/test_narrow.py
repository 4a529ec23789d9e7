"""Products in fp8 and fp4 that a GPU does not have."""

from typing import Any

import pytest

from trainfit.questions.estimate import plan_of
from trainfit.specs.job import Job

MODEL = {
    "num_layers": 2,
    "hidden_size": 256,
    "num_attention_heads": 4,
    "vocab_size": 1024,
    "position_embedding_type": "rope",
}


def remarks(gpu: Any, framework: str = "megatron", **precision: str) -> tuple[str, ...]:
    document = {
        "model": {"spec": MODEL},
        "parallelism": {"num_gpus": 1},
        "training": {"micro_batch_size": 1, "seq_length": 128, "precision": precision},
        "framework": {"name": framework},
        "gpu": gpu,
    }
    return plan_of(Job.model_validate(document)).remarks


@pytest.mark.parametrize(
    ("gpu", "precision", "told"),
    [
        ("H200", {"fp8_recipe": "mxfp8"}, "at least 10.0, and H200-141GB has 9.0"),
        ("H100-80GB", {"fp4_recipe": "nvfp4"}, "at least 10.0"),
        ("A100-80GB", {"fp8_recipe": "delayed"}, "at least 8.9"),
        ("L40S", {"fp8_recipe": "blockwise"}, "at least 9.0"),
        ("RTX 5090", {"fp8_recipe": "mxfp8"}, "less than 12.0, and RTX 5090 has 12.0"),
    ],
)
def test_a_format_that_a_gpu_does_not_multiply_in_is_doubted(
    gpu: str, precision: dict[str, str], told: str
) -> None:
    (remark,) = remarks(gpu, **precision)
    assert remark.startswith("TransformerEngine multiplies in ")
    assert told in remark


@pytest.mark.parametrize(
    ("gpu", "precision"),
    [
        ("B200", {"fp8_recipe": "mxfp8"}),
        ("GB300", {"fp4_recipe": "nvfp4"}),
        ("RTX 5090", {"fp4_recipe": "nvfp4"}),
        ("H100-80GB", {"fp8_recipe": "blockwise"}),
        ("L40S", {"fp8_recipe": "tensorwise"}),
        ("A100-80GB", {}),
        ({"memory_bytes": 80 * 2**30}, {"fp8_recipe": "mxfp8"}),
        ("MI300X", {"fp8_recipe": "delayed"}),
    ],
)
def test_a_format_that_a_gpu_has_or_may_have_is_not(gpu: Any, precision: dict[str, str]) -> None:
    assert not remarks(gpu, **precision)


def test_torchtitan_multiplies_by_torchao() -> None:
    (remark,) = remarks("H100-80GB", "torchtitan", fp8_recipe="mxfp8")
    assert remark.startswith("torchao multiplies in mxfp8")
    assert not remarks("RTX 5090", "torchtitan", fp8_recipe="mxfp8")
