"""A script's commands come out as bash itself would run them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.launch.commands.shells import commands, needs_bash, run_by_bash, words
from tests.launch.launches import within
from trainfit.launch.shell.errors import ShellError

CASES = Path(__file__).parents[2].joinpath("data/launch/commands/expansions.txt").read_text()


@needs_bash
@pytest.mark.parametrize("script", CASES.rstrip("\n").split("\n----\n"))
def test_words_are_those_that_bash_makes(script: str) -> None:
    read = [
        [word.text for word in each.words[1:]]
        for each in commands(script)
        if each.words[0].text == "train"
    ]
    expected = run_by_bash(script)
    assert expected
    assert read == expected


NAMES = st.sampled_from(("A", "B", "C"))
VALUES = st.sampled_from(("1", "a b", "", "x/y.z", "--k v", "3"))


def _word(name: str) -> st.SearchStrategy[str]:
    forms = (f"${name}", f'"${name}"', f"p${{{name}}}q", f"${{{name}:-d e}}", f"${{#{name}}}")
    return st.sampled_from((*forms, f"${{{name}%%.*}}", f"'${name}'", f"${{{name}:+t}}", "w"))


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """Assignments, conditions and arrays of three variables, all of them set, then a command."""
    lines = [f"{name}='{draw(VALUES)}'" for name in ("A", "B", "C")]
    for _ in range(draw(st.integers(0, 5))):
        name, other = draw(NAMES), draw(NAMES)
        value = draw(_word(other))
        lines.append(
            draw(
                st.sampled_from(
                    (
                        f"{name}={value}",
                        f"{name}+={value}",
                        f'if [ "${other}" = 1 ]; then {name}=2; else {name}=" 7 "; fi',
                        f"[[ -n ${other} ]] && {name}={value}",
                        f'case "${other}" in 1|x*) {name}=c;; *b) {name}=;; esac',
                        f'R=({value} {value}); R+=(z); {name}="${{R[*]}}"',
                        f"for i in {value} k; do {name}=$i; done",
                    )
                )
            )
        )
    lines.append("train " + " ".join(draw(st.lists(NAMES.flatmap(_word), max_size=5))))
    return "\n".join(lines)


@needs_bash
@settings(max_examples=60)
@given(scripts())
def test_scripts_of_any_make_come_out_as_bash_runs_them(script: str) -> None:
    assert [words(script)] == run_by_bash(script)


def unknown(script: str, *arguments: str, **variables: str) -> dict[str, str]:
    """The words of the one `train` that are not known, and why."""
    (command,) = [
        each for each in commands(script, *arguments, **variables) if each.words[0].text == "train"
    ]
    return {each.text: each.unknown for each in command.words if each.unknown is not None}


def test_what_nobody_gave_is_unknown_with_what_to_give() -> None:
    assert unknown("train --a $A --b=x$B $1 $(date) k") == {
        "${A}": "A is not set; give it in env",
        "--b=x${B}": "B is not set; give it in env",
        "${1}": "$1 is not given; give the arguments of the script in argv, [] for none",
        "$(...)": "$(date) is not run; write what it prints in its place",
    }
    assert unknown("train --a $A --b=x$B $1 k", "3", A="1", B="2") == {}
    assert words("train --a $A --b=x$B $1 k", "3", A="1", B="2") == ["--a", "1", "--b=x2", "3", "k"]


OWN = """
if [ "$1" = fast ]; then OPTIONS="--fast"; fi
[[ "$1" == sel ]] && SELECTIVE=(--granularity selective)
half() { LATE="--late"; }
train --a $OPTIONS "${SELECTIVE[@]}" "x$LATE" $ONCE "$OPTIONS"
ONCE=1
"""


@needs_bash
@pytest.mark.parametrize("argument", ["fast", "sel", "none"])
def test_a_variable_of_the_script_that_it_did_not_set_is_empty(argument: str) -> None:
    assert unknown(OWN, argument) == {}
    assert [words(OWN, argument)] == run_by_bash(OWN, argument)


@pytest.mark.parametrize(
    "script",
    [
        "TP=$TP; train $TP",
        "if false; then TP=${TP:-1}; fi; train $TP",
        "TP=1 prepare; train $TP",
        "source env.sh; if false; then TP=1; fi; train $TP",
    ],
)
def test_a_variable_that_may_come_from_outside_is_not_known(script: str) -> None:
    assert unknown(script).keys() == {"${TP}"}


def test_an_unknown_spreads_through_what_is_made_of_it() -> None:
    script = "N=$(nvidia-smi -L | wc -l)\nM=$((N * 2))\nA=(--n $M ok)\ntrain ${A[@]} ${#N}"
    why = (
        "$(nvidia-smi -L | wc -l) is not run; write what it prints in its place, or, of a node "
        "with as many GPUs as there are, give /parallelism/num_gpus in overrides"
    )
    assert unknown(script) == {"$(...)": why, "${#N}": why}


def test_a_file_that_was_not_sent_may_set_what_is_not_set() -> None:
    why = "X is not set (env.sh may set it and was not sent); give it in env"
    assert unknown("source env.sh; train $X") == {"${X}": why}


def test_a_condition_that_is_not_known_hurts_only_what_it_decides() -> None:
    script = """
