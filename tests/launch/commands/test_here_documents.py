"""Configurations that a script writes by a here-document, as bash itself writes them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.launch.commands.shells import commands, needs_bash
from tests.launch.launches import Read, launch_of, read
from trainfit.launch.errors import LaunchError
from trainfit.specs.launch import Launch

SCRIPT = """#!/bin/bash
STAGE=2
cat <<EOF > conf/ds_config.json
{
  "zero_optimization": {"stage": $STAGE},
  "train_micro_batch_size_per_gpu": ${SIZE:-4},
  "gradient_accumulation_steps": $((STAGE * 2)),
  "mystery": "\\$HOME"
}
EOF
deepspeed --num_gpus 8 train.py --model_name_or_path gpt2 --deepspeed conf/ds_config.json \\
  --max_length 1024 --bf16
"""


def of(script: str, **others: Any) -> Read:
    return read(launch_of({"run/train.sh": script}, **others))


def test_a_written_file_is_as_good_as_sent() -> None:
    found = of(SCRIPT)
    assert found.field("/parallelism/data_parallel_sharding_strategy") == "optim_grads"
    assert found.field("/training/micro_batch_size") == 4
    assert found.field("/training/num_microbatches") == 4
    told = {each.key: (each.file, each.line) for each in found.account.recognised}
    assert told["zero_optimization.stage"] == ("run/train.sh", 5)
    assert told["gradient_accumulation_steps"] == ("run/train.sh", 7)
    assert told["deepspeed"] == ("run/train.sh", 11)
    (mystery,) = found.account.unsupported
    assert (mystery.file, mystery.line, mystery.value) == ("run/train.sh", 8, "$HOME")


def test_a_directory_that_is_not_known_does_not_hide_a_file() -> None:
    script = SCRIPT.replace("conf/", "$(dirname $0)/")
    assert of(script).job == of(SCRIPT).job
    again = script.replace("deepspeed --", "cp a $(dirname $0)/x; deepspeed --")
    assert of(again).job == of(SCRIPT).job
    twice = script.replace("deepspeed --", "echo {} > $(mktemp -d)/ds_config.json; deepspeed --")
    with pytest.raises(LaunchError, match=r"is written more than once at run/train\.sh:11"):
        of(twice)
    with pytest.raises(LaunchError, match=r"names conf/\$\{NAME\}.json; send that file too"):
        of(SCRIPT.replace("ds_config.json", "$NAME.json"))


def test_the_environment_of_the_launch_is_that_of_the_script() -> None:
    assert of(SCRIPT, env={"SIZE": "7"}).field("/training/micro_batch_size") == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("STAGE=2\n", ""), "run/train.sh:3 with what is not known: STAGE is not set; give it"),
        (("$STAGE}", "$(stage)}"), "is not run; write what it prints"),
        (("<<EOF", "<<'EOF'"), "run/train.sh:6: "),
        (("STAGE=2", "STAGE='2\n'"), "lines that are joined or broken; send it as a file"),
    ],
)
def test_what_is_not_known_of_it_is_told(change: tuple[str, str], message: str) -> None:
    with pytest.raises(LaunchError, match=message.replace("$", r"\$")):
        of(SCRIPT.replace(*change))


def test_what_is_written_on_a_condition_that_is_not_known_is_not_known() -> None:
    script = SCRIPT.replace("cat", "if nvidia-smi; then\ncat").replace("\nEOF\n", "\nEOF\nfi\n")
    with pytest.raises(LaunchError, match=r"ds_config\.json is written or not: run/train\.sh:3"):
        of(script)


def test_the_last_of_two_files_counts() -> None:
    size = '{"train_micro_batch_size_per_gpu": 3}'
    again = f"cat > conf/ds_config.json <<EOF\n{size}\nEOF\ndeepspeed"
    found = of(SCRIPT.replace("deepspeed --num", f"{again} --num"))
    assert found.field("/training/micro_batch_size") == 3
    assert not found.account.unsupported
    assert "zero_optimization.stage" not in found.recognised


def test_a_written_file_takes_the_place_of_one_that_was_sent() -> None:
    sent = {"run/train.sh": SCRIPT, "conf/ds_config.json": '{"zero_optimization": {"stage": 1}}'}
    found = read(launch_of(sent))
    assert found.field("/parallelism/data_parallel_sharding_strategy") == "optim_grads"


def test_a_text_without_lines_is_not_pointed_into() -> None:
    with pytest.raises(LaunchError, match="text without lines; send it as a file"):
        read(Launch(argv=SCRIPT))


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("llamafactory-cli train {}", "sft.yaml"),
        ("axolotl train {}", "sft.yaml"),
    ],
)
def test_other_trainers_find_theirs(command: str, named: str) -> None:
    keys = "base_model: gpt2\nmodel_name_or_path: gpt2\nstage: sft\nlearning_rate: 1.0e-4\n"
    found = of(
        f"cat > {named} <<EOF\n{keys}EOF\n" + command.format(named),
        overrides={"training": {"seq_length": 512}, "parallelism": {"num_gpus": 8}},
    )
    lines = {each.key: each.line for each in found.account.irrelevant}
    assert lines["learning_rate"] == 5


FORMS = st.sampled_from(
    (
        "cat <<EOF > out\n{}\nEOF",
        "cat > out << EOF\n{}\nEOF",
        "cat >| out <<EOF\n{}\nEOF",
        "cat - <<EOF > out\n{}\nEOF",
        "tee out <<EOF > /dev/null\n{}\nEOF",
        "cat <<'EOF' > out\n{}\nEOF",
        'cat <<"EOF" > out\n{}\nEOF',
        "cat <<\\EOF > out\n{}\nEOF",
        "cat <<-EOF > out\n\t{}\n\tEOF",
        "cat > out <<EOF && true\n{}\nEOF",
    )
)
PIECES = st.sampled_from(
    (
        *(
            '"',
            "'",
            "\\",
            "\\$A",
            '\\"',
            "\\\\",
            "\\`",
            "$A",
            "${A}",
            "${B:-d}",
            "${A%x}",
            "$((1+2))",
        ),
        *(" ", "\n", "\t", "#", "EOF ", "{", "}", "a", "$", "*", "~", "&&", "|", "<", "é"),
    )
)


@needs_bash
@given(FORMS, st.lists(PIECES, max_size=12).map("".join))
def test_what_is_written_is_what_bash_writes(
    tmp_path_factory: pytest.TempPathFactory, form: str, body: str
) -> None:
    """Where it is read at all: a file may be one that is not known, never another."""
    folder = Path(tmp_path_factory.mktemp("here"))
    script = f"A=1x\nB=\n{form.format(body)}\n"
    run = subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, timeout=10, check=False
    )
    try:
        (command,) = [
            each for each in commands(f"{script}\ntrain\n") if each.words[0].text == "train"
        ]
    except (LaunchError, ValueError):
        return
    content = command.files.get("out")
    if content is not None and content.unknown is None:
        assert run.returncode == 0
        assert content.text == (folder / "out").read_text("utf-8")
        assert content.line == 4
