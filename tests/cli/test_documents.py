"""Job files in every format, and the lines of their parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainfit.cli.files import read_documents, read_text
from trainfit.cli.job_files import JobEntry, jobs_of
from trainfit.documents.document import FileError

JSON = """{
  "jobs": [
    {"name": "one",
     "parallelism": {
       "tp": 2}},
    {"gpu": "B200"}
  ]
}"""
YAML = """# a comment
jobs:
  - name: one
    parallelism:
      tp: 2
  - gpu: B200
"""
TOML = """# a comment
[[jobs]]
name = "one"
[jobs.parallelism]
tp = 2  # [not.a.table]
[[jobs]]
gpu = "B200"
"""


def read_jobs(path: Path) -> list[JobEntry]:
    return jobs_of(path, read_text(path))


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("jobs.json", JSON, {"": 1, "/jobs/0/parallelism/tp": 5, "/jobs/1/gpu": 6}),
        ("jobs.yaml", YAML, {"": 2, "/jobs/0/parallelism/tp": 5, "/jobs/1/gpu": 6}),
        ("jobs.toml", TOML, {"": 1, "/jobs/0/parallelism/tp": 5, "/jobs/1/gpu": 7}),
    ],
)
def test_every_format_says_the_same_and_where(
    tmp_path: Path, name: str, text: str, lines: dict[str, int]
) -> None:
    path = written(tmp_path, name, text)
    (document,) = read_documents(path)
    assert {pointer: document.line_of(pointer) for pointer in lines} == lines
    assert document.line_of("/jobs/0/parallelism/pp") == document.line_of("/jobs/0/parallelism")
    one, other = read_jobs(path)
    assert (one.name, one.job) == ("one", {"parallelism": {"tp": 2}})
    assert (other.name, other.job) == ("jobs[1]", {"gpu": "B200"})


def test_a_field_is_found_under_any_of_its_names(tmp_path: Path) -> None:
    text = "parallelism:\n  pp: 1\n  tensor_model_parallel_size: 2\n"
    (entry,) = read_jobs(written(tmp_path, "job.yaml", text))
    assert entry.line_of("/parallelism/tp") == 3
    assert entry.line_of("/parallelism/ep") == 1
    assert entry.line_of("/training/seq_length") == 1


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("a.yaml", "gpu: B200\n---\n---\ngpu: B300\n", ["a[0]", "a[1]"]),
        ("a.yaml", "gpu: B200\n---\njobs:\n- {name: x}\n- {}\n", ["a[0]", "x", "a[2]"]),
        ("a.json", '[{"gpu": "B200"}, {"name": "x"}]', ["a[0]", "x"]),
        ("a.json", '{"gpu": "B200"}', ["a"]),
        ("a.toml", 'name = "x"', ["x"]),
    ],
)
def test_several_jobs_to_a_file(tmp_path: Path, name: str, text: str, names: list[str]) -> None:
    assert [each.name for each in read_jobs(written(tmp_path, name, text))] == names


def test_what_yaml_merges_may_be_overridden(tmp_path: Path) -> None:
    text = "- &a\n  gpu: B200\n  suggest: true\n- <<: *a\n  gpu: B300\n"
    _, merged = read_jobs(written(tmp_path, "a.yaml", text))
    assert merged.job == {"gpu": "B300", "suggest": True}
    assert merged.line_of("/gpu") == 5


def aliases_of_aliases() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    return "\n".join(lines)


def merges_of_merges() -> str:
    lines = ["a0: &a0 {x: y}"]
    lines += [
        f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 20)}], b{n}: c}}" for n in range(1, 9)
    ]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "text", "line", "message"),
    [
        ("a.json", '{"a": 1,\n "b": }', 2, "Expecting value"),
        ("a.json", '{"a": 1, "a": 2}', 1, "'a' is given twice in one object"),
        ("a.json", "[NaN]", 1, "NaN is not a JSON number"),
        ("a.json", '{"a":\n 1,\n "b": 1e999}', 3, "/b: inf is not a value of JSON"),
        ("a.json", '["\\ud800"]', 1, "/0: '\\ud800' is not a value of JSON"),
        ("a.json", "[" * 100_000, 1, "is nested too deeply"),
        ("a.json", '{"jobs": 3}', 1, "'jobs' is not a list"),
        ("a.json", "[3]", 1, "a job is not an object"),
        ("a.yaml", "a: 1\na: 2", 2, "'a' is given twice in one mapping"),
        ("a.yaml", "a: [\nb: c", 2, "did not find expected ',' or ']'"),
        ("a.yaml", "a: \x01", 1, "control characters are not allowed"),
        ("a.yaml", "a: 1\nb: 2026-01-01", 2, "is not a value of JSON; quote it"),
        ("a.yaml", "a: 2026-91-01", 1, "month must be in 1..12"),
        ("a.yaml", "a: .inf", 1, "/a: inf is not a value of JSON"),
        ("a.yaml", "2: a", 1, "the name 2 is not text"),
        ("a.yaml", "a: !!python/object:os.system x", 1, "could not determine a constructor"),
        ("a.yaml", "a: &a [*a]", 1, "an alias stands within what it names"),
        ("a.yaml", aliases_of_aliases(), 5, "has more than 100000 values"),
        ("a.yaml", merges_of_merges(), 5, "has more than 100000 values"),
        ("a.yaml", f"a: &a {'x' * 100_000}\nb: [{'*a, ' * 99}]", 2, "has more than 8388608 chara"),
        ("a.yaml", "\n[" * 100_000, 66, "is nested too deeply; at most 64 levels are read"),
        ("a.yaml", "- " * 100_000, 1, "is nested too deeply"),
        ("a.yaml", "- x\n" * 100_001, 100_000, "has more than 100000 values"),
        ("a.yaml", f"a: {':'.join(['1'] * 50_000)}", 1, "a number has more than 128 characters"),
        ("a.yaml", f"a: {':'.join(['1'] * 300)}.5", 1, "a number has more than 128 characters"),
        ("a.yaml", f"a: 0x{'f' * 20_000}", 1, "a number has more than 128 characters"),
        ("a.yaml", "a: 1.0e+400", 1, "/a: inf is not a value of JSON"),
        ("a.json", f"[{'1,' * 100_000}1]", 1, "has more than 100000 values"),
        ("a.json", f"{'[' * 65}{']' * 65}", 1, "is nested too deeply"),
        ("a.toml", f"a = 1\n{'b.' * 50_000}b = 1", 2, "is nested too deeply"),
        ("a.toml", f"[{'a.' * 50_000}a]", 1, "is nested too deeply"),
        ("a.toml", f"a = {{{'a.' * 50_000}a = 1}}", 1, "is nested too deeply"),
        ("a.toml", f"a = [{'1,' * 100_000}]", 1, "has more than 100000 values"),
        ("a.toml", f"a = {'[' * 50_000}", 1, "is nested too deeply"),
        ("a.yaml", "", 1, "holds no job"),
        ("a.yaml", "jobs: []", 1, "holds no job"),
        ("a.yaml", "jobs: []\ngpu: B200", 2, "'gpu' stands beside 'jobs'"),
        ("a.yaml", "gpu: B200\nname: 3", 2, "'name' is not text of 1 to 100 characters"),
        ("a.toml", "a = 1\nb = x", 2, "Invalid value"),
        ("a.toml", "a = 1\na = 2\nb = 3", 2, "Cannot overwrite a value"),
        ("a.toml", "a = 1\nb = nan", 2, "/b: nan is not a value of JSON"),
    ],
)
def test_a_file_that_is_refused(
    tmp_path: Path, name: str, text: str, line: int, message: str
) -> None:
    with pytest.raises(FileError) as refused:
        read_jobs(written(tmp_path, name, text))
    assert message in str(refused.value)
    assert refused.value.line == line


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="No such file or directory"):
        read_jobs(tmp_path / "nowhere.yaml")
    with pytest.raises(FileError, match="Is a directory"):
        read_jobs(tmp_path)
    (tmp_path / "a.yaml").write_bytes(b"\xff")
    with pytest.raises(FileError, match="is not UTF-8"):
        read_jobs(tmp_path / "a.yaml")
