"""Flags and job files make the job that one would send over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from trainfit.cli.flags import flag_at, flags
from trainfit.cli.jobs import job_document
from trainfit.questions.jobs import read_job
from trainfit.specs.job import Job
from trainfit.specs.parallelism import Parallelism

YAML = """
model: {hf_id: Qwen/Qwen3-30B-A3B}
parallelism:
  num_gpus: 16
  tensor_model_parallel_size: 4
  ep: 8
  etp: null
training: {precision: bf16, recompute: {granularity: selective, modules: [moe_act]}}
gpu: {memory_bytes: 85899345920}
"""
TOML = """
gpu = {memory_bytes = 85899345920}
[model]
hf_id = "Qwen/Qwen3-30B-A3B"
[parallelism]
num_gpus = 16
tensor_model_parallel_size = 4
ep = 8
[training]
precision = "bf16"
[training.recompute]
granularity = "selective"
modules = ["moe_act"]
"""


def job_of(document: dict[str, Any]) -> Job:
    job = read_job(document, Job)
    assert isinstance(job, Job)
    return job


def test_every_field_of_the_layout_is_a_flag_with_all_its_names() -> None:
    assert {f"/parallelism/{name}" for name in Parallelism.model_fields} <= set(flags())
    assert flags()["/parallelism/tp"].names == ("--tp", "--tensor-model-parallel-size")
    assert flags()["/parallelism/num_layers_in_first_pipeline_stage"].names == (
        "--num-layers-in-first-pipeline-stage",
        "--decoder-first-pipeline-num-layers",
    )


def test_megatron_names_of_a_step() -> None:
    names = [name for flag in flags().values() for name in flag.names]
    assert len(names) == len(set(names))
    assert {
        "--attention-backend",
        "--attention-dropout",
        "--cross-entropy",
        "--distribute-saved-activations",
        "--exp-avg-dtype",
        "--global-batch-size",
        "--make-vocab-size-divisible-by",
        "--micro-batch-size",
        "--moe-expert-capacity-factor",
        "--mtp-num-layers",
        "--optimizer",
        "--recompute-granularity",
        "--recompute-method",
        "--recompute-modules",
        "--recompute-num-layers",
        "--seq-length",
    } <= set(names)


def test_help_is_what_the_field_says(run: Run) -> None:
    words = run("estimate --help-all").out.replace("│", " ").split()
    assert "Tensor-parallel size." in " ".join(words)
    assert {"--sequence-parallel", "--no-sequence-parallel"} <= set(words)


def test_help_is_two_screens_and_names_what_shows_the_rest(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("estimate --help").out.splitlines()
    assert len(lines) <= 48
    assert any("--help-all" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)
    everything = run("estimate --help-all").out
    assert run("estimate --help").out.splitlines() == lines
    assert all(flag.names[0][:30] in everything for flag in flags().values())


def test_a_pointer_into_a_list_leads_to_its_flag() -> None:
    found = flag_at("/training/recompute/modules/0")
    assert found is not None
    assert found.names == ("--recompute-modules",)
    assert flag_at("/model/hf_config") is None


def test_flags_make_a_job() -> None:
    given = {
        "parallelism_tp": 4,
        "parallelism_use_distributed_optimizer": False,
        "training_recompute_modules": ["moe_act", "mla_up_proj"],
        "training_mtp_num_layers": 0,
        "training_loss_cross_entropy": None,
        "framework_overlap_grad_reduce": False,
        "gpu": "H100-80GB",
    }
    document = job_document("org/name", None, given)
    assert document == {
        "model": {"hf_id": "org/name"},
        "parallelism": {"tp": 4, "use_distributed_optimizer": False},
        "training": {
            "recompute": {"modules": ["moe_act", "mla_up_proj"]},
            "mtp": {"num_layers": 0},
        },
        "framework": {"name": "megatron", "overlap_grad_reduce": False},
        "gpu": "H100-80GB",
    }
    assert job_of(document).parallelism.tp == 4


@pytest.mark.parametrize(
    "line",
    [
        "--recompute-granularity selective --recompute-modules mla_up_proj moe_act --tp 2",
        "--tp=2 --recompute-modules mla_up_proj --recompute-modules moe_act"
        " --recompute-granularity=selective",
    ],
)
def test_several_modules_in_one_flag_or_in_several(run: Run, line: str) -> None:
    answer = json.loads(run(f"estimate deepseek-ai/DeepSeek-V3 {line} --json").out)
    given = {default["pointer"] for default in answer["defaults"]}
    assert "/training/recompute/modules" not in given
    assert "/parallelism/tp" not in given


@pytest.mark.parametrize(("name", "text"), [("job.yaml", YAML), ("job.toml", TOML)])
def test_a_job_file_says_the_same_in_every_format(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    job = job_of(job_document(None, path, {}))
    assert job.parallelism.tp == 4
    twin = tmp_path / "job.json"
    twin.write_text(job.model_dump_json(exclude_unset=True), "utf-8")
    assert job_of(job_document(None, twin, {})) == job


def test_flags_override_a_job_file_under_any_name(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(YAML, "utf-8")
    job = job_of(job_document("org/other", path, {"parallelism_tp": 2, "gpu": "B200"}))
    assert (job.model.hf_id, job.parallelism.tp, job.parallelism.ep) == ("org/other", 2, 8)
    assert job.gpu == "B200"


def test_a_part_that_is_no_object_is_left_to_validation(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("model: {hf_id: gpt2}\nparallelism: 3", "utf-8")
    outcome = run(f"estimate --job {path} --tp 2")
    assert outcome.err == "trainfit: /parallelism: must be an object\n"


def test_a_config_stands_for_its_model_by_file_or_folder(run: Run, tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "vocab_size": 1000,
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), "utf-8")
    by_file, by_folder = run(f"estimate {path}"), run(f"estimate {tmp_path}")
    assert by_file.code == 0
    assert f"Model       {path}, llama, from the request" in by_file.out
    assert by_folder.out == by_file.out.replace(str(path), str(tmp_path))
