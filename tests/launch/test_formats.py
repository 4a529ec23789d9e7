"""Every format that can be named is read, and every target is written."""

from typing import get_args

from trainfit.launch.convert.targets import WRITERS
from trainfit.launch.formats import FORMATS
from trainfit.specs.launch import LaunchFormat, LaunchTarget


def test_every_format_that_can_be_named_is_read() -> None:
    assert {each.name for each in FORMATS} == set(get_args(LaunchFormat))


def test_every_target_that_can_be_named_is_written() -> None:
    assert sorted(WRITERS) == sorted(get_args(LaunchTarget))
