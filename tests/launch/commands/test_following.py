"""Scripts are followed once for all that is the same each way through a launch."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.launch.commands.programs import launch
from trainfit.launch.commands.unwrap import programs_of
from trainfit.launch.read import read_launch
from trainfit.launch.shell.parser import Parser
from trainfit.launch.shell.script import ShellScript
from trainfit.launch.shell.source import Source
from trainfit.launch.shell.state import Budget, State

TRAIN = """
torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 \\
    --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 \\
    --micro-batch-size 1 --vocab-size 512 --bf16 $@
"""


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often texts are parsed and scripts are followed, by their first line."""
    counted: Counter[str] = Counter()
    program, follow = Parser.program, ShellScript.follow

    def parsing(parser: Parser) -> object:
        counted[f"parse {parser.text.partition(chr(10))[0]}"] += 1
        return program(parser)

    def following(script: ShellScript, source: Source) -> None:
        counted[f"follow {source.content.partition(chr(10))[0]}"] += 1
        follow(script, source)

    monkeypatch.setattr(Parser, "program", parsing)
    monkeypatch.setattr(ShellScript, "follow", following)
    return counted


def test_each_text_is_parsed_once_whichever_way_a_script_goes(done: Counter[str]) -> None:
    outer = "# outer\nif [ -d /data ] && [ -f /data/x ]; then A='--tp'; fi\nbash a.sh $A"
    found = read_launch(launch([], run_sh=f"{outer}\nbash b.sh", a_sh=TRAIN, b_sh="# b\nls"))
    assert found.job["training"]["seq_length"] == 128
    assert {each for name, each in done.items() if name.startswith("parse")} == {1}
    # the if decides what the && in it leaves open: the script as it is, and each way of that
    assert done["follow # outer"] == 3
    assert done["follow # b"] == 1


def test_guards_that_are_not_met_change_nothing(done: Counter[str]) -> None:
    checked = '# checked\n[ -z "$X" ] && exit 1\n./other'
    with pytest.raises(Exception, match="holds no launch"):
        read_launch(launch(run_sh=checked, other_sh="# other\nmake all"))
    assert done["follow # checked"] == 2
    assert done["follow # other"] == 1


def test_a_script_that_another_calls_is_not_followed_alone(done: Counter[str]) -> None:
    programs_of(launch(a_sh="bash b.sh --bf16", b_sh=TRAIN))
    assert done[f"follow {TRAIN.partition(chr(10))[0]}"] == 1


def test_a_loop_that_changes_nothing_waits_for_something_outside_of_the_script() -> None:
    budget = Budget()
    shell = ShellScript(State(), budget, lambda _: None)
    script = "while true; do X=1; sleep 5; done\ntrain"
    shell.follow(Source.of_script(script, "run.sh"))
    assert [each.words[0].text for each in shell.commands] == ["train"]
    assert budget.steps < 100
