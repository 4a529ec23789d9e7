"""The log on its way out of the process, which waits for nobody who reads it."""

from __future__ import annotations

import os
from collections.abc import Callable
from io import TextIOBase
from select import select
from threading import Condition, RLock, Thread, current_thread
from time import sleep

import structlog

ROOM = 2**20
"""Characters of entries that are not read yet: some four thousand requests."""
PAUSE_SECONDS = 0.05
"""Between two writes, so that a busy service writes many entries at once: to wake a thread for each
costs a request more than to write it.
"""
UNRENDERED = 256
"""Characters that an entry counts as which is put together later."""

log = structlog.get_logger("trainfit")


class LogWriter(TextIOBase):
    """A text stream whose entries a thread writes to a file descriptor. A pipe that nobody reads is
    full after 64 KiB, and who writes to it waits, for ever if need be; here that is the thread.

    Entries that find no room meanwhile are dropped and counted, and the log says how many as soon
    as it is read again. Each call of `write` is an entry, and so is each of `write_later`.
    """

    def __init__(self, descriptor: int) -> None:
        self.dropped = 0
        self._descriptor = descriptor
        self._waiting: list[str | Callable[[], str]] = []
        self._size = 0  # characters that wait
        self._at_hand = 0  # characters that are being written
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
        self._take(text, len(text))
        return len(text)

    def write_later(self, entry: Callable[[], str]) -> None:
        """The same of an entry that the thread puts together: many of a kind take less time one
        after the other than each takes between other things.
        """
        self._take(entry, UNRENDERED)

    def _take(self, entry: str | Callable[[], str], size: int) -> None:
        with self._lock:
            full = self._size + self._at_hand + size > ROOM
            if full and current_thread() is not self._thread:
                self.dropped += 1
            else:
                self._size += size
                self._waiting.append(entry)
                if self._idle:
                    self._changed.notify_all()

    def isatty(self) -> bool:
        """Whether a person reads it."""
        return os.isatty(self._descriptor)

    def drain(self, seconds: float) -> None:
        """Wait until everything is written, but no longer than this."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._size or self._at_hand), seconds)

    def _write_on(self) -> None:
        while True:
            with self._changed:
                self._idle = True
                self._changed.wait_for(lambda: self._waiting)
                self._idle = False
                entries, self._waiting = self._waiting, []
                self._at_hand, self._size = self._size, 0
            text = "".join([each if isinstance(each, str) else each() for each in entries])
            try:
                self._put(text.encode(errors="backslashreplace"))
            except OSError:  # nobody will ever read it, or the disk is full
                with self._lock:
                    self.dropped += len(entries)
            else:
                self._say_what_is_missing()
            with self._changed:
                self._at_hand = 0
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
