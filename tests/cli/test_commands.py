"""The commands of a Megatron user, as they are typed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_fit_check import LLAMA, written
from trainfit import __version__
from trainfit.catalog.configs import bundled_ids
from trainfit.catalog.gpus import gpus
from trainfit.questions.digest import catalogue_version

DEEPSEEK_V3 = (
    "estimate deepseek-ai/DeepSeek-V3 --tp 4 --pp 4 --ep 8 --num-gpus 128 "
    "--num-layers-in-last-pipeline-stage 16"
)


def rows(out: str) -> list[list[str]]:
    """The table's rows: cells stand at least two spaces apart."""
    lines = (line for line in out.splitlines() if re.match(r" \d+( \*)?  ", line))
    return [re.split(r"\s{2,}", line.strip()) for line in lines]


def test_a_table_by_stage_with_the_binding_one_marked(run: Run) -> None:
    outcome = run(DEEPSEEK_V3)
    assert (outcome.code, outcome.err) == (0, "")
    assert "deepseek-ai/DeepSeek-V3, deepseek_v3, bundled config" in outcome.out
    assert "671.03 B total" in outcome.out
    assert "routed experts 653.91 B" in outcome.out
    assert "128 GPUs: tp 4, pp 4, dp 8; experts: ep 8, etp 4, dp 1" in outcome.out
    table = rows(outcome.out)
    assert [row[1] for row in table] == ["E 0–14", "15–29", "30–44", "45–60 m L"]
    assert [row[2] for row in table] == ["4", "3", "2", "1"]
    assert [len(row) for row in table] == [12] * 4
    marked = [row[0] for row in table if row[0].endswith("*")]
    assert marked == ["1 *"]
    assert "Binding     stage 1: " in outcome.out
    assert re.search(r"GPUs \(GiB\)  fits .*B300.*does not fit A100-40GB", outcome.out)


def test_a_pipe_gets_plain_lines_that_are_not_broken(run: Run) -> None:
    lines = run(DEEPSEEK_V3).out.splitlines()
    assert not any("\x1b" in line for line in lines)
    assert not any(line.endswith(" ") for line in lines)
    assert sum(line.startswith("Assumes") for line in lines) == 1


@pytest.mark.parametrize("option", ["--tp 8", "--tensor-model-parallel-size 8"])
def test_the_smallest_world_is_derived(run: Run, option: str) -> None:
    line = f"estimate deepseek-ai/DeepSeek-V3 {option} --pp 2 --ep 16"
    outcome = run(f"{line} --num-layers-in-last-pipeline-stage 31")
    assert outcome.code == 0
    assert "256 GPUs: tp 8, pp 2, dp 16" in outcome.out


def test_layers_that_do_not_divide_are_answered_with_the_split_to_add(run: Run) -> None:
    line = "estimate Qwen/Qwen3-235B-A22B --tp 8 --pp 4 --ep 4 --num-gpus 128"
    outcome = run(line)
    assert (outcome.code, outcome.out) == (2, "")
    assert "94 layers" in outcome.err
    assert "23+24+24+23" in outcome.err
    advice = "--num-layers-in-first-pipeline-stage 23 --num-layers-in-last-pipeline-stage 23"
    assert outcome.err.endswith(f"\n  add {advice}\n")
    assert run(f"{line} {advice}").code == 0


def test_recomputing_everything_leaves_fewer_activations(run: Run) -> None:
    recomputed = run(f"{DEEPSEEK_V3} --recompute-granularity full --recompute-method uniform")
    assert recomputed.code == 0
    plain = run(DEEPSEEK_V3)
    activations = [[float(row[6]) for row in rows(each.out)] for each in (recomputed, plain)]
    assert all(less < more for less, more in zip(*activations, strict=True))


def test_verbose_shows_what_lies_behind_the_table(run: Run) -> None:
    outcome = run(f"{DEEPSEEK_V3} --verbose")
    assert outcome.out.startswith(run(DEEPSEEK_V3).out)
    answer = json.loads(run(f"{DEEPSEEK_V3} --json").out)
    for stage in answer["stages"]:
        weights = stage["components"][0]
        assert f"{weights['parameter_count']:,}" in outcome.out
        assert f"{weights['parameter_count_per_gpu']:,}" in outcome.out
        assert f"{stage['chunks'][0]['expert_parameters']:,}" in outcome.out
    for default in answer["defaults"]:
        assert f" {default['pointer']} " in outcome.out
        assert default["why"] in outcome.out
    for assumption in answer["assumptions"]:
        assert assumption["text"] in outcome.out


