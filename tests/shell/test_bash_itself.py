"""What is read of a script is what bash does with it, or it is said not to be known."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from time import thread_time

import pytest

from tests.shell.bash_itself import BASH, sandbox
from tests.shell.grammar import SOURCED, script
from tests.shell.judging import Verdict, judge, read

DATA = Path(__file__).parents[1] / "data/launch/commands"
FRAGMENTS = [
    fragment
    for name in ("expansions.txt", "fragments.txt")
    for fragment in (DATA / name).read_text().rstrip("\n").split("\n----\n")
]
DOUBTFUL = (DATA / "doubtful.txt").read_text().rstrip("\n").split("\n----\n")
PUBLIC = sorted(
    path
    for folder in (DATA, DATA.parents[1] / "shell")
    for path in folder.iterdir()
    if path.suffix in (".sh", ".slurm")
)
SCRIPTS = 2000
BATCH = 500

needs_bash = pytest.mark.skipif(BASH is None, reason="bash itself is not here")


@needs_bash
def test_fragments_come_out_as_bash_runs_them() -> None:
    verdicts: Counter[Verdict] = Counter()
    with sandbox() as box:
        for fragment, launches in zip(FRAGMENTS, box.run_all(FRAGMENTS, {}), strict=True):
            verdict = judge(read(fragment), launches)
            assert verdict is not Verdict.WRONG, fragment
            verdicts[verdict] += 1
    assert verdicts[Verdict.KNOWN] >= 0.9 * len(FRAGMENTS)


@needs_bash
@pytest.mark.parametrize("fragment", DOUBTFUL)
def test_what_bash_may_refuse_or_leave_is_not_taken_to_go_on(fragment: str) -> None:
    with sandbox() as box:
        launches = box.run(fragment)
    assert judge(read(fragment), launches) is not Verdict.WRONG


@needs_bash
@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.name)
def test_public_scripts_come_out_as_bash_runs_them(path: Path) -> None:
    text = path.read_text()
    with sandbox() as box:
        launches = box.run(text)
    assert judge(read(text), launches) is not Verdict.WRONG


@needs_bash
@pytest.mark.parametrize("start", range(0, SCRIPTS, BATCH))
def test_scripts_of_any_make_come_out_as_bash_runs_them(start: int) -> None:
    scripts = [script(seed) for seed in range(start, start + BATCH)]
    files = {"sourced.sh": SOURCED}
    with sandbox() as box:
        done = box.run_all(scripts, files)
    known = 0
    for text, launches in zip(scripts, done, strict=True):
        if launches is None:
            continue
        verdict = judge(read(text, files=files), launches)
        assert verdict is not Verdict.WRONG, text
        known += verdict is Verdict.KNOWN
    assert known > 0.5 * BATCH


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("for ((i = 0; i < 1000000000; i++)); do A=$i; done; train $A", None),
        ("X=a; for ((i = 0; i < 40; i++)); do X=$X$X; done; train $X", "put together more than"),
        ("f() { f; }; f; train", "more than 20 levels deep"),
        ("echo " + "${" * 100_000, "nested more than 40 levels deep"),
        ("echo " + "$((" * 100_000, "nested more than 40 levels deep"),
        ("echo " + "`" * 100_000, None),
        ("(" * 100_000, "nested more than 40 levels deep"),
        ("echo " + "{" * 100_000, "put together more than"),
        ("echo {1..1000000000}", "more than"),
        ("echo " + "{a,b}" * 40, "more than"),
        ("if true; then " * 200 + "train" + "; fi" * 200, "nested more than 40 levels deep"),
        ("".join(f"export A{i}=1\n" for i in range(4000)) + "train\n" * 4000, "more than"),
        ("".join(f"export A{i}=1\n" for i in range(300)) + "A1=2; train\n" * 4000, "more than"),
        ("export X=a\n" + "X=$X$X\n" * 40 + "train\n" * 4000, "put together more than"),
        ("export X=a\n" + "X=$X$X\n" * 16 + "train\n" * 4000, None),
        ("for ((i = 0; i < 900; i++)); do echo 1 > f$i; train; done", None),
        ("printf -v X '%1000000000d' 1; train $X", None),
        ("X=$(seq 1000000000); train $X", None),
        ("X=" + "a" * 9000 + "; [[ $X =~ a*a*a*a*b ]]; train ${X//a*a*a*b/}", None),
        ("train $((" + "(" * 50_000 + "1" + ")" * 50_000 + "))", "nested more than 40 levels deep"),
        ("train $((" + "-" * 100_000 + "1))", None),
    ],
)
def test_work_is_bounded(text: str, bound: str | None) -> None:
    started = thread_time()
    reading = read(text)
    assert thread_time() - started < 2.0
    if bound is not None:
        assert reading.commands is None
        assert bound in reading.why


def test_a_status_is_a_number_that_no_expression_is_refused_for() -> None:
    commands = read("{ which srun; BATCH=$((1-$?)); train $((2 - $?)) on; }").commands
    assert commands is not None
    assert [command.doubt for command in commands if command.words[0].text == "train"] == [None]


def test_a_refusal_names_its_place() -> None:
    assert read("\n" + "(" * 100).why.startswith("run.sh:2: the script is nested more than 40")
