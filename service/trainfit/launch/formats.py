"""Whose keys a launch may be written in."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from trainfit.launch.draft import Draft
from trainfit.launch.program import TrainingProgram
from trainfit.specs.launch import LaunchFormat


class Format(NamedTuple):
    """One format: the module that reads it, which is imported when it is asked for, and the name of
    its function that tells a launch of it by its program, else by its files.
    """

    name: LaunchFormat
    module: str
    recognition: str = "recognises"

    def recognises(self, program: TrainingProgram) -> bool:
        """Whether a program is launched in this format."""
        return bool(getattr(self._module, self.recognition)(program))

    def read(self, program: TrainingProgram, draft: Draft, version: str | None) -> None:
        """Read a program into a draft, as the framework of this version, or the latest, takes it.
        Raises LaunchError.
        """
        self._module.read(program, draft, version)

    @property
    def _module(self) -> Any:
        return import_module(f"trainfit.launch.{self.module}")


FORMATS: Sequence[Format] = (
    Format("megatron_yaml", "megatron.yaml_cfg"),
    Format("megatron_bridge", "megatron.bridge"),
    Format("megatron", "megatron.swift"),
    Format("megatron", "megatron.neox"),
    Format("megatron", "megatron.programs"),
    Format("torchtitan", "torchtitan.read"),
    Format("axolotl", "axolotl.read"),
    Format("llama_factory", "llama_factory.read"),
    Format("torchtune", "torchtune.read"),
    Format("nanotron", "nanotron.read"),
    Format("litgpt", "litgpt.read"),
    Format("lingua", "lingua.read"),
    Format("automodel", "automodel.read"),
    Format("llm_foundry", "llm_foundry.read"),
    Format("verl", "verl.read"),
    Format("nemo_rl", "nemo_rl.read"),
    Format("primus", "primus.read"),
    Format("nemo", "nemo.read"),
    Format("transformers", "transformers.format", "is_transformers"),
    Format("accelerate", "transformers.format", "is_accelerate"),
    Format("deepspeed", "transformers.format", "is_deepspeed"),
)
"""In the order in which they are tried: what another can wrap comes later."""
