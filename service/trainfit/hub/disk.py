"""Configs on disk: SQLite, which survives restarts and takes several processes at once.

Its methods block. Whatever goes wrong with the disk is logged once and costs no answer.
"""

import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TypeVar

from trainfit.hub.entries import PUBLIC, ConfigKey, Ref, Stored, stored_ref
from trainfit.hub.observer import Nobody, Observer

FILE = "hub.sqlite3"
MAX_BYTES = 128 * 2**20
"""Of the file. Beyond it, the configs that were fetched first go. Half of the volume that deploy/
gives it: there is a log beside it.
"""
FORGOTTEN = 10
"""One in so many goes at a time."""
WAIT_SECONDS = 2.0
"""For another process that writes."""
SECRET_BYTES = 32

SCHEMA = """
CREATE TABLE IF NOT EXISTS configs (
    id INTEGER PRIMARY KEY, scope TEXT, endpoint TEXT, name TEXT, commit_id TEXT, body BLOB,
    UNIQUE (scope, endpoint, name, commit_id)
);
CREATE TABLE IF NOT EXISTS refs (
    scope TEXT, endpoint TEXT, repo TEXT, revision TEXT, name TEXT, commit_id TEXT, checked_at REAL,
    PRIMARY KEY (scope, endpoint, repo, revision)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS secrets (only INTEGER PRIMARY KEY CHECK (only = 1), value BLOB);
"""

Result = TypeVar("Result")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Listed:
    """A model on disk."""

    repo: str
    revision: str
    ref: Ref
    private: bool


class Disk:
    """The configs of one endpoint in a folder, which several endpoints may share."""

    def __init__(self, folder: Path, endpoint: str, observer: Observer | None = None) -> None:
        self._observer = observer or Nobody()
        self._path = folder / FILE
        self._endpoint = endpoint
        self._lock = Lock()
        self._open: sqlite3.Connection | None = None
        self._closed = False
        self._complained = False

    def find(self, key: ConfigKey) -> Stored | None:
        """The config of a key."""

        def read(database: sqlite3.Connection) -> Stored | None:
            row = database.execute(
                "SELECT name, commit_id, checked_at, body FROM refs"
                " JOIN configs USING (scope, endpoint, name, commit_id)"
                " WHERE scope = ? AND endpoint = ? AND repo = ? AND revision = ?",
                (key.scope, self._endpoint, key.repo, key.revision),
            ).fetchone()
            if row is None:
                return None
            ref = stored_ref(*row[:3])
            if ref is None or not isinstance(row[3], bytes):
                self._observer.entry_malformed("disk")
                return None
            return Stored(ref, row[3], "disk")

        return self._do(read, to_write=False)

    def keep(self, keys: Sequence[ConfigKey], ref: Ref, body: bytes) -> None:
        """Keep a config under keys of one scope."""

        def write(database: sqlite3.Connection) -> None:
            scope = keys[0].scope
            with database:
                database.execute(
                    "INSERT INTO configs (scope, endpoint, name, commit_id, body)"
                    " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body",
                    (scope, self._endpoint, ref.name, ref.commit, body),
                )
                database.executemany(
                    "INSERT OR REPLACE INTO refs VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [
                        (scope, self._endpoint, each.repo, each.revision, *_columns(ref))
                        for each in keys
                    ],
                )
            _make_room(database)

        self._do(write, to_write=True)

    def secret(self, *, make: bool) -> bytes | None:
        """A secret of this folder, the same for every process. None where there is none and none
        can be made.
        """

        def read_or_make(database: sqlite3.Connection) -> bytes:
            if (row := database.execute("SELECT value FROM secrets").fetchone()) is None:
                made = os.urandom(SECRET_BYTES)
                with database:
                    database.execute("INSERT OR IGNORE INTO secrets VALUES (1, ?)", (made,))
                row = database.execute("SELECT value FROM secrets").fetchone()
            value: bytes = row[0]
            return value

        return self._do(read_or_make, to_write=make)

    def listed(self) -> list[Listed]:
        """The models of the endpoint, by name and revision; a commit where no branch names it."""

        def read(database: sqlite3.Connection) -> list[Listed]:
            rows = database.execute(
                "SELECT repo, revision, name, commit_id, checked_at, scope FROM refs"
                " WHERE endpoint = ? AND (revision != commit_id OR NOT EXISTS (SELECT 1 FROM refs r"
                " WHERE r.scope = refs.scope AND r.endpoint = refs.endpoint AND r.repo = refs.repo"
                " AND r.commit_id = refs.commit_id AND r.revision != r.commit_id))"
                " ORDER BY repo, revision",
                (self._endpoint,),
            )
            return [
                Listed(repo, revision, ref, scope != PUBLIC)
                for repo, revision, name, commit, checked_at, scope in rows
                if (ref := stored_ref(name, commit, checked_at)) is not None
            ]

        return self._do(read, to_write=False) or []

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._close()

    def _do(self, what: Callable[[sqlite3.Connection], Result], *, to_write: bool) -> Result | None:
        """What the database answers; None where it cannot, or where nothing was ever written."""
        with self._lock:
            try:
                if self._open is None:
                    if self._closed or not (to_write or self._path.exists()):
                        return None
                    self._open = _opened(self._path)
                return what(self._open)
            except sqlite3.OperationalError as error:  # full, locked, mounted read-only
                self._tell(error)
            except (OSError, sqlite3.Error) as error:
                self._close()
                self._tell(error)
            return None

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _tell(self, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            log.warning("models are not kept on disk: %s", error)


def _columns(ref: Ref) -> tuple[str, str, float]:
    return ref.name, ref.commit, ref.checked_at


def _opened(path: Path) -> sqlite3.Connection:
    try:
        return _writable(path)
    except sqlite3.OperationalError:
        if not path.exists():
            raise
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
        )
    except sqlite3.DatabaseError:  # it is none: what is cached can be fetched again
        for end in ("", "-wal", "-shm"):
            path.with_name(f"{path.name}{end}").unlink(missing_ok=True)
        return _writable(path)


def _writable(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):  # what a token showed is for its owner only
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    database = sqlite3.connect(path, timeout=WAIT_SECONDS, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.executescript(SCHEMA)
    except sqlite3.Error:
        database.close()
        raise
    return database


def _make_room(database: sqlite3.Connection) -> None:
    """Forget the configs that were fetched first where the file is full."""
    (used,) = database.execute(
        "SELECT (page_count - freelist_count) * page_size"
        " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
    ).fetchone()
    if used <= MAX_BYTES:
        return
    with database:
        database.execute(
            "DELETE FROM configs WHERE id IN (SELECT id FROM configs ORDER BY id"
            " LIMIT 1 + (SELECT count(*) FROM configs) / ?)",
            (FORGOTTEN,),
        )
        database.execute(
            "DELETE FROM refs WHERE NOT EXISTS (SELECT 1 FROM configs c WHERE c.scope = refs.scope"
            " AND c.endpoint = refs.endpoint AND c.name = refs.name"
            " AND c.commit_id = refs.commit_id)"
        )
