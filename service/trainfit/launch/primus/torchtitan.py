"""Keys of torchtitan as Primus has them, and its own beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainfit.launch.allocator import read_allocator_of
from trainfit.launch.draft import Draft
from trainfit.launch.keys import table_of
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.launch.torchtitan.read import read_written
from trainfit.launch.torchtitan.releases import every_key

CONVERTERS = "model.converters"
GROUPED, MOE_FP8 = "primus_turbo.use_turbo_grouped_mm", "primus_turbo.use_moe_fp8"
ARGUMENTS = "experimental.custom_args_module"
TURBO = "primus_turbo"
"""A converter that puts another attention in place, which the keys of its section tell of."""


def read_torchtitan(
    program: TrainingProgram, settings: Mapping[str, Setting], draft: Draft, release: str
) -> None:
    """Put what an experiment says together into a draft, as this release of torchtitan has it. What
    starts Primus sets nothing of PyTorch's allocator; an experiment alone leaves it open.
    """
    read_written(program, list(_of_torchtitan(settings, draft)), draft, release)
    read_allocator_of(program, draft)


def _of_torchtitan(settings: Mapping[str, Setting], draft: Draft) -> Iterator[Setting]:
    """The keys of torchtitan itself; null is its default."""
    keys = table_of(__package__, "torchtitan")
    fp8 = settings.get(MOE_FP8)
    for key, setting in settings.items():
        setting = replace(setting, key=key)
        if key == CONVERTERS and isinstance(setting.value, list):
            yield replace(setting, value=[each for each in setting.value if each != TURBO])
        elif setting.value is None or setting.value == {}:
            draft.ignore(setting)
        elif key in every_key() and key != ARGUMENTS:
            yield setting
        elif key == GROUPED and setting.value is True and (fp8 is None or fp8.value is not False):
            draft.leave_out(setting, "experts that multiply in fp8 are not modelled here")
        elif (effect := keys.effect_of(key, setting.value)) is None:
            draft.ignore(setting)
        else:
            draft.leave_out(setting, effect)
