"""The cache of huggingface_hub, read and never written: models--ORG--NAME/refs/REVISION names a
commit, and snapshots/COMMIT/config.json is a link to the file.
"""

from pathlib import Path

from trainfit.hub.config_json import MAX_BYTES
from trainfit.hub.entries import PUBLIC, ConfigKey, Ref, Stored, is_commit


class HuggingFaceCache:
    """Such a folder. It does not say who may see what, so all of it counts as public."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, key: ConfigKey) -> Stored | None:
        """The config of a key. It was confirmed when its ref was written, or later."""
        if key.scope != PUBLIC:
            return None
        model = self._folder / f"models--{key.repo.replace('/', '--')}"
        try:
            commit, checked_at = key.revision, 0.0
            if not is_commit(commit):
                ref = model / "refs" / key.revision
                commit, checked_at = ref.read_text("ascii").strip(), ref.stat().st_mtime
            if not is_commit(commit):
                return None
            with (model / "snapshots" / commit / "config.json").open("rb") as file:
                body = file.read(MAX_BYTES + 1)
        except (OSError, ValueError):
            return None
        return Stored(Ref(key.repo, commit, checked_at), body, "huggingface")
