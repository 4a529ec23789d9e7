"""The formats that CI systems read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import Run
from tests.cli.test_fit_check import LLAMA, OUTCOMES
from tests.programs import node_packages
from trainfit.cli.fit_check import REPORTS

LINT = Path(__file__).parents[1] / "contract" / "lint"
SCHEMA = LINT.joinpath(
    "node_modules", "@microsoft", "jest-sarif", "lib", "schemas", "sarif-2.1.0-rtm.5.json"
)

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


HOSTILE = "50%,\r\n::stop-commands::x|<b>`@you` #1 https://www.evil"


def test_a_name_is_never_a_command_nor_markup(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = {"name": HOSTILE, **LLAMA, "gpu": "A100-40GB"}
    folder.joinpath("a,b.json").write_text(json.dumps(job), "utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "summary.md"))
    command, _ = run("fit-check a,b.json --format github --no-suggest").out.splitlines()
    name = "50%25%2C%0D%0A%3A%3Astop-commands%3A%3Ax|<b>`@you` #1 https%3A//www.evil"
    title = f"title={name} on A100-40GB%3A does not fit"
    assert command.startswith(f"::error file=a%2Cb.json,line=1,{title}::")
    row = folder.joinpath("summary.md").read_text("utf-8").splitlines()[4]
    shown = "&#124;&#60;b&#62;&#96;&#64;&#8203;you&#96; &#35;&#8203;1 https&#58;//www&#46;evil"
    assert row.startswith(f"| 50%, <br>::stop-commands::x{shown}<br>a,b")


def test_a_summary_that_cannot_be_written_changes_no_exit_code(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder))
    answered = run("fit-check jobs.json --format github")
    assert answered.code == 1
    assert answered.err == "trainfit: the summary of the step: Is a directory\n"


@pytest.mark.parametrize("name", ["table", *REPORTS])
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
    width = len(Path("jobs.json").read_text("utf-8").splitlines()[1])
    whole = {"startLine": 2, "startColumn": 1, "endLine": 2, "endColumn": width + 1}
    assert place["region"] == whole
    prints = [each["partialFingerprints"]["primaryLocationLineHash"] for each in found]
    assert len(set(prints)) == len(prints)


def test_fingerprints_outlive_lines_and_change_with_the_layout(run: Run, folder: Path) -> None:
    path = folder / "jobs.json"
    before = [each["partialFingerprints"] for each in results(run)]
    path.write_text("\n\n" + path.read_text("utf-8"), "utf-8")
    moved = results(run)
    assert [each["partialFingerprints"] for each in moved] == before
    assert moved[0]["locations"][0]["physicalLocation"]["region"]["startLine"] == 4
    path.write_text(path.read_text("utf-8").replace('"tp": 2', '"tp": 1'), "utf-8")
    assert results(run)[0]["partialFingerprints"] not in before


def test_sarif_is_what_its_schema_says(run: Run, folder: Path) -> None:
    node_packages(LINT)
    job = {"name": HOSTILE, **LLAMA, "gpu": "A100-40GB"}
    folder.joinpath("b,[c].json").write_text(json.dumps(job), "utf-8")
    run("fit-check jobs.json b,[c].json --report sarif=fit.sarif --allow tight=measured")
    log = json.loads(folder.joinpath("fit.sarif").read_text("utf-8"))
    assert {each["ruleId"] for each in log["runs"][0]["results"]} == {
        f"MEM00{n}" for n in range(1, 6)
    }
    # A pattern of the schema has a bracket that Python alone lets stand.
    options = ["--regex-variant", "python", "--schemafile", str(SCHEMA)]
    check = [sys.executable, "-m", "check_jsonschema", *options, "fit.sarif"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    del log["runs"][0]["results"][0]["message"]
    folder.joinpath("fit.sarif").write_text(json.dumps(log), "utf-8")
    assert subprocess.run(check, capture_output=True, check=False).returncode == 1


def test_sarif_keeps_the_rules_of_github(run: Run) -> None:
    """Those of its page on SARIF support: what is required, how long, and how much of it."""
    out = run("fit-check jobs.json nowhere.json --format sarif --gpu h100 --gpu a100-40gb").out
    (report,) = json.loads(out)["runs"]
    rules = {rule["id"]: rule for rule in report["tool"]["driver"]["rules"]}
    for rule in rules.values():
        assert 0 < len(rule["name"]) <= 255
        for part in ("shortDescription", "fullDescription"):
            assert 0 < len(rule[part]["text"]) <= 1024
        assert rule["help"]["text"]
        assert rule["help"]["markdown"]
        assert rule["properties"]["precision"] in ("very-high", "high", "medium", "low")
        assert rule["properties"]["problem.severity"] in ("error", "warning", "recommendation")
        assert 0 < len(rule["properties"]["tags"]) <= 10
    assert len(report["results"]) > len(rules)
    prints = [each["partialFingerprints"]["primaryLocationLineHash"] for each in report["results"]]
    assert len(set(prints)) == len(prints)
    for result in report["results"]:
        assert result["ruleId"] in rules
        assert result["message"]["text"]
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert not place["artifactLocation"]["uri"].startswith(("/", "file:"))
        region = place["region"]
        assert 1 <= region["startLine"] == region["endLine"]
        assert 1 <= region["startColumn"] < region["endColumn"]


def test_sarif_has_no_more_results_than_github_takes(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainfit.cli.gate.sarif.MAX_RESULTS", 2)
    assert len(results(run)) == 2


def test_no_message_of_sarif_is_a_link(run: Run, folder: Path) -> None:
    job = {"name": "[fits](https://evil)", **LLAMA, "gpu": "A100-40GB"}
    folder.joinpath("a.json").write_text(json.dumps(job), "utf-8")
    log = json.loads(run("fit-check a.json --no-suggest --format sarif").out)
    (result,) = log["runs"][0]["results"]
    assert result["message"]["text"].startswith("[fits] (https://evil) on A100-40GB: stage 0")


def test_sarif_suppresses_what_is_allowed(run: Run) -> None:
    allowed = [each for each in results(run, "--allow tight=measured") if "suppressions" in each]
    assert [each["ruleId"] for each in allowed] == ["MEM002"]
    assert allowed[0]["suppressions"][0]["justification"] == "measured"


def test_a_format_goes_to_a_file_and_the_table_to_the_terminal(run: Run, folder: Path) -> None:
    answered = run("fit-check jobs.json --format junit --output report.xml")
    assert answered.code == 1
    assert "usable (GiB)" in answered.out
    assert folder.joinpath("report.xml").read_text("utf-8").startswith("<testsuites>")


def test_one_run_writes_several_formats(run: Run, folder: Path) -> None:
    answered = run("fit-check jobs.json --report junit=a=b.xml --report json=report.json")
    assert answered.code == 1
    assert "usable (GiB)" in answered.out
    assert folder.joinpath("a=b.xml").read_text("utf-8").startswith("<testsuites>")
    report = json.loads(folder.joinpath("report.json").read_text("utf-8"))
    assert (report["exit_code"], len(report["checks"])) == (1, len(OUTCOMES))


@pytest.mark.parametrize("text", ["sarif", "sarif=", "table=a.txt", "pdf=a.pdf"])
def test_a_report_needs_a_format_and_a_file(run: Run, text: str) -> None:
    answered = run(f"fit-check jobs.json --report {text}")
    assert answered.code == 2
    assert answered.err.startswith("trainfit: --report: must be FORMAT=FILE, with a format of json")


def test_a_report_that_cannot_be_written_says_which(run: Run) -> None:
    answered = run("fit-check jobs.json --report sarif=nowhere/fit.sarif")
    words = "trainfit: --report: nowhere/fit.sarif: No such file or directory\n"
    assert (answered.code, answered.err) == (2, words)


# What changed since a baseline


def compared(run: Run, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[str]:
    """The lines of the Markdown that tells the difference between the jobs of a file."""
    path = Path("changing.json")
    path.write_text(json.dumps(before), "utf-8")
    run("fit-check changing.json --no-suggest --report json=before.json")
    path.write_text(json.dumps(after), "utf-8")
    answered = run("fit-check changing.json --no-suggest --format markdown --baseline before.json")
    assert answered.err == ""
    return answered.out.splitlines()


JOB: dict[str, Any] = {"name": "llama", **LLAMA, "gpu": "H100-80GB"}
DIFFERENCES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]] = {
    "nothing": ([JOB], [JOB], []),
    "the order": ([JOB, {**JOB, "name": "b"}], [{**JOB, "name": "b"}, JOB], []),
    "the card": ([JOB], [{**JOB, "gpu": "A100-40GB"}], ["H100-80GB → A100-40GB | fits → ❌"]),
    "the layout": ([JOB], [{**JOB, "parallelism": {"num_gpus": 8, "tp": 8}}], ["✅ fits | "]),
    "one more": ([JOB], [JOB, {**JOB, "name": "b"}], ["✅ fits (new)"]),
    "one less": ([JOB, {**JOB, "name": "b"}], [JOB], ["gone"]),
    "of two alike": ([JOB, JOB], [JOB], ["gone"]),
    "wrong": ([JOB], [{**JOB, "gpu": "none"}], ["fits → ❌ invalid"]),
    "right": ([{**JOB, "gpu": "none"}], [JOB], ["none → H100-80GB | invalid → ✅ fits"]),
}


@pytest.mark.parametrize("what", DIFFERENCES)
def test_markdown_tells_what_changed_since_a_baseline(run: Run, what: str) -> None:
    before, after, told = DIFFERENCES[what]
    lines = compared(run, before, after)
    rows = [line for line in lines if line.startswith("| ") and "<br>" in line]
    assert len(rows) == len(told)
    assert all(words in row for words, row in zip(told, rows, strict=True))
    total = max(len(before), len(after))
    assert lines[2] == f"{len(told)} of {total} checks changed since the baseline."
    assert (f"{total - len(told)} more fit as before." in lines) == (len(told) < total)


def test_what_does_not_fit_is_told_whether_it_changed_or_not(run: Run) -> None:
    job = {**JOB, "gpu": "A100-40GB"}
    lines = compared(run, [job], [job])
    assert lines[2] == "0 of 1 checks changed since the baseline."
    assert "| ❌ does not fit |" in lines[6]


def test_a_comment_is_never_longer_than_github_takes(run: Run, folder: Path) -> None:
    jobs = [{**JOB, "name": f"{n} " + "é\U0001f600`" * 30, "gpu": "none"} for n in range(400)]
    for options in ("", "--baseline empty.json"):
        folder.joinpath("empty.json").write_text('{"checks": []}')
        folder.joinpath("many.json").write_text(json.dumps(jobs), "utf-8")
        out = run(f"fit-check many.json --format markdown {options}").out
        assert len(out.encode()) <= 65_001
        assert re.search(r"^\d+ more are not listed\.$", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("{}", "--format markdown", "base.json: is no report of trainfit fit-check --format json"),
        ("[1", "--format markdown", "base.json: is no report of trainfit fit-check --format json"),
        (None, "--format markdown", "base.json: No such file or directory"),
        ("{}", "", "goes with the format markdown"),
    ],
)
def test_a_baseline_is_a_report(
    run: Run, folder: Path, text: str | None, options: str, words: str
) -> None:
    if text is not None:
        folder.joinpath("base.json").write_text(text)
    answered = run(f"fit-check jobs.json --baseline base.json {options}")
    assert (answered.code, answered.err) == (2, f"trainfit: --baseline: {words}\n")
