"""What axolotl's plugins make of the loss."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.axolotl.test_freezing import run

CUT = "axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin"


@pytest.mark.parametrize("keys", [{}, {"cut_cross_entropy": True}])
def test_the_plugin_cuts_cross_entropy(keys: dict[str, Any]) -> None:
    found = run(plugins=[CUT], **keys)
    assert found.field("/training/loss/cross_entropy") == "cut"
    assert not found.unsupported


def test_a_plugin_that_is_told_not_to_does_not() -> None:
    found = run(plugins=[CUT], cut_cross_entropy=False)
    assert found.job["training"].get("loss") is None
    assert not found.unsupported


def test_without_the_plugin_the_key_does_nothing() -> None:
    found = run(cut_cross_entropy=True)
    assert found.job["training"].get("loss") is None
