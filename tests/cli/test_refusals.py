"""Commands that cannot be answered: exit code 2, and on stderr the message alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from trainfit.cli.refusals import typed
from trainfit.resolve.findings import Change

QWEN = "estimate Qwen/Qwen3-8B"
JOBS = Path(__file__).parents[2] / "deploy" / "ci" / "example-jobs.yaml"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            f"{QWEN} --tp 3",
            "trainfit: --tp: 32 attention heads do not divide by tp = 3; by 2 they do\n"
            "  use --tp 2\n",
        ),
        (
            f"{QWEN} --num-gpus 4 --global-batch-size 7",
            "trainfit: --global-batch-size: 7 samples are no multiple of micro_batch_size * dp = 4;"
            " 8 are\n  use --global-batch-size 8",
        ),
        (
            f"{QWEN} --recompute-method uniform",
            "  add --recompute-granularity full",
        ),
        (
            "estimate Qwen/Qwen3-30B-A3B --tp 2 --no-sequence-parallel",
            "  use --sequence-parallel",
        ),
        (
            "estimate deepseek-ai/DeepSeek-V3 --pp 2 --pipeline-model-parallel-layout Et*61|L",
            "  add --mtp-num-layers 0",
        ),
        (f"{QWEN} --tensor-model-parallel-size 1024", "trainfit: --tp: must be at most 512"),
        (f"{QWEN} --precision bf16-pure", "trainfit: --precision: the precision bf16-pure"),
        (f"{QWEN} --gpu H1000", "  use --gpu H100-80GB-SXM"),
        ("estimate qwen/qwen3-88", "  use Qwen/Qwen3-8B\n  or give the path of its config.json"),
        ("estimate no/such/model", "trainfit: MODEL: must be the id of a repository on the Hub"),
        ("estimate nowhere.json", "trainfit: nowhere.json: No such file or directory"),
        ("estimate --job nowhere.yaml", "trainfit: nowhere.yaml: No such file or directory"),
        (
            f"estimate {JOBS}",
            f"trainfit: {JOBS}: is no config.json; give a job as --job",
        ),
        ("estimate", "trainfit: name a model"),
        (f"{QWEN} --tpp 2", "trainfit: Unknown option: --tpp. Did you mean --tp?"),
        (f"{QWEN} --tp x", "trainfit: --tp: x is no whole number; use one, as in --tp 8"),
        (f"{QWEN} --json --tree", "trainfit: give one of --tree, --summary and --json"),
        (f"{QWEN} --stage 0", "trainfit: --stage: goes with --tree"),
        (f"{QWEN} --tree --stage 1", "trainfit: --stage: there are stages 0 to 0"),
        ("estimat", 'trainfit: Unknown command "estimat". Did you mean "estimate"?'),
        ("serve --port 99999", "trainfit: --port: Input should be less than or equal to 65535"),
    ],
)
def test_the_message_names_the_flag_and_what_would_be_right(
    run: Run, line: str, message: str
) -> None:
    outcome = run(line)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert outcome.err.startswith("trainfit: ")
    assert "Traceback" not in outcome.err


def test_what_a_file_lacks_is_told_with_its_place(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "llama", "hidden_size": "wide"}', "utf-8")
    outcome = run(f"estimate {config}")
    assert outcome.code == 2
    assert outcome.err.startswith("trainfit: MODEL /hidden_size: ")
    config.write_text("{", "utf-8")
    assert run(f"estimate {config}").err.startswith(f"trainfit: {config}: Expecting")
    config.write_text("[" * 100_000, "utf-8")
    assert (
        run(f"estimate {config}").err
        == f"trainfit: {config}: is nested too deeply; at most 64 levels are read\n"
    )
    config.write_text("[]", "utf-8")
    assert run(f"estimate {config}").err == f"trainfit: {config}: holds no object\n"


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("TRAINFIT_PORT", "none", "a valid integer"),
        ("TRAINFIT_PORT", "tcp://10.0.0.1:80", "enableServiceLinks: false"),
        ("TRAINFIT_API_KEYS", "hunter2", "must be LABEL=SHA256"),
        ("TRAINFIT_RATE_LIMIT", "often", "a valid integer"),
        ("TRAINFIT_CORS_ORIGINS", "hunter2", "must be origins such as"),
        ("TRAINFIT_LOG_FORMAT", "xml", "'auto', 'console' or 'json'"),
        ("WEB_CONCURRENCY", "many", "a valid integer"),
    ],
)
def test_a_setting_of_the_service_is_named_by_its_variable(
    run: Run, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, words: str
) -> None:
    monkeypatch.setenv(variable, value)
    outcome = run("serve")
    assert (outcome.code, outcome.out) == (2, "")
    (line,) = outcome.err.splitlines()
    assert line.startswith(f"trainfit: {variable}: ")
    assert words in line
    assert value not in line


def test_json_is_answered_with_the_problem_as_json(run: Run) -> None:
    outcome = run("estimate Qwen/Qwen3-235B-A22B --pp 4 --json")
    assert (outcome.code, outcome.out) == (2, "")
    problem = json.loads(outcome.err)
    assert problem["type"] == "/problems/invalid-layout"
    assert problem["errors"][0]["pointer"] == "/parallelism/pp"


def test_a_change_of_several_fields_is_told_as_what_one_types() -> None:
    changes = [Change("add", "/training/precision", {"gradients": "bf16"})]
    assert typed(changes) == "use --set /training/precision/gradients=bf16"


def test_a_file_that_is_not_there_is_no_model(run: Run) -> None:
    assert "trainfit estimate" not in run("fit-check nowhere.yaml").out
    assert "trainfit estimate" in run("fit-check meta-llama/Llama-3.1-8B").out
