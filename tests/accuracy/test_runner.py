"""The accuracy runner itself: what it reads, what it skips, what it prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.accuracy import bridge_recipes, measured, published_runs, schemas, throughput
from tests.accuracy.__main__ import main
from tests.accuracy.cards import card_of
from tests.accuracy.outcomes import NotStatedError, Speed
from tests.accuracy.performance_recipes import completed
from tests.accuracy.published_runs import precision_of
from tests.accuracy.schemas import outcomes_of_row
from trainfit.specs.precision import Precision

Row = dict[str, Any]

TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "vocab_size": 100,
}
EMBEDDING, ATTENTION, MLP = 100 * 64, 4 * 64 * 64, 3 * 64 * 128


def counted_row(**changes: Any) -> Row:
    layer = {"attention": ATTENTION, "dense_mlp": MLP, "norms": 128}
    total = 2 * EMBEDDING + sum(layer.values()) + 64
    outside = {"embed_tokens": EMBEDDING, "nonlayer_norms": 64, "lm_head": EMBEDDING}
    return {
        "hf_id": "some/tiny",
        "status": "exact",
        "config_json": TINY,
        "total": total,
        "trainable": total,
        "n_layers": 1,
        "embed_tokens": EMBEDDING,
        "lm_head": EMBEDDING,
        "position_embeddings": 0,
        "vision_audio": 0,
        "non_layer": outside,
        "layer_type_index": [0],
        "layer_types": [layer],
    } | changes


def measured_row(**changes: Any) -> Row:
    arguments = {
        "num-layers": 2,
        "hidden-size": 64,
        "num-attention-heads": 4,
        "max-position-embeddings": 128,
        "seq-length": 128,
        "micro-batch-size": 1,
        "global-batch-size": 2,
        "tensor-model-parallel-size": 1,
        "pipeline-model-parallel-size": 2,
        "bf16": True,
    }
    return {
        "id": "mlm-tiny-h100",
        "gpu": {"type": "H100-SXM", "memory_gb": 80},
        "model": {"vocab": 256},
        "parallelism": {"world_size": 2},
        "training": {"raw_args": arguments},
        "measured": {"value_gib": 1.0, "what": "max_allocated on the LAST rank only"},
        "complete": True,
    } | changes


def only(row: Any, folder: Path = Path()) -> Row:
    (outcome,) = outcomes_of_row(row, folder, "file:1")
    return outcome.as_json()


def test_a_config_is_read_inline_or_relative_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "tiny.json").write_text(json.dumps(TINY))
    row = counted_row(config="tiny.json")
    inline = only(row)
    del row["config_json"]
    assert only(row, tmp_path) == inline
    assert inline["exact"]


def test_a_count_that_differs_says_which() -> None:
    shown = only(counted_row(trainable=1))
    assert not shown["exact"]
    assert shown["differences"].keys() == {"trainable"}
    assert shown["differences"]["trainable"]["expected"] == 1


def test_the_value_of_a_continuous_integration_row_is_that_of_the_last_stage() -> None:
    shown = only(measured_row())
    assert shown["status"] == "priced"
    assert shown["measured_bytes"] == 2**30
    assert shown["low_bytes"] <= shown["expected_bytes"] <= shown["high_bytes"]


def test_an_argument_that_is_not_known_skips_the_row() -> None:
    row = measured_row()
    row["training"]["raw_args"]["use-torch-fsdp2"] = True
    assert only(row)["reason"] == "a job has no field for use-torch-fsdp2"


def test_what_the_service_refuses_skips_the_row_with_the_option() -> None:
    row = measured_row()
    row["training"]["raw_args"]["context-parallel-size"] = 3
    assert only(row)["reason"].startswith("refused: /parallelism")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"complete": False}, "incomplete: a formula cannot be run on it without guessing"),
        ({"duplicate_measurement_of": "other"}, "the same measurement as another row"),
        ({"trusted": False}, "the row says that it is not to be trusted"),
    ],
)
def test_a_row_that_is_no_truth_of_its_own_is_skipped(change: Row, reason: str) -> None:
    assert only(measured_row(**change))["reason"] == reason


FUNCTIONAL: Row = {"complete": False, "framework": "Megatron-LM (mcore) CI", "notes": ""}


@pytest.mark.parametrize(
    ("named", "card", "gpus"),
    [("tiny-h100", "H100-SXM", 8), ("tiny_1node-gb200", "GB200", 4), ("tiny-gb200", "GB200", 8)],
)
def test_a_functional_test_ran_on_the_gpus_of_its_recipe(named: str, card: str, gpus: int) -> None:
    gpu = {"type": card, "memory_gb": 80}
    row = measured_row(id=f"mlm-{named}", gpu=gpu, parallelism={"world_size": None}, **FUNCTIONAL)
    assert only(row)["group"] == "mlm completed"
    assert measured.job_of(row).parallelism.num_gpus == gpus


def test_options_that_rows_omit_are_those_of_the_test() -> None:
    row = measured_row(id="mlm-fine_grained_offloading-h100", **FUNCTIONAL)
    assert "core_attn" in measured.job_of(row).training.offload_modules


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"id": "mlm-x_release-h100", "parallelism": {"world_size": None}},
            "no public recipe says on how many GPUs the test ran",
        ),
        (
            {"notes": "recorded under an older config"},
            "the figure was recorded under an older configuration of the test",
        ),
    ],
)
def test_a_functional_test_that_nobody_can_price_is_skipped(change: Row, reason: str) -> None:
    assert only(measured_row(**(FUNCTIONAL | change)))["reason"] == reason


def test_stages_are_rows_of_their_own() -> None:
    row = measured_row()
    row["measured"]["per_stage"] = {
        "stage0": {"max_allocated_gib": 1.0},
        "stage1": {"max_allocated_gib": 2.0},
    }
    outcomes = outcomes_of_row(row, Path(), "file:1")
    assert [outcome.id for outcome in outcomes] == ["mlm-tiny-h100#stage0", "mlm-tiny-h100#stage1"]


def test_near_rows_and_cards_named_in_the_id_are_groups_of_their_own() -> None:
    near = measured_row(complete=False, near_complete=True)
    assert only(near)["group"] == "mlm near"
    assert only(measured_row(id="simumax-h100-tiny"))["group"] == "simumax-h100"


def test_what_breaks_is_a_reason_and_a_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.jsonl"
    broken = measured_row(measured={})
    file.write_text("\n".join(json.dumps(row) for row in (broken, counted_row(), {}, "text")))
    monkeypatch.setattr(sys, "argv", ["accuracy", str(file), "--json"])
    assert main() == 1
    printed = json.loads(capsys.readouterr().out)
    assert [row["status"] for row in printed["rows"]] == [
        "skipped",
        "priced",
        "skipped",
        "skipped",
    ]
    assert printed["rows"][0]["reason"].startswith("error: KeyError")
    assert printed["groups"]["overall"]["rows"] == 4
    assert printed["groups"]["parameter_counts-exact"]["exact"] == 1


def test_the_table_names_groups_reasons_and_differences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.jsonl"
    rows = (counted_row(total=1), measured_row(), measured_row(complete=False))
    file.write_text("\n".join(json.dumps(row) for row in rows))
    monkeypatch.setattr(sys, "argv", ["accuracy", str(file)])
    assert main() == 0
    printed = capsys.readouterr().out
    assert "parameter_counts-exact" in printed
    assert "incomplete: a formula cannot be run on it without guessing" in printed
    assert "differs: some/tiny: total" in printed


def test_a_document_is_a_row_or_a_list_of_rows(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([counted_row(), counted_row()], indent=1))
    assert len(list(schemas.rows_of(file))) == 2
    file.write_text(json.dumps(counted_row(), indent=1))
    assert len(list(schemas.rows_of(file))) == 1


@pytest.mark.parametrize(
    ("words", "dtypes"),
    [
        ("bf16 params, fp32 main grads, fp32 master+moments", ("bf16", "bf16", "fp32")),
        ("bf16 params, bf16 grads (main_grads bf16), fp32 master", ("bf16", "bf16", "bf16")),
        (
            "fp32 params/grads/Adam states sharded; bf16 params, fp32 reduce",
            ("fp32", "bf16", "fp32"),
        ),
        ("bf16 compute; fp32 sharded parameters and Adam states", ("fp32", "bf16", "fp32")),
    ],
)
def test_precision_in_words(words: str, dtypes: tuple[str, str, str]) -> None:
    precision = precision_of(words, notes="")
    assert isinstance(precision, dict)
    assert (precision["params"], precision["compute"], precision["gradients"]) == dtypes


@pytest.mark.parametrize(
    ("gpu", "name"),
    [
        ({"type": "H100 (HBM2e Grand Teton)", "memory_gb": 96}, "H100-96GB"),
        ({"type": "A100", "memory_gb": 40}, "A100-40GB"),
        ({"type": "A100 x8", "memory_gb": 80}, "A100-80GB-SXM"),
        ({"type": "B200-SXM", "memory_gb": 192}, "B200"),
        ({"type": "H100", "memory_gb": 123}, None),
    ],
)
def test_cards_by_type_and_memory(gpu: Row, name: str | None) -> None:
    card = card_of(gpu)
    assert (card and card.name) == name


@pytest.mark.parametrize(
    ("name", "recomputed", "gathered_in_fp8"),
    [
        ("bridge-perf-095-GPT-B200-BF16", ("layernorm", "moe_act"), False),
        ("bridge-perf-046-GPT-B300-MXFP8", None, True),
    ],
)
def test_rows_of_tables_are_completed_from_their_recipes(
    name: str, recomputed: tuple[str, ...] | None, gathered_in_fp8: bool
) -> None:
    row = published(name)
    job = completed(row, published_runs.job_of(row))
    assert isinstance(job.training.precision, Precision)
    assert job.training.precision.gradients == "bf16"
    assert job.training.precision.fp8_param_gather is gathered_in_fp8
    assert job.training.recompute.modules == recomputed
    assert job.training.loss.cross_entropy == "te_fused"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bridge-perf-001-DeepSeekV3-GB300-MXFP8", "/parallelism/pipeline_model_parallel_layout"),
        ("bridge-preset-llama3_8b_pretrain_8gpu_b200_bf16", "/framework/cuda_graph_impl"),
        ("bridge-perf-033-LLAMA3.1_405B-GB300-FP8", "/training/precision/fp8_recipe"),
    ],
)
def test_recipes_say_what_tables_and_presets_leave_out(name: str, said: str) -> None:
    row = published(name)
    job = bridge_recipes.job_of(row)
    assert job is not None
    given: Any = job.model_dump(exclude_unset=True)
    for part in said[1:].split("/"):
        given = given[part]
    assert given


def test_a_layout_that_no_recipe_has_was_given_to_the_launcher() -> None:
    """So long as the recipe spells out no other stages, and the table is no misprint."""
    names = ("249-Qwen3_235B_a22B-GB200-BF16", "236-LLAMA3.1_405B-GB300-FP8-CS")
    given, unsharded = (bridge_recipes.job_of(published(f"bridge-perf-{name}")) for name in names)
    assert given is not None
    assert (given.parallelism.vpp, given.parallelism.ep) == (3, 32)
    assert given.parallelism.account_for_loss_in_pipeline_split
    assert unsharded is not None
    assert unsharded.parallelism.data_parallel_sharding_strategy is None
    for name in ("246-DeepSeekV3-GB200-FP8-MX", "165-LLAMA3_70B-GB300-NVFP4"):
        with pytest.raises(NotStatedError, match="says other than the row"):
            bridge_recipes.job_of(published(f"bridge-perf-{name}"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bridge-perf-001-DeepSeekV3-GB300-MXFP8", "cuda_graph_impl='full_iteration'"),
        ("bridge-perf-042-DeepSeekV3-GB200-MXFP8", "cuda_graph_impl='full_iteration'"),
        ("bridge-perf-216-DeepSeekV3-GB200-MXFP8", "flex_dispatcher_backend='hybridep'"),
    ],
    ids=["one", "that later releases keep", "as on its card"],
)
def test_what_is_timed_is_the_recipe_of_a_row(name: str, said: str) -> None:
    """With the depth of multi-token prediction that DeepSeek-V3's count of FLOPs has, too."""
    job = throughput.job_of(published(name))
    assert "mtp_num_layers=1" in repr(job.model)
    assert said in repr(job)


