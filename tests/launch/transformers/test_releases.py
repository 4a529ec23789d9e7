"""Which releases a run can be of, by its keys, its model and what is named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.launches import launch_of
from trainfit.launch.errors import LaunchError
from trainfit.launch.read import read_launch
from trainfit.launch.reading import LaunchReading

LLAMA = "meta-llama/Llama-3.1-8B"
SHIFTED = "/training/loss/shifted"
STEP = "/training/optimizer/implementation"


def run(
    script: str = "train.py", version: str | None = None, files: Any = None, **keys: Any
) -> LaunchReading:
    """A run of a script on 8 GPUs, with these arguments."""
    given = {"model_name_or_path": LLAMA, "bf16": True, "per_device_train_batch_size": 2}
    given |= {"max_length": 2048} if "max_seq_length" not in keys else {}
    words = [f"--{key}={value}" for key, value in (given | keys).items()]
    command = ["torchrun", "--nproc_per_node=8", script, *words]
    return read_launch(launch_of(files, command, framework_version=version))


def field(reading: LaunchReading, pointer: str) -> Any:
    part: Any = reading.job
    for name in pointer.strip("/").split("/"):
        part = part.get(name, {})
    return part or None


def otherwise(reading: LaunchReading) -> dict[str, dict[str, Any]]:
    """What differs under the other releases, by these."""
    return {
        variant.releases: {each.pointer: each.otherwise for each in variant.differences}
        for variant in reading.launch.variants
    }


def test_what_the_latest_release_reads_is_of_the_latest_alone() -> None:
    found = run("sft.py")
    assert field(found, "/training/loss/cross_entropy") == "chunked_nll"
    assert (found.launch.releases, found.launch.variants) == (None, [])


def test_a_key_that_is_gone_takes_the_later_defaults_along() -> None:
    """max_seq_length was TRL's until 0.20, before its loss was in chunks and it recomputed."""
    found = run("sft.py", max_seq_length=2048)
    assert field(found, "/training/loss/cross_entropy") is None
    assert field(found, "/training/recompute/granularity") is None
    latest = "trl from 0.9 to before 0.20"
    assert found.launch.releases == f"transformers from 4.56 to before 5.0 and {latest}"
    assert otherwise(found) == {
        f"transformers from 4.49 to before 4.56 and {latest}": {STEP: "foreach"},
        "transformers from 4.46 to before 4.49 and trl from 0.9 to before 0.18": {
            STEP: "foreach",
            SHIFTED: "logits",
        },
        "transformers from 4.36 to before 4.46 and trl from 0.9 to before 0.12": {
            STEP: "foreach",
            SHIFTED: "fp32_logits",
        },
    }


def test_what_trl_demands_bounds_transformers_and_the_other_way_round() -> None:
    """Without bf16, what TRL does by itself since 0.19, which demands 4.51, shows as well."""
    found = run("sft.py", evaluation_strategy="no", bf16="", completion_only_loss=True)
    assert "trl from 0.17 to before 0.19" in str(found.launch.releases)
    assert "transformers from 4.49 to before 4.51" in str(found.launch.releases)
    assert [*otherwise(found).values()] == [{SHIFTED: "logits"}]


def test_the_model_bounds_the_releases() -> None:
    """Qwen3 came with 4.51."""
    found = run(overwrite_output_dir=True, model_name_or_path="Qwen/Qwen3-8B", optim="adamw_torch")
    assert found.launch.variants == []


def test_keys_of_different_times_are_refused_by_name() -> None:
    with pytest.raises(LaunchError) as error:
        run("sft.py", max_seq_length=2048, loss_type="nll")
    message = (
        "no release of trl has both loss_type, since 0.23, and max_seq_length, until before 0.20"
    )
    assert message in str(error.value)
    with pytest.raises(LaunchError, match=r"both hub_revision, since .* and evaluation_strategy"):
        run(use_ipex=False, hub_revision="main", evaluation_strategy="no")


def test_a_release_that_is_named_counts_before_the_keys() -> None:
    found = run("sft.py", "transformers==4.57.1 trl==0.24.0", max_seq_length=2048)
    assert field(found, "/training/recompute/granularity") == "full"
    assert found.launch.variants == []


def test_one_library_named_leaves_the_other_open() -> None:
    """Of TRL every release is possible that demands no later transformers."""
    found = run("sft.py", "transformers==4.48.1")
    assert found.launch.variants == []
    assert field(found, SHIFTED) == "logits"
    assert field(found, "/training/recompute/granularity") is None
    later = run("sft.py", "transformers==4.56.2")
    assert field(later, "/training/loss/cross_entropy") == "chunked_nll"
    recompute = {"/training/recompute/granularity": None}
    assert any(recompute.items() <= each.items() for each in otherwise(later).values())


@pytest.mark.parametrize(
    ("version", "shifted"),
    [
        ("4.45.2", "fp32_logits"),
        ("4.46.0", "logits"),
        ("4.48.1", "logits"),
        ("4.49.0", None),
        (None, None),
    ],
)
def test_the_release_decides_what_the_loss_copies(version: str | None, shifted: str | None) -> None:
    assert field(run(version=version), SHIFTED) == shifted


