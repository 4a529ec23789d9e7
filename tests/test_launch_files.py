"""The counter of launch files that end with a verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.launch_files import counted, main, outcome, ranked, reason

SCRIPT = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 512 " + (
    "--num-attention-heads 8 --seq-length 512 --max-position-embeddings 512 --bf16 "
)
UNTOLD = SCRIPT + "--micro-batch-size $1\n"
SOURCE = "some/where:run.sh"


def row(**facts: Any) -> dict[str, Any]:
    return {
        "family": "megatron",
        "source": SOURCE,
        "files": ["run.sh"],
        "facts": facts,
    }


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "launch_texts" / "some+where"
    folder.mkdir(parents=True)
    (folder / "run.sh").write_text(UNTOLD)
    return folder.parent


def test_a_file_is_counted_alone_and_with_its_facts(texts: Path) -> None:
    (found,) = counted([row(argv=["1"])], texts)
    assert (found.alone.result, found.with_facts.result) == ("refused", "fits")
    assert found.with_facts.decided
    assert not found.alone.decided
    assert "$1" in found.alone.reasons[0]


def test_what_an_answer_asks_of_everybody_is_told(texts: Path) -> None:
    (texts / "some+where" / "run.sh").write_text(
        "torchrun --nproc_per_node $N pretrain_gpt.py --num-layers 32 --hidden-size 4096 --bf16 "
        "--num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 "
        "--micro-batch-size 1 --use-distributed-optimizer "
        "--tokenizer-type GPTSentencePieceTokenizer\n"
    )
    (found,) = counted([row()], texts)
    assert not found.with_facts.decided
    assert found.told.decided
    (found,) = counted([row(env={"N": "8"})], texts)
    assert found.with_facts.decided
    assert found.told == found.with_facts


def test_a_file_without_its_text_is_not_had(texts: Path) -> None:
    assert not list(counted([row() | {"files": ["other.sh"]}], texts))


def test_reasons_are_counted_without_their_places() -> None:
    unknown = [outcome({"files": [{"path": f"{name}.sh", "content": UNTOLD}]}) for name in "ab"]
    ((count, alone, why),) = ranked(unknown)
    assert (count, alone) == (2, 2)
    assert why.startswith("--micro-batch-size: ")
    assert reason("a/b.sh:7: --flag: why") == "--flag: why"
    assert reason("no place: why") == "no place: why"


def test_the_report_says_the_shares(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = tmp_path / "corpus" / "list.jsonl"
    listing.parent.mkdir()
    listing.write_text(json.dumps(row()) + "\n" + json.dumps(row() | {"files": ["x.sh"]}) + "\n")
    monkeypatch.setattr("sys.argv", ["launch_files", str(listing)])
    assert main() == 0
    said = capsys.readouterr().out
    assert said.startswith("2 listed, 1 had\nalone: 0 of 1 (0.0%), of all listed 0.0%")
    assert texts.is_dir()
