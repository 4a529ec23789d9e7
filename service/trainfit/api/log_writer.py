"""The log on its way out of the process, which waits for nobody who reads it."""

from __future__ import annotations

import os
from io import TextIOBase
from select import select
from threading import Condition, RLock, Thread, current_thread
from time import sleep

import structlog

ROOM = 2**20
"""Characters of entries that are not read yet: some four thousand requests."""
PAUSE_SECONDS = 0.02
"""Between two writes, so that a busy service writes many entries at once: to wake a thread for each
costs a request more than to write it.
"""

log = structlog.get_logger("trainfit")


class LogWriter(TextIOBase):
    """A text stream whose entries a thread writes to a file descriptor. A pipe that nobody reads is
    full after 64 KiB, and who writes to it waits, for ever if need be; here that is the thread.

    Entries that find no room meanwhile are dropped and counted, and the log says how many as soon
    as it is read again. Each call of `write` is an entry.
    """

    def __init__(self, descriptor: int) -> None:
        self.dropped = 0
        self._descriptor = descriptor
        self._waiting: list[str] = []
        self._size = 0  # characters that wait or are being written
        self._said = 0  # how many dropped entries the log has named
        # Reentrant: collecting garbage may log, wherever that happens.
        self._lock = RLock()
        self._idle = False
        self._changed = Condition(self._lock)
        # A daemon, which no end of the process waits for.
        self._thread = Thread(target=self._write_on, name="log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        """Take an entry, or drop it, at once. What the thread itself tells of always finds room."""
        with self._lock:
            if self._size + len(text) > ROOM and current_thread() is not self._thread:
                self.dropped += 1
            else:
                self._size += len(text)
                self._waiting.append(text)
                if self._idle:
                    self._changed.notify_all()
        return len(text)

    def isatty(self) -> bool:
        """Whether a person reads it."""
        return os.isatty(self._descriptor)

    def drain(self, seconds: float) -> None:
        """Wait until everything is written, but no longer than this."""
        with self._changed:
            self._changed.wait_for(lambda: not self._size, seconds)

    def _write_on(self) -> None:
        while True:
            with self._changed:
                self._idle = True
                self._changed.wait_for(lambda: self._waiting)
                self._idle = False
                entries, self._waiting = self._waiting, []
            text = "".join(entries)
            try:
                self._put(text.encode(errors="backslashreplace"))
            except OSError:  # nobody will ever read it, or the disk is full
                with self._lock:
                    self.dropped += len(entries)
            else:
                self._say_what_is_missing()
            with self._changed:
                self._size -= len(text)
                self._changed.notify_all()
            sleep(PAUSE_SECONDS)

    def _put(self, text: bytes) -> None:
        """Write all of it, however long that takes. The descriptor may be one that does not block:
        who shares it can have made it so.
        """
        left = memoryview(text)
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:
                select([], [self._descriptor], [])

    def _say_what_is_missing(self) -> None:
        dropped = self.dropped
        if dropped > self._said:
            log.warning("entries of the log were dropped", entries=dropped - self._said)
            self._said = dropped
