"""Every format that can be named is read, and every target is written."""

from typing import get_args

import pytest

from tests.launch.launches import launch_of, read
from trainfit.launch.convert.targets import WRITERS
from trainfit.launch.errors import LaunchError
from trainfit.launch.formats import FORMATS
from trainfit.specs.launch import LaunchFormat, LaunchTarget


def test_every_format_that_can_be_named_is_read() -> None:
    assert {each.name for each in FORMATS} == set(get_args(LaunchFormat))


def test_every_target_that_can_be_named_is_written() -> None:
    assert sorted(WRITERS) == sorted(get_args(LaunchTarget))


def test_why_a_document_does_not_read_is_said() -> None:
    twice = "base_model: a/b\nlighteval: null\nlighteval: {batch_size: 16}\n"
    with pytest.raises(LaunchError, match=r"a\.yaml:3: .*lighteval"):
        read(launch_of({"a.yaml": twice}))