def test_adapters_of_a_table_are_what_its_parameters_count() -> None:
    ran = published_runs.peft_of(
        {
            "source": "github.com/Lightning-AI/litgpt tutorials/resource-tables.md@26857050fe3f",
            "training": {"lora": {"r": 8}},
            "notes": "LoRA",
        }
    )
    assert ran == {"method": "lora", "r": 8, "target_modules": ["q_proj", "v_proj"]}


def test_a_recipe_that_cannot_run_is_not_stated() -> None:
    row = published("bridge-preset-qwen3_235b_a22b_pretrain_64gpu_gb300_bf16")
    (outcome,) = outcomes_of_row(row, Path(), "here")
    assert not outcome.stated
    assert outcome.reason is not None
    assert outcome.reason.startswith("the recipe cannot run: 64 GPUs are no multiple")


def published(name: str) -> Row:
    return next(row for row in published_rows() if row["id"] == name)


def published_rows() -> list[Row]:
    lines = (Path(__file__).parent.parent / "data" / "corpus" / "runs.jsonl").read_text("utf-8")
    return [json.loads(line) for line in lines.splitlines()]


def reported_row(**changes: Any) -> Row:
    files = [{"path": "run.sh", "content": "torchrun --nproc-per-node 1 pretrain_gpt.py --what 1"}]
    return (
        {
            "id": "somebody's run",
            "group": "one GPU",
            "complete": True,
            "measured": {"max_allocated_gib": 16.0, "device_gib": 20.0},
            "ask": {"model": {"hf_config": TINY}, "framework": {"name": "transformers"}},
        }
        | ({"ask": {"launch": {"files": files}}} if changes.pop("launched", False) else {})
        | changes
    )


