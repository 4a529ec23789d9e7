"""The gate in front of the command that trains, and recorders in the place of launchers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from trainfit.cli import started
from trainfit.cli.started import Started

SIZES = (
    "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 "
    "--max-position-embeddings 1024 --micro-batch-size 1 --bf16"
)
TRAIN = f"torchrun --nproc_per_node 8 pretrain_gpt.py {SIZES}"
Become = Callable[[str, Any], None]


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What a guard became, in the place of this process."""
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(os, "execvp", lambda _, words: commands.append(tuple(words)))
    return commands


def test_what_fits_is_started(run: Run, became: list[tuple[str, ...]]) -> None:
    outcome = run(f"guard --gpu H100-80GB -- {TRAIN}")
    assert became == [tuple(TRAIN.split())]
    assert "fits" in outcome.err
    assert not outcome.out  # it belongs to what is started


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (TRAIN.replace("512", "65536"), 1),
        ("echo hello", 2),
        (f"{TRAIN} --magic 3", 4),
    ],
)
def test_what_does_not_pass_is_not_started(
    run: Run, became: list[tuple[str, ...]], command: str, code: int
) -> None:
    outcome = run(f"guard --gpu H100-80GB -- {command}")
    assert outcome.code == code
    assert not became


def test_only_the_first_rank_tells(
    run: Run, became: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_PROCID", "3")
    assert not run(f"guard --gpu H100-80GB -- {TRAIN}").err
    assert became


def test_the_environment_and_the_files_of_a_command_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text("deepspeed: ds.json\nmodel_name_or_path: ./model\n")
    (tmp_path / "ds.json").write_text("{}")
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text('{"model_type": "llama"}')
    environment = {"WORLD_SIZE": "16", "HF_TOKEN": "secret", "PYTORCH_CUDA_ALLOC_CONF": "x"}
    words = ["train.py", "--config=run.yaml", "--model", "./model", "--data", "missing.json"]
    launch = Started(words, environment, tmp_path).job["launch"]
    assert launch["argv"] == words
    assert launch["env"] == {"WORLD_SIZE": "16", "PYTORCH_CUDA_ALLOC_CONF": "x"}
    assert {each["path"] for each in launch["files"]} == {
        "run.yaml",
        "ds.json",
        "./model/config.json",
    }


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("NVIDIA H100 80GB HBM3, 81559\n" * 8, "H100-80GB"),
        ("NVIDIA A100-SXM4-40GB, 40960\n", "A100-40GB"),
        ("NVIDIA Nothing, 1000\n", {"memory_bytes": 1000 * 2**20}),
        ("NVIDIA Nothing, 1000\nNVIDIA Other, 1000\n", None),
        ("", None),
    ],
)
def test_the_card_is_that_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, found: Any
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!{sys.executable}\nprint({told!r}, end='')\n")
    tool.chmod(0o700)
    monkeypatch.setattr(started, "QUERY", (str(tool),))
    if isinstance(found, str):
        from trainfit.catalog.gpus import find_gpu

        found = find_gpu(found).name
    assert started.card() == found


def test_without_a_card_one_has_to_be_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(started, "QUERY", ("no-such-tool",))
    outcome = run(f"guard -- {TRAIN}")
    assert outcome.code == 2
    assert "give --gpu" in outcome.err


def test_a_script_is_run_and_what_it_starts_is_recorded(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    done = tmp_path / "done"
    script.write_text(
        "LAYERS=$(python3 -c 'print(2 + 2)')\n"
        f"touch {done}\n"
        f"torchrun --nproc_per_node 8 pretrain_gpt.py {SIZES} --num-layers $LAYERS\n"
    )
    outcome = run(f"capture --gpu H100-80GB -- bash {script}")
    assert outcome.code == 0
    assert done.exists()
    assert "fits" in outcome.err


def test_a_script_that_starts_nothing_is_refused(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "idle.sh"
    script.write_text("python3 -c 'print(1)'\n")
    outcome = run(f"capture --gpu H100-80GB -- bash {script}")
    assert outcome.code == 2
    assert "nothing that trains was started" in outcome.err


@pytest.mark.parametrize("name", ["guard", "capture"])
def test_a_command_has_to_be_given(run: Run, name: str) -> None:
    assert run(f"{name} --gpu H100-80GB").code == 2