def test_the_line_that_megatron_logs(run: Run) -> None:
    line = run(f"{DEEPSEEK_V3} --summary mb").out
    number = r"(\d+\.\d\d)"
    apart = f"weight={number} MB, gradient={number} MB, optimizer={number} MB"
    parts = re.fullmatch(
        f"Theoretical memory footprints: weight and optimizer={number} MB, "
        f"activation={number} MB, total={number} MB; experts: {apart}; dense: {apart}\n",
        line,
    )
    assert parts is not None
    states, activation, total, *of_kinds = (float(part) for part in parts.groups())
    assert states + activation == pytest.approx(total, abs=0.02)
    assert sum(of_kinds) == pytest.approx(states, abs=0.04)
    assert f"total={total / 1024:.2f} GB" in run(f"{DEEPSEEK_V3} --summary gb").out
    timed = run(f"{DEEPSEEK_V3} --summary gb --gpu H100-80GB").out
    assert re.search(r"GB, step=[\d.]+ s, tokens/s/GPU=\d+; experts: ", timed)
    states_only = run(f"{DEEPSEEK_V3} --summary gb --no-activations").out
    assert states_only.startswith("Theoretical memory footprints: weight and optimizer=")
    assert "activation" not in states_only
    assert "experts" not in run("meta-llama/Llama-3.1-8B --summary gb").out


def test_one_number(run: Run) -> None:
    answer = json.loads(run(f"{DEEPSEEK_V3} --json").out)
    expected = answer["binding"]["device_bytes"]["expected"]
    assert run(f"{DEEPSEEK_V3} --summary total").out == f"{expected}\n"


def test_without_activations_there_is_no_peak_and_no_verdict(run: Run) -> None:
    outcome = run(f"{DEEPSEEK_V3} --no-activations")
    assert outcome.code == 0
    assert {row[6] for row in rows(outcome.out)} == {"0.0"}
    assert "peak" not in outcome.out
    assert "fits" not in outcome.out


def test_the_tree_of_a_stage(run: Run) -> None:
    outcome = run(f"{DEEPSEEK_V3} --tree")
    assert outcome.out.splitlines()[3].startswith(" stage 1 ")
    assert "layers 15–29 x15 (mla + moe)" in outcome.out
    assert "saved for backward by one micro-batch; 3 are in flight" in outcome.out
    last = run(f"{DEEPSEEK_V3} --tree --stage 3").out
    assert "multi-token prediction" in last
    assert "head" in last


def test_the_card_that_is_asked_about_has_its_verdict(run: Run) -> None:
    assert "does not fit H100-80GB-SXM (79.1 GiB)" in run(f"{DEEPSEEK_V3} --gpu H100-80GB").out
    assert "fits B300 (267.7 GiB)" in run(f"{DEEPSEEK_V3} --gpu B300").out


@pytest.mark.parametrize(
    ("others_gib", "told", "verdict"),
    [
        (0, "fits mine (80.0 GiB)", "fits"),
        (20, "tight on mine (80.0 GiB, 60.0 usable)", "tight"),
        (40, "does not fit mine (80.0 GiB, 40.0 usable)", "does_not_fit"),
        (100, "does not fit mine (80.0 GiB, 0.0 usable)", "does_not_fit"),
    ],
)
def test_what_others_hold_of_the_card_is_not_usable(
    run: Run, tmp_path: Path, others_gib: int, told: str, verdict: str
) -> None:
    """As fit-check has it. The job needs some 55 to 68 GiB."""
    gpu = {"name": "mine", "memory_bytes": 80 * 2**30, "reserved_other_bytes": others_gib * 2**30}
    path = written(tmp_path, {"gpu": gpu})
    job = tmp_path / "job.json"
    job.write_text(json.dumps({**LLAMA, "gpu": gpu}), "utf-8")
    assert told in run(f"estimate --job {job}").out
    (check,) = json.loads(run(f"fit-check {path} --no-suggest --format json").out)["checks"]
    assert check["outcome"] == verdict


def test_what_is_not_counted_is_said(run: Run) -> None:
    outcome = run("estimate meta-llama/Llama-3.2-11B-Vision-Instruct --num-gpus 8")
    assert "Warning     This model has a vision or audio tower." in outcome.out
    assert "fits as far as it is counted" in outcome.out


def test_the_catalogues(run: Run) -> None:
    assert run("models").out.splitlines() == list(bundled_ids())
    found = run("models deepseek V3").out.splitlines()
    assert "deepseek-ai/DeepSeek-V3" in found
    assert found == [each for each in bundled_ids() if "deepseek" in each.lower() and "V3" in each]
    assert json.loads(run("models deepseek V3 --json").out)["models"][0]["hf_id"] == found[0]
    cards = json.loads(run("gpus b200 --json").out)["gpus"]
    assert cards
    assert all("B200" in each["name"] for each in cards)
    assert "MIG slices" not in run("gpus mi300x").out
    listed = run("gpus").out
    assert all(gpu.name in listed for gpu in gpus())
    assert "H100-80GB-SXM, H100-80GB-PCIe, H800-80GB   1g.10gb 9.8, 1g.20gb 19.6" in listed


def test_the_version(run: Run) -> None:
    assert run("--version").out == f"{__version__} (catalogue {catalogue_version()})\n"


def test_the_layout_of_launch_files_is_sought(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
        "--num-attention-heads 32 --ffn-hidden-size 14336 --swiglu --vocab-size 128256 "
        "--seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --bf16 "
        "--global-batch-size 64 --tensor-model-parallel-size 8 --use-distributed-optimizer\n"
    )
    found = run(f"search {script} --gpu H100-80GB --tp 4 --best 1 --launch")
    assert found.code == 0, found.err
    assert "tp 4" in found.out
    assert "--tensor-model-parallel-size 4" in found.out
