"""Scripts made after public ones, and the programs that they start."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.launch.commands.programs import DATA, command_line, num_gpus
from trainfit.launch.commands.unwrap import programs_of
from trainfit.specs.launch import Launch

SCRIPTS: list[dict[str, Any]] = yaml.safe_load((DATA / "index.yaml").read_text())
BESIDE = {"cat", "clear", "dcgmi", "tee"}
"""What else these scripts start."""


@pytest.mark.parametrize("expected", SCRIPTS, ids=lambda each: each["script"])
def test_a_script_starts_its_program(expected: dict[str, Any]) -> None:
    name = expected["script"]
    files = [{"path": name, "content": (DATA / name).read_text()}]
    launch = Launch.model_validate({"files": files, "argv": expected.get("argv")})
    (found,) = [each for each in programs_of(launch).programs if each.name not in BESIDE]
    assert command_line(found) == f"{expected['program']} {expected['arguments']}"
    assert found.launcher == expected["launcher"]
    assert num_gpus(found) == expected["gpus"]
    unknown = {word.text for word in found.arguments if word.unknown is not None}
    assert unknown == set(expected["unknown"])
    assert found.unsupported == ()


def test_every_script_is_listed() -> None:
    names = {path.name for path in DATA.iterdir() if path.suffix in (".sh", ".slurm")}
    assert names == {each["script"] for each in SCRIPTS}
    assert len(names) >= 25
