"""Releases of the libraries below that a release of axolotl demands.

Source: requirements.txt and pyproject.toml of its releases.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainfit.launch.transformers.changes import Release

PINNED: Mapping[Release, Mapping[str, Release]] = {
    (0, 5): {"transformers": (4, 46, 1), "trl": (0, 12), "accelerate": (1, 1)},
    (0, 6): {"transformers": (4, 46, 3), "trl": (0, 12, 1), "accelerate": (1, 2)},
    (0, 7): {"transformers": (4, 48, 3), "trl": (0, 15), "accelerate": (1, 3)},
    (0, 8): {"transformers": (4, 50, 3), "trl": (0, 16), "accelerate": (1, 5, 2)},
    (0, 9): {"transformers": (4, 51, 3), "trl": (0, 17), "accelerate": (1, 6)},
    (0, 10): {"transformers": (4, 52, 3), "trl": (0, 18, 1), "accelerate": (1, 7)},
    (0, 11): {"transformers": (4, 53, 1), "trl": (0, 18, 2), "accelerate": (1, 8, 1)},
    (0, 12): {"transformers": (4, 55), "trl": (0, 21), "accelerate": (1, 10)},
    (0, 13): {"transformers": (4, 57, 1), "trl": (0, 25), "accelerate": (1, 11)},
    (0, 14): {"transformers": (5, 0), "trl": (0, 27, 1), "accelerate": (1, 12)},
    (0, 15): {"transformers": (5, 3), "trl": (0, 29), "accelerate": (1, 13)},
    (0, 16): {"transformers": (5, 4), "trl": (0, 29), "accelerate": (1, 13)},
    (0, 17): {"transformers": (5, 9), "trl": (1, 5, 1), "accelerate": (1, 13)},
    (0, 18): {"transformers": (5, 14, 1), "trl": (1, 8), "accelerate": (1, 13)},
}
"""By the release of axolotl that demands them first, where it is not one that mends another."""


def with_pinned(named: Mapping[str, Release]) -> Mapping[str, Release]:
    """The named releases, and those that axolotl's demands of libraries that are not named."""
    axolotl = named.get("axolotl", ())
    since = max((each for each in PINNED if each <= axolotl), default=None)
    return named if since is None else {**PINNED[since], **named}
