"""Launches of hybrid models: Mamba, attention, feed-forward networks and experts in a pattern."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.accuracy.cards import card_of
from tests.launch.launches import DATA
from tests.launch.megatron.command_lines import became, launch_of, read, unsupported
from trainfit.launch.convert.megatron import megatron_arguments
from trainfit.launch.errors import LaunchError
from trainfit.launch.read import read_launch
from trainfit.questions.estimate import answer
from trainfit.resolve.findings import RefusedError
from trainfit.specs.job import Job
from trainfit.specs.launch import Launch

HYBRID = (
    "--hidden-size 512 --num-attention-heads 8 --max-position-embeddings 1024 --seq-length 1024 "
    "--micro-batch-size 1 --global-batch-size 8 --vocab-size 32000 --bf16"
)
"""A command line without its layers."""
PATTERN = "/model/spec/hybrid_layer_pattern"
SPEC = "--spec megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec"


@pytest.mark.parametrize("option", ["--hybrid-layer-pattern", "--hybrid-override-pattern"])
def test_a_pattern_names_the_layers(option: str) -> None:
    reading = read(f"{HYBRID} {option} M-M*-ME --num-experts 8 --mamba-state-dim 64 {SPEC}")
    spec = reading.job["model"]["spec"]
    assert (spec["num_layers"], spec["hybrid_layer_pattern"]) == (7, "M-M*-ME")
    assert spec["mamba_state_dim"] == 64
    assert became(reading, option) == {"/model/spec/num_layers": 7, PATTERN: "M-M*-ME"}
    assert not unsupported(reading)
    by_bucket = answer(Job.model_validate(reading.job)).model.parameters.by_bucket
    assert {"linear_attention", "attention", "dense_mlp", "routed_experts"} <= by_bucket.keys()


def test_a_number_of_layers_beside_it_does_not_count() -> None:
    reading = read(f"{HYBRID} --num-layers 3 --hybrid-layer-pattern M-M*")
    assert reading.job["model"]["spec"]["num_layers"] == 4
    assert "--num-layers" in {each.key for each in reading.launch.account.irrelevant}


def test_bars_are_the_bounds_of_stages() -> None:
    words = "--hybrid-layer-pattern M-M|*-|M-M|M- --pipeline-model-parallel-size 2"
    job = Job.model_validate(read(f"{HYBRID} {words}").job)
    stages = answer(job).stages
    layers = [[chunk.layers for chunk in stage.chunks] for stage in stages]
    assert layers == [[[0, 1, 2], [5, 6, 7]], [[3, 4], [8, 9]]]


@pytest.mark.parametrize(
    "words",
    [
        "--hybrid-layer-pattern M-M*/*-/*-",
        "--hybrid-override-pattern M-M* --mtp-hybrid-override-pattern *- --mtp-num-layers 2",
    ],
)
def test_what_is_predicted_has_layers_of_its_own(words: str) -> None:
    job = Job.model_validate(read(f"{HYBRID} {words} --position-embedding-type none").job)
    assert job.model.spec is not None
    assert job.model.spec.hybrid_layer_pattern == "M-M*/*-/*-"
    chunk = answer(job).stages[0].chunks[0]
    assert (len(chunk.layers), chunk.mtp_layers) == (4, 2)


def test_latent_attention_follows_from_the_pattern() -> None:
    spec = read(f"{HYBRID} --hybrid-layer-pattern M+ --kv-lora-rank 64").job["model"]["spec"]
    assert (spec["hybrid_layer_pattern"], spec["kv_lora_rank"]) == ("M+", 64)


def test_a_program_for_hybrid_models_trains_mamba_alone_without_a_pattern() -> None:
    words = f"pretrain_mamba.py {HYBRID} --num-layers 3 {SPEC}".split()
    reading = read_launch(Launch(argv=tuple(words), env={"WORLD_SIZE": "8"}))
    assert reading.job["model"]["spec"]["hybrid_layer_pattern"] == "MMM"
    assert not unsupported(reading)


@pytest.mark.parametrize(
    ("words", "key", "why"),
    [
        ("--hybrid-layer-pattern MG", "--hybrid-layer-pattern", "gated delta nets"),
        ("--hybrid-layer-pattern MD", "--hybrid-layer-pattern", "sparse attention"),
        (
            "--num-layers 4 --hybrid-attention-ratio 0.5",
            "--hybrid-attention-ratio",
            "not from ratios",
        ),
        ("--num-layers 4 --mamba-head-dim 32", "--mamba-head-dim", "only programs of hybrid"),
        (
            "--hybrid-layer-pattern M* --disable-mamba-mem-eff-path",
            "--disable-mamba-mem-eff-path",
            "what this path",
        ),
        ("--num-layers 4 --spec mine.layers spec", "--spec", "custom spec"),
    ],
)
def test_what_is_not_read_is_named(words: str, key: str, why: str) -> None:
    told = unsupported(read(f"{HYBRID} {words}"))
    assert why in told[key]


def test_a_symbol_that_no_layer_has_is_an_error() -> None:
    with pytest.raises(LaunchError, match="must hold only M, \\*, \\+, -, E"):
        read(f"{HYBRID} --hybrid-layer-pattern MXM")


def test_a_pattern_is_written_as_arguments() -> None:
    words = f"{HYBRID} --hybrid-layer-pattern M-M*-/*- --position-embedding-type rope"
    job = Job.model_validate(read(words).job)
    again = read_launch(launch_of(" ".join(megatron_arguments(job))))
    assert Job.model_validate(again.job).model == job.model
    split = job.model_copy(update={"parallelism": job.parallelism.model_copy(update={"vpp": 2})})
    with pytest.raises(RefusedError, match="bounds of stages in it"):
        megatron_arguments(split)


def rows() -> list[dict[str, Any]]:
    """Megatron-LM's own runs of its hybrid example, whose figures agree over cards."""
    lines = (DATA.parent / "corpus" / "measured.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [
        row
        for row in found
        if row["id"].startswith("mlm-hybrid_mr_") and "disagrees" not in row["notes"]
    ]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["id"])
def test_what_a_hybrid_run_took(row: dict[str, Any]) -> None:
    """The last stage's allocated peak, within four per cent."""
    words = ["pretrain_hybrid.py"]
    for name, value in row["training"]["raw_args"].items():
        values = [] if value is True else str(value).strip("[]").split()
        words += [f"--{name}", *values]
    card = card_of(row["gpu"])
    assert card is not None
    reading = read_launch(
        Launch(
            argv=tuple(words),
            env={"WORLD_SIZE": str(row["parallelism"]["world_size"])},
            gpu=card.name,
            overrides={"model": {"spec": {"vocab_size": row["model"]["vocab_unpadded"]}}},
        )
    )
    assert not unsupported(reading)
    last = answer(Job.model_validate(reading.job)).stages[-1]
    measured = row["measured"]["value_gib"] * 2**30
    assert last.allocated_bytes.expected == pytest.approx(measured, rel=0.04)