def test_a_reported_run_has_a_row_for_each_figure() -> None:
    allocated, device = outcomes_of_row(reported_row(), Path(), "rows:1")
    assert [each.id for each in (allocated, device)] == [
        "somebody's run#allocated",
        "somebody's run#device",
    ]
    assert allocated.group == "reported: one GPU"
    told = [each.as_json() for each in (allocated, device)]
    assert [each["measured_bytes"] for each in told] == [16 * 2**30, 20 * 2**30]
    assert told[0]["expected_bytes"] < told[1]["expected_bytes"]


@pytest.mark.parametrize(
    ("changes", "group", "reason"),
    [
        ({"launched": True}, "reported: one GPU", "refused: "),
        ({"group": "contradicts its own log"}, "reported: contradicts its own log", "the run "),
        ({"complete": False, "launched": True}, "reported: one GPU near", "refused: "),
    ],
)
def test_a_reported_run_that_is_not_priced_says_why(changes: Row, group: str, reason: str) -> None:
    (outcome,) = outcomes_of_row(reported_row(**changes), Path(), "rows:1")
    assert (outcome.group, outcome.priced, outcome.failed) == (group, False, False)
    assert str(outcome.reason).startswith(reason)


LLAMA = {
    "name": "Llama3-70B-12L",
    "hidden": 8192,
    "layers": 12,
    "heads": 64,
    "kv_heads": 8,
    "head_dim": 128,
    "ffn": 28672,
    "vocab": 128256,
    "tied_embeddings": False,
    "gated_mlp": True,
    "norm": "rmsnorm",
    "linear_bias": False,
    "position": "rope",
    "experts": None,
    "mla": None,
}
LAYOUT = {
    "dp": 4,
    "tp": 1,
    "sp": False,
    "pp": 2,
    "vpp": None,
    "cp": 1,
    "ep": 1,
    "etp": 1,
    "sharding": "zero1",
    "world_size": 8,
}


def test_published_speed_is_compared_in_seconds() -> None:
    figures = {"step_time_s": 0.843}
    training = {"micro_batch": 1, "global_batch": 16, "num_microbatches": 4, "seq_len": 4096}
    row = {
        "id": "fast",
        "family": "dense",
        "framework": "Megatron-LM 23e00ed0 + TE 2.11",  # whose machines are slow
        "trust": "A",
        "complete": True,
        "source": "",
        "notes": "",
        "gpu": {"type": "B200"},
        "model": LLAMA,
        "parallelism": LAYOUT,
        "training": training | {"precision": "bf16", "recompute": None},
        "measured": figures,
    }
    (outcome,) = outcomes_of_row(row, Path(), "rows:1")
    assert isinstance(outcome.figures, Speed), outcome.reason
    assert (outcome.group, outcome.figures.measured_seconds) == ("dense", 0.843)
    assert outcome.figures.low_seconds < 0.843 < outcome.figures.high_seconds
    (left_out,) = outcomes_of_row(row | {"complete": False}, Path(), "rows:1")
    assert left_out.reason == "incomplete: a formula cannot be run on it without guessing"
