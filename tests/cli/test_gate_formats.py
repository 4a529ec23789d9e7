"""The formats that CI systems read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import Run
from tests.cli.test_fit_check import LLAMA, OUTCOMES

NAMES = dict(zip(OUTCOMES, range(1, len(OUTCOMES) + 1), strict=True))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a file that has a job for every outcome, each on a line."""
    jobs = [json.dumps({"name": outcome, **LLAMA, **job}) for outcome, (job, _) in OUTCOMES.items()]
    tmp_path.joinpath("jobs.json").write_text("[" + ",\n".join(jobs) + "]", "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_table_marks_what_closes_the_gate(run: Run) -> None:
    lines = run("fit-check jobs.json --no-suggest").out.splitlines()
    rows = {line.split()[-1]: line for line in lines if "jobs.json:" in line}
    marked = [name for name, line in NAMES.items() if "✗" in rows[f"jobs.json:{line}"]]
    assert marked == ["does_not_fit", "invalid", "unknown", "unavailable"]
    assert "does not fit" in rows["jobs.json:2"]
    assert "79.1" in rows["jobs.json:1"]
    assert not any("\x1b" in line for line in lines)


def test_a_terminal_has_colours_unless_it_refuses_them() -> None:
    command = [sys.executable, "-m", "trainfit", "fit-check", "jobs.json", "--no-suggest"]
    coloured, plain = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        for environment in ({"FORCE_COLOR": "1"}, {"FORCE_COLOR": "1", "NO_COLOR": "1"})
    )
    assert coloured.returncode == plain.returncode == 1
    assert "\x1b[1;31mdoes not fit" in coloured.stdout
    assert "\x1b[1;31m" not in plain.stdout


