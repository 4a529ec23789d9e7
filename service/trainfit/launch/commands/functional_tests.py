"""Megatron-LM's functional tests: a `model_config.yaml` that has the arguments of a run.

Source: tests/functional_tests/shell_test_utils/_run_training.sh of Megatron-LM.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainfit.documents.document import Document
from trainfit.documents.json_pointer import json_pointer
from trainfit.launch.program import TrainingProgram, Word
from trainfit.launch.settings import Setting

ARGUMENTS = "MODEL_ARGS"
ENVIRONMENT = "ENV_VARS"
RUNNER = "_run_training.sh of Megatron-LM's functional tests"
GPUS: Mapping[str, str] = {"GPUS_PER_NODE": "8", "NUM_NODES": "1"}
"""The variables that say how many GPUs run a test, and what the runner takes without them."""
_CASE = re.compile(r"test_cases/(\w+)/")
PROGRAMS = {
    "bert": "pretrain_bert.py",
    "hybrid": "pretrain_hybrid.py",
    "mamba": "pretrain_mamba.py",
    "multimodal-llava": "pretrain_vlm.py",
    "t5": "pretrain_t5.py",
}
"""By the folder of a test; of any other pretrain_gpt.py."""


def is_functional_test(value: Any) -> bool:
    """Whether a value holds arguments of Megatron-LM as such a test has them."""
    arguments = value.get(ARGUMENTS) if isinstance(value, dict) else None
    return isinstance(arguments, dict) and any(str(key).startswith("--") for key in arguments)


@dataclass(frozen=True, slots=True)
class FunctionalTest:
    """A test that was sent: the arguments of its first run."""

    document: Document
    file: str

    def program(self, bare: TrainingProgram) -> TrainingProgram:
        """The program with these arguments and variables, on as many GPUs as the runner takes: the
        file does not say. What names no memory, as the metrics to compare, belongs to the test.
        """
        value = self.document.value
        found = _CASE.search(self.file)
        name = PROGRAMS.get(found[1], "pretrain_gpt.py") if found else "pretrain_gpt.py"
        variables = value.get(ENVIRONMENT)
        environment = {
            str(key): Setting(str(key), str(each), self.file, self._line(ENVIRONMENT, key))
            for key, each in (variables.items() if isinstance(variables, dict) else ())
        }
        others = tuple(
            Setting(str(key), None, self.file, self._line(key))
            for key in value
            if key not in (ARGUMENTS, ENVIRONMENT)
        )
        environment |= bare.environment
        defaults = {
            key: Setting(key, count, RUNNER, None, whose=RUNNER) for key, count in GPUS.items()
        }
        gpus = tuple(environment.get(key, each) for key, each in defaults.items())
        return replace(
            bare,
            name=name,
            arguments=tuple(self._words()),
            environment=environment,
            num_gpus=() if "WORLD_SIZE" in environment else gpus,
            irrelevant=(*bare.irrelevant, *others),
        )

    def _words(self) -> Iterator[Word]:
        """An option of true stands alone, and a list is its words."""
        for option, value in self.document.value[ARGUMENTS].items():
            line = self._line(ARGUMENTS, option)
            yield Word(str(option), self.file, line)
            if value is True:
                continue
            for each in value if isinstance(value, list) else [value]:
                yield Word(str(each), self.file, line)

    def _line(self, *path: Any) -> int:
        return self.document.line_of(json_pointer(tuple(map(str, path))))
