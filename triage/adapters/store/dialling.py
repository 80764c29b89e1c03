"""Connecting to a server that may be away, without letting those who wait for it pile up."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from triage.adapters.store.database import Session

ANSWER_S = 1.0  # how long one call waits for an attempt that is under way
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0  # between attempts


class BackingOffDialer:
    """See `Dialer`. For the use of one thread.

    An attempt runs in a thread of its own: one that hangs, as with a server that is stopped, goes
    on while those who wanted it are told that there is none. `as_error` makes what is raised.
    """

    def __init__(
        self, connect: Callable[[], Session], as_error: Callable[[BaseException], Exception]
    ) -> None:
        self._connect = connect
        self._as_error = as_error
        self._attempt: _Attempt | None = None
        self._failure: BaseException = ConnectionError("not connected yet")
        self._pause_s = 0.0
        self._not_before = 0.0

    def __call__(self, *, first: bool = False) -> Session:
        if first:
            return self._connect()
        attempt = self._attempt
        if attempt is None:
            if time.monotonic() < self._not_before:
                raise self._as_error(self._failure)
            attempt = self._attempt = _Attempt(self._connect)
        if not attempt.ended.wait(ANSWER_S):
            raise self._as_error(TimeoutError("the server does not answer"))
        self._attempt = None
        if attempt.session is not None:
            self._pause_s = 0.0
            return attempt.session
        self._failure = attempt.failure or self._failure
        self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
        # Not all replicas at the same moment.
        self._not_before = time.monotonic() + self._pause_s * random.uniform(0.5, 1.0)
        raise self._as_error(self._failure)

    def close(self) -> None:
        if self._attempt is not None:
            self._attempt.abandon()
            self._attempt = None


class _Attempt:
    def __init__(self, connect: Callable[[], Session]) -> None:
        self.session: Session | None = None
        self.failure: BaseException | None = None
        self.ended = threading.Event()
        self._connect = connect
        self._unwanted = False
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="store-connect", daemon=True).start()

    def abandon(self) -> None:
        with self._lock:
            self._unwanted = True
            if self.session is not None:
                self.session.close()

    def _run(self) -> None:
        try:
            session = self._connect()
        except Exception as error:  # noqa: BLE001 - it is raised to whoever asks for a session
            self.failure = error
        else:
            with self._lock:
                if self._unwanted:
                    session.close()
                else:
                    self.session = session
        self.ended.set()