def test_a_reader_that_leaves_and_a_terminal_without_signs_change_no_exit_code() -> None:
    trainfit = f"{sys.executable} -m trainfit fit-check jobs.json"
    script = f"set -o pipefail; {trainfit} --format sarif | true; echo $?; {trainfit}"
    environment = {"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("1\n")
    assert (done.returncode, done.stderr) == (1, "")


def test_annotations_point_at_lines_and_escape_what_they_must(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    *commands, last = run("fit-check jobs.json --format github").out.splitlines()
    assert last == "trainfit: 6 checked, 4 failed"
    by_line: dict[int, list[str]] = {}
    for command in commands:
        line = int(command.partition("line=")[2].partition(",")[0])
        by_line.setdefault(line, []).append(command)
    assert sorted(by_line) == [NAMES[name] for name in OUTCOMES if name != "fits"]
    (too_big,) = by_line[NAMES["does_not_fit"]]
    head = "::error file=jobs.json,line=2,title=does_not_fit on A100-40GB%3A does not fit::stage 0"
    assert too_big.startswith(head)
    assert "%0Ause --" in too_big
    assert by_line[NAMES["tight"]][0].startswith("::warning file=jobs.json,line=4,")


HOSTILE = "50%,\r\n::stop-commands::x|<b>`@you`"


def test_a_name_is_never_a_command_nor_markup(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = {"name": HOSTILE, **LLAMA, "gpu": "A100-40GB"}
    folder.joinpath("a,b.json").write_text(json.dumps(job), "utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "summary.md"))
    command, _ = run("fit-check a,b.json --format github --no-suggest").out.splitlines()
    title = "title=50%25%2C%0D%0A%3A%3Astop-commands%3A%3Ax|<b>`@you` on A100-40GB%3A does not fit"
    assert command.startswith(f"::error file=a%2Cb.json,line=1,{title}::")
    row = folder.joinpath("summary.md").read_text("utf-8").splitlines()[4]
    assert row.startswith("| 50%, <br>::stop-commands::x&#124;&#60;b&#62;&#96;&#64;you&#96;<br>a,b")


def test_a_summary_that_cannot_be_written_changes_no_exit_code(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder))
    answered = run("fit-check jobs.json --format github")
    assert answered.code == 1
    assert answered.err == "trainfit: the summary of the step: Is a directory\n"


@pytest.mark.parametrize("name", ["table", "json", "github", "junit", "sarif"])
def test_a_file_may_have_any_name(run: Run, folder: Path, name: str) -> None:
    path = os.fsdecode(os.fsencode(folder / "a") + b"\xff.json")
    Path(path).write_text(json.dumps({**LLAMA, "gpu": "A100-40GB"}), "utf-8")
    answered = run(f"fit-check {path} --no-suggest --format {name}")
    assert (answered.code, answered.err) == (1, "")
    assert ('"ruleId": "MEM001"' if name == "sarif" else "does") in answered.out


def test_the_summary_is_added_to_and_stays_within_its_bounds(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = folder / "summary.md"
    summary.write_text("before\n", "utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setattr("trainfit.cli.gate.github.MAX_SUMMARY_BYTES", 1500)
    run("fit-check jobs.json --format github")
    text = summary.read_text("utf-8")
    assert text.startswith("before\n### GPU memory\n\n| job | GPU |")
    assert "| ✅ fits | stage 0 needs" in text
    assert "more are not listed." in text


def test_junit_has_a_test_case_for_each_job_and_card(run: Run) -> None:
    out = run("fit-check jobs.json --format junit --gpu h100 --gpu a100-40gb --no-suggest").out
    (suite,) = ElementTree.fromstring(out)
    assert suite.get("tests") == str(2 * len(OUTCOMES)) == str(len(suite))
    own = run("fit-check jobs.json --format junit").out
    (suite,) = ElementTree.fromstring(own)
    told = {str(case.get("name")).split()[0]: case[0].tag for case in suite}
    assert told == {
        "fits": "system-out",
        "does_not_fit": "failure",
        "invalid": "error",
        "tight": "system-out",
        "unknown": "skipped",
        "unavailable": "error",
    }
    counts = [suite.get(kind) for kind in ("failures", "errors", "skipped")]
    assert counts == ["1", "2", "1"]
    assert {case.get("file") for case in suite} == {"jobs.json"}


def test_junit_is_xml_whatever_a_job_is_called(run: Run, folder: Path) -> None:
    job = {"name": 'a\x00<&"\uffff', **LLAMA, "gpu": "A100-40GB"}
    folder.joinpath("a.json").write_text(json.dumps(job), "utf-8")
    out = run("fit-check a.json --format junit").out
    assert ElementTree.fromstring(out)[0][0].get("name") == 'a�<&"� on A100-40GB'


def results(run: Run, options: str = "") -> list[dict[str, Any]]:
    log = json.loads(run(f"fit-check jobs.json --format sarif {options}").out)
    assert log["version"] == "2.1.0"
    (report,) = log["runs"]
    rules = report["tool"]["driver"]["rules"]
    found: list[dict[str, Any]] = report["results"]
    assert all(rules[each["ruleIndex"]]["id"] == each["ruleId"] for each in found)
    return found


LAUNCH = """torchrun --nproc_per_node 8 pretrain_gpt.py \\
  --num-layers 48 --hidden-size 8192 --num-attention-heads 64 --vocab-size 32000 \\
  --seq-length 4096 --max-position-embeddings 4096 --bf16 \\
  --tensor-model-parallel-size 8 MORE \\
  --micro-batch-size SIZE
"""
WIDE = (LAUNCH.replace("SIZE", "16").replace("MORE", ""), 5)
DEEP = (LAUNCH.replace("SIZE", "1").replace("MORE", "--sequence-parallel"), 4)


@pytest.mark.parametrize(("text", "line"), [WIDE, DEEP])
def test_every_format_points_at_the_flag_that_decides_most(
    run: Run, folder: Path, text: str, line: int
) -> None:
    folder.joinpath("train.sh").write_text(text, "utf-8")
    command = "fit-check train.sh --gpu H100-80GB --no-suggest --format"
    assert run(f"{command} github").out.startswith(f"::error file=train.sh,line={line},")
    (case,) = ElementTree.fromstring(run(f"{command} junit").out).iter("testcase")
    assert (case.get("file"), case.get("line")) == ("train.sh", str(line))
    result = json.loads(run(f"{command} sarif").out)["runs"][0]["results"][0]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == line


def test_sarif_has_rules_places_and_fingerprints(run: Run) -> None:
    found = results(run)
    levels = {each["ruleId"]: each["level"] for each in found}
    assert levels == {
        "MEM001": "error",
        "MEM002": "warning",
        "MEM003": "error",
        "MEM004": "error",
        "MEM005": "error",
    }
    place = found[0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "jobs.json", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 2}
    prints = [each["partialFingerprints"]["trainfit/v1"] for each in found]
    assert len(set(prints)) == len(prints)


def test_fingerprints_outlive_lines_and_change_with_the_layout(run: Run, folder: Path) -> None:
    path = folder / "jobs.json"
    before = [each["partialFingerprints"] for each in results(run)]
    path.write_text("\n\n" + path.read_text("utf-8"), "utf-8")
    moved = results(run)
    assert [each["partialFingerprints"] for each in moved] == before
    assert moved[0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 4}
    path.write_text(path.read_text("utf-8").replace('"tp": 2', '"tp": 1'), "utf-8")
    assert results(run)[0]["partialFingerprints"] not in before


def test_sarif_suppresses_what_is_allowed(run: Run) -> None:
    allowed = [each for each in results(run, "--allow tight=measured") if "suppressions" in each]
    assert [each["ruleId"] for each in allowed] == ["MEM002"]
    assert allowed[0]["suppressions"][0]["justification"] == "measured"


def test_a_format_goes_to_a_file_and_the_table_to_the_terminal(run: Run, folder: Path) -> None:
    answered = run("fit-check jobs.json --format junit --output report.xml")
    assert answered.code == 1
    assert "usable (GiB)" in answered.out
    assert folder.joinpath("report.xml").read_text("utf-8").startswith("<testsuites>")