A=1
S="--x 1"
L=(--l 1)
if [ "$MODE" = fast ]; then A=2; S="$S --fast"; L+=(--fast); B=3; else A=2; B=4; fi
train $A $S ${L[@]} $B
"""
    why = "run.sh:5 depends on what is not known: MODE is not set; give it in env"
    assert unknown(script) == dict.fromkeys(("${S}", "${L}", "${B}"), why)
    assert words(script) == ["2", "--x", "1", "${S}", "--l", "1", "${L}", "${B}"]
    assert words(script, MODE="fast")[1:4] == ["--x", "1", "--fast"]


def test_a_branch_that_ends_the_script_is_not_taken_where_it_is_not_known() -> None:
    assert words('if [ $# -lt 2 ]; then echo usage; exit 1; fi; train "$@"') == []
    assert [each.words[0].text for each in commands('[ -z "$X" ] && exit 1; train')] == []


@pytest.mark.parametrize("way", ["break", "continue", "return"])
def test_a_branch_that_leaves_nothing_goes_on(way: str) -> None:
    """Whether it is taken is not known, and there is no loop and no function to leave."""
    (command,) = commands(f"case $(date) in a) {way};; esac\ntrain a\n")
    assert [word.text for word in command.words] == ["train", "a"]


def test_a_command_in_doubt_says_on_what_it_depends() -> None:
    (command,) = commands("if grep -q H100 cards; then train; fi")[1:]
    assert command.doubt is not None
    assert "run.sh:1" in command.doubt


def test_a_loop_that_is_not_known_makes_unknown_what_it_sets() -> None:
    script = "A=1; while read LINE; do A=2; done < list; while [ $# -gt 0 ]; do B=$1; shift; done"
    found = unknown(f"{script}; train $A $B")
    assert found.keys() == {"${A}", "${B}"}
    assert words(f"{script}; train $B x", "--b", "7")[0] == "7"


@pytest.mark.parametrize(
    "end",
    [
        "if grep -q x f; then echo no; continue; fi",
        "grep -q x f || continue",
        "if [ $i = 1 ]; then A=3; elif grep -q x f; then continue; else :; fi",
    ],
)
def test_a_round_that_may_end_where_it_ends_goes_on(end: str) -> None:
    found = commands(f"for i in 1 2; do A=$i; train $A; {end}; done; train x")
    started = [each for each in found if each.words[0].text == "train"]
    assert [each.words[1].text for each in started] == ["1", "2", "x"]
    assert not any(each.doubt for each in started)


def test_a_round_that_may_be_cut_short_is_not_known() -> None:
    found = commands("for i in 1 2; do if grep -q x f; then continue; fi; train $i; done")
    assert any(each.doubt for each in found if each.words[0].text == "train")


def test_arguments_are_parsed_as_the_script_does() -> None:
    script = """
while [[ $# -gt 0 ]]; do
  case $1 in
    --tp) TP="$2"; shift 2 ;;
    --tp=*) TP="${1#*=}"; shift ;;
    *) OTHER+=("$1"); shift ;;
  esac
done
train --tensor $TP "${OTHER[@]}"
"""
    assert words(script, "--tp", "4", "--x") == ["--tensor", "4", "--x"]
    assert words(script, "--tp=8") == ["--tensor", "8"]


def test_every_word_has_the_line_on_which_it_was_written() -> None:
    array, text = "A=(\n  --a $N  # why\n  --b\n)", 'S="\n --c 1 \n --d"'
    script = f"N=8\n{array}\n{text}\ntrain ${{A[@]}} \\\n  $S --e"
    (command,) = commands(script)
    lines = {word.text: (word.file, word.line) for word in command.words}
    expected = {"train": 9, "--a": 3, "8": 1, "--b": 4, "--c": 7, "1": 7, "--d": 8, "--e": 10}
    assert lines == {text: ("run.sh", line) for text, line in expected.items()}


def test_variables_of_a_command_are_its_environment() -> None:
    (command,) = commands("export A=1; B=2; C=3 train; D=4", E="5")
    assert {name: each.text for name, each in command.environment.items()} == {
        "E": "5",
        "A": "1",
        "C": "3",
    }


@pytest.mark.parametrize(
    "script",
    [
        "while true; do sleep 1; done; train ok",
        "f() { f; }; f; train",
        "X=a; for ((i = 0; i < 40; i++)); do X=$X$X; done; train $X",
        "A=(a); for ((i = 0; i < 40; i++)); do A+=(${A[@]} ${A[@]}); done; train ${A[@]}",
        "eval eval eval eval eval eval train",
        "X='eval $X'; eval $X",
        "((" * 400 + "1" + "))" * 400,
        "train " + '"$(' * 60 + "x" + ')"' * 60,
        "if true; then " * 150 + "train" + "; fi" * 150,
        f"grep -q 'a*a*a*b' <<< {'a' * 9000}; train",
        f"echo {'a' * 700} | sed 's/a/{'b' * 1000}/g; s/b/{'c' * 1000}/g'; train",
        f"A={'a' * 200_000}; [[ $A =~ a*b ]] && train",
        f"echo {'a' * 9000} > a; for i in {{1..9000}}; do cat < a; done",
    ],
)
def test_work_is_bounded(script: str) -> None:
    with within(5), suppress(ShellError):
        commands(script)
