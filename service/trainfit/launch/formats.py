"""Whose keys a launch may be written in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from trainfit.launch.axolotl import read as axolotl
from trainfit.launch.draft import Draft
from trainfit.launch.llama_factory import read as llama_factory
from trainfit.launch.megatron import bridge, yaml_cfg
from trainfit.launch.megatron import programs as megatron
from trainfit.launch.program import Program
from trainfit.launch.torchtitan import read as torchtitan
from trainfit.launch.torchtune import read as torchtune
from trainfit.launch.transformers import format as transformers
from trainfit.launch.verl import read as verl
from trainfit.specs.launch import LaunchFormat


class Format(NamedTuple):
    """One format. `recognises` tells a launch of it by its program, else by its files."""

    name: LaunchFormat
    recognises: Callable[[Program], bool]
    read: Callable[[Program, Draft, str | None], None]
    """Reads a program into a draft, as the framework of this version, or the latest, takes it."""


FORMATS: Sequence[Format] = (
    Format("megatron_yaml", yaml_cfg.recognises, yaml_cfg.read),
    Format("megatron_bridge", bridge.recognises, bridge.read),
    Format("megatron", megatron.recognises, megatron.read),
    Format("torchtitan", torchtitan.recognises, torchtitan.read),
    Format("axolotl", axolotl.recognises, axolotl.read),
    Format("llama_factory", llama_factory.recognises, llama_factory.read),
    Format("torchtune", torchtune.recognises, torchtune.read),
    Format("verl", verl.recognises, verl.read),
    Format("transformers", transformers.is_transformers, transformers.read),
    Format("accelerate", transformers.is_accelerate, transformers.read),
    Format("deepspeed", transformers.is_deepspeed, transformers.read),
)
"""In the order in which they are tried: what another can wrap comes later."""
