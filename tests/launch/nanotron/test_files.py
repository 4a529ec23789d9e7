"""Configs of nanotron."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.launch.launches import DATA, launch_of, read
from tests.launch.mutations import check_every_key
from trainfit.launch.errors import LaunchError
from trainfit.questions.estimate import answer
from trainfit.specs.job import Job
from trainfit.specs.launch import Launch

FILES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "llama_8b_pipeline": (
        {
            "/parallelism/num_gpus": 64,
            "/parallelism/tp": 4,
            "/parallelism/pp": 2,
            "/parallelism/pipeline_schedule": "1f1b",
            "/parallelism/sequence_parallel": True,
            "/parallelism/data_parallel_sharding_strategy": "optim",
            "/training/micro_batch_size": 2,
            "/training/num_microbatches": 16,
            "/training/seq_length": 8192,
            "/training/precision": "bf16",
            "/training/optimizer/name": "adam",
            "/training/recompute/granularity": "full",
            "/framework/make_vocab_size_divisible_by": 128,
            "/framework/tp_linear_async_communication": True,
            "/framework/torch_adam_is_fused": True,
        },
        set(),
    ),
    "tiny_on_one": (
        {
            "/parallelism/num_gpus": 1,
            "/parallelism/pipeline_schedule": None,
            "/parallelism/sequence_parallel": None,
            "/parallelism/data_parallel_sharding_strategy": "no_shard",
            "/training/precision": "bf16-pure",
            "/training/optimizer/name": "sgd",
            "/training/recompute/granularity": None,
        },
        {"model.model_config.z_loss_enabled"},
    ),
}
"""Fields of the job, and keys that are not modelled."""


def text_of(name: str) -> str:
    return (DATA / "nanotron" / f"{name}.yaml").read_text("utf-8")


def launch_named(name: str) -> Launch:
    return launch_of({f"{name}.yaml": text_of(name)})


def leaves(value: dict[str, Any], section: str = "") -> Iterator[str]:
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from leaves(inner, f"{section}{name}.")
        else:
            yield f"{section}{name}"


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read(name: str) -> None:
    fields, unsupported = FILES[name]
    found = read(launch_named(name))
    assert {pointer: found.field(pointer) for pointer in fields} == fields
    assert found.left_out == unsupported
    assert Job.model_validate(found.job).framework.name == "nanotron"


def test_the_model_is_llama_with_the_sizes_of_the_file() -> None:
    estimate = answer(Job.model_validate(read(launch_named("llama_8b_pipeline")).job))
    assert estimate.model.parameters.total == 8_030_261_248
    (stage,) = answer(Job.model_validate(read(launch_named("tiny_on_one")).job)).stages
    assert stage.microbatches_in_flight == 2


@pytest.mark.parametrize("name", FILES)
def test_every_key_of_a_file_is_accounted_for_once(name: str) -> None:
    launch = launch_named(name)
    assert Counter(read(launch).keys) == Counter(leaves(yaml.safe_load(launch.files[0].content)))


@pytest.mark.parametrize("name", FILES)
def test_no_key_goes_unnoticed(name: str) -> None:
    assert check_every_key(launch_named(name)) > 10


def started(nproc: int) -> Launch:
    files = {name: text_of(name) for name in FILES}
    words = ["torchrun", f"--nproc_per_node={nproc}", "--nnodes=8", "run_train.py"]
    words += ["--config-file", "llama_8b_pipeline.yaml"]
    return launch_of({f"{name}.yaml": text for name, text in files.items()}, words)


def test_a_command_names_its_config() -> None:
    found = read(started(8))
    assert found.field("/parallelism/num_gpus") == 64
    assert found.field("/framework/expandable_segments") is False


def test_what_is_started_has_to_be_what_the_sizes_make() -> None:
    with pytest.raises(LaunchError, match="make 64 GPUs, 32 are started"):
        read(started(4))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("is_llama_config: true", "is_starcoder2_config: true", "of nanotron's models Llama and"),
        ("pp_engine: 1f1b", "pp_engine: zb", "must be one of 1f1b, afab"),
        ("tp_mode: REDUCE_SCATTER", "tp_mode: true", "must be a word"),
        ("  dp: 8\n", "", "parallelism.dp is not said"),
        ("  accumulate_grad_in_fp32: true\n", "", "accumulate_grad_in_fp32 is not said"),
        ("tp: 4", "tp: four", "must be a whole number"),
    ],
)
def test_what_cannot_be_read_is_said(old: str, new: str, message: str) -> None:
    text = text_of("llama_8b_pipeline")
    assert text.count(old) == 1
    with pytest.raises(LaunchError, match=message):
        read(launch_of({"run.yaml": text.replace(old, new)}))


def test_two_configs_are_asked_about() -> None:
    files = {f"{name}.yaml": text_of(name) for name in FILES}
    with pytest.raises(LaunchError, match="which is meant"):
        read(launch_of(files))


def test_a_file_without_its_keys_is_no_config() -> None:
    with pytest.raises(LaunchError, match="no file has nanotron's tokens"):
        read(launch_of({"run.yaml": "model: {}"}, format="nanotron"))


def test_words_are_read_in_either_case() -> None:
    text = text_of("llama_8b_pipeline").replace("REDUCE_SCATTER", "all_reduce")
    found = read(launch_of({"run.yaml": text}))
    assert found.field("/parallelism/sequence_parallel") is False


def test_another_dtype_is_not_modelled() -> None:
    text = text_of("llama_8b_pipeline").replace("dtype: bfloat16", "dtype: float32")
    assert read(launch_of({"run.yaml": text})).left_out == {"model.dtype"}


def test_qwen_without_experts_has_llamas_layers() -> None:
    text = text_of("llama_8b_pipeline").replace("is_llama_config", "is_qwen2_config")
    found = read(launch_of({"qwen.yaml": text}))
    llama = read(launch_named("llama_8b_pipeline"))
    assert found.field("/model/hf_config") == llama.field("/model/hf_config")
    (told,) = [each for each in found.account.bounded if each.key.endswith("is_qwen2_config")]
    # 2 bytes, 32 layers over 2 stages and one, 2 x 8192 tokens, 32 + 2 x 8 heads of 128 over 4
    assert (told.direction, told.bytes) == ("either", 2 * 17 * 2 * 8192 * 48 * 128 // 4)


def test_experts_of_qwen_are_not_read() -> None:
    text = text_of("llama_8b_pipeline").replace(
        "is_llama_config: true", "is_qwen2_config: true\n    moe_config: {num_experts: 8}"
    )
    with pytest.raises(LaunchError):
        read(launch_of({"qwen.yaml": text}))


def test_checks_of_ranks_against_each_other_are_bounded() -> None:
    """An embedding of 128,256 rows over four ranks, six times in fp32."""
    checked = ("ignore_sanity_checks: true", "ignore_sanity_checks: false")
    launch = launch_of({"run.yaml": text_of("llama_8b_pipeline").replace(*checked)})
    (bounded,) = read(launch).account.bounded
    assert bounded.key == "general.ignore_sanity_checks"
    assert (bounded.direction, bounded.bytes) == ("raises", 6 * 4 * 128256 * 4096 // 4)


def test_an_optimizer_of_an_older_release_has_its_keys_beside_it() -> None:
    text = text_of("llama_8b_pipeline").replace("  optimizer_factory:\n    name: adamW\n", "")
    found = read(
        launch_of(
            {
                "run.yaml": text.replace("    adam_", "  adam_").replace(
                    "    torch_adam", "  torch_adam"
                )
            }
        )
    )
    assert found.field("/framework/torch_adam_is_fused") is True
    assert not found.left_out
