"""Formats that are named but not read."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.launch.launches import launch_of, read
from trainfit.launch.errors import LaunchError
from trainfit.launch.formats import FORMATS
from trainfit.specs.launch import LaunchFormat

UNREAD = sorted(set(get_args(LaunchFormat)) - {each.name for each in FORMATS})


@pytest.mark.parametrize("name", UNREAD)
def test_a_format_that_is_not_read_is_refused_by_name(name: LaunchFormat) -> None:
    with pytest.raises(LaunchError, match=f"the format {name} is not read; there are megatron"):
        read(launch_of({"x.yaml": "a: 1"}, format=name))
