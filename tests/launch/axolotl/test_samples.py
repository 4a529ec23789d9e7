"""How long axolotl's samples are."""

from __future__ import annotations

import json

from tests.launch.axolotl.test_freezing import BASE
from tests.launch.launches import launch_of, read


def test_samples_that_are_not_prepared_are_as_long_as_the_longest() -> None:
    files = {"run.json": json.dumps(BASE | {"skip_prepare_dataset": True})}
    overrides = {"parallelism": {"num_gpus": 8}}
    words = ["axolotl", "train", "run.json"]
    (left_out,) = read(launch_of(files, words, overrides=overrides)).account.unsupported
    assert left_out.missing == ["/overrides/training/seq_length"]
    told = overrides | {"training": {"seq_length": 3000}}
    found = read(launch_of(files, words, overrides=told))
    assert found.field("/training/seq_length") == 3000
    assert not found.unsupported


def test_what_is_logged_changes_nothing() -> None:
    keys = {"use_swanlab": True, "swanlab_description": "a", "swanlab_log_completions": True}
    files = {"run.json": json.dumps(BASE | keys)}
    overrides = {"parallelism": {"num_gpus": 8}}
    found = read(launch_of(files, ["axolotl", "train", "run.json"], overrides=overrides))
    assert found.irrelevant >= keys.keys()
