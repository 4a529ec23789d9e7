"""Files that a browser loads."""

import os
from collections.abc import Mapping
from pathlib import Path

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

# Files of one release must not meet those of another.
REVALIDATE = {"cache-control": "no-cache"}


class Files(StaticFiles):
    """The files of a folder; a browser asks each time whether they have changed."""

    def __init__(self, directory: Path, headers: Mapping[str, str] = REVALIDATE) -> None:
        super().__init__(directory=directory)
        self.headers = headers

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(self.headers)
        return response