def test_liger_brings_its_own_loss_in_every_release() -> None:
    assert field(run(version="4.48.1", use_liger_kernel=True), SHIFTED) is None


@pytest.mark.parametrize(("version", "backend"), [("4.36.2", "eager"), ("4.37.0", None)])
def test_models_got_sdpa_one_by_one(version: str, backend: str | None) -> None:
    found = run(version=version, model_name_or_path="mistralai/Mistral-7B-v0.1")
    assert field(found, "/training/attention/backend") == backend


@pytest.mark.parametrize("version", ["4.45.2", "4.57.1", "5.0.0", None])
def test_fsdps_own_checkpointing_is_a_key_of_every_release(version: str | None) -> None:
    """activation_checkpointing among the arguments themselves came with 5.23."""
    content = '{"activation_checkpointing": true}'
    found = run(
        version=version,
        files={"fsdp.json": content},
        fsdp="full_shard auto_wrap",
        fsdp_config="fsdp.json",
    )
    assert found.launch.account.unsupported == []
    assert field(found, "/training/recompute/granularity") == "full"


@pytest.mark.parametrize(
    ("version", "engine"), [("5.9.0", "fsdp1"), ("5.10.1", "fsdp2"), (None, "fsdp2")]
)
def test_fsdps_version_is_that_of_the_release(version: str | None, engine: str) -> None:
    found = run(version=version, fsdp="full_shard auto_wrap")
    assert field(found, "/framework/data_parallel_engine") == engine


def test_the_fused_step_needs_a_pytorch_that_has_it() -> None:
    assert field(run(version="transformers==4.57.1 torch==2.7.1"), STEP) == "foreach"
    assert field(run(version="transformers==4.57.1 torch==2.8.0"), STEP) == "fused"


def test_the_keys_of_a_script_of_its_own_tell_nothing() -> None:
    content = "warmup_ratio: 0.1\nmodel_name_or_path: x/y\n"
    files = {"args.yaml": content}
    command = ["accelerate", "launch", "--num_processes=1", "mine.py", "args.yaml"]
    overrides = {
        "model": {"hf_id": LLAMA},
        "training": {"micro_batch_size": 1, "seq_length": 64, "precision": "bf16-pure"},
    }
    launch = launch_of(files, command, overrides=overrides, accept_unsupported=["*"])
    assert read_launch(launch).launch.variants == []


FROZEN = {"use_peft": True, "lora_r": 8, "gradient_checkpointing": True, "fsdp": "full_shard"}
WRAPPED = {"fsdp_config.version": 1}
REENTRANT = "/training/recompute/use_reentrant"


@pytest.mark.parametrize(
    ("version", "kwargs", "reentrant"),
    [
        ("transformers==4.57.1 trl==0.24.0", {}, True),
        ("transformers==4.57.1 trl==0.27.0", {}, None),
        ("transformers==5.0.0 trl==0.27.0", {}, None),
        (None, {}, None),
        (None, {"gradient_checkpointing_kwargs.use_reentrant": True}, True),
        (
            "transformers==4.57.1 trl==0.24.0",
            {"gradient_checkpointing_kwargs": '{"use_reentrant": false}'},
            None,
        ),
    ],
)
def test_layers_run_again_as_the_release_has_it(
    version: str | None, kwargs: dict[str, Any], reentrant: bool | None
) -> None:
    found = run("sft.py", version=version, **FROZEN, **WRAPPED, **kwargs)
    assert field(found, REENTRANT) == reentrant


def test_a_switch_that_is_neither_on_nor_off_is_refused() -> None:
    neither = {"gradient_checkpointing_kwargs.use_reentrant": 7}
    keys: dict[str, Any] = {**FROZEN, **WRAPPED, **neither}
    with pytest.raises(LaunchError, match="neither true nor false"):
        run("sft.py", **keys)


@pytest.mark.parametrize(
    ("keys", "reentrant"),
    [
        ({"fsdp": ""}, True),
        ({"use_peft": False}, True),
        ({"fsdp": "", "deepspeed": '{"zero_optimization": {"stage": 3}}'}, None),
    ],
)
def test_how_layers_run_again_is_not_asked_of_deepspeed(
    keys: dict[str, Any], reentrant: bool | None
) -> None:
    given = FROZEN | keys
    found = run("sft.py", version="transformers==4.57.1 trl==0.24.0", **given, **WRAPPED)
    assert field(found, REENTRANT) == reentrant


EACH = "/framework/sync_each_micro_batch"
FSDP2 = {"fsdp": "full_shard auto_wrap", "fsdp_config": '{"fsdp_version": 2}'}


@pytest.mark.parametrize(
    ("accelerate", "keys", "reduces_each"),
    [
        ("accelerate==1.10.1", FSDP2, True),
        ("accelerate==1.11.0", FSDP2, None),
        (None, FSDP2, None),
        ("accelerate==1.10.1", FSDP2 | {"fsdp_config": '{"fsdp_version": 1}'}, None),
    ],
)
def test_accelerate_held_back_no_gradients_of_fsdp2_before_1_11(
    accelerate: str | None, keys: dict[str, str], reduces_each: bool | None
) -> None:
    assert field(run(version=accelerate, **keys), EACH) is reduces_each
