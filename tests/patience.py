"""For tests with threads: waiting for one, and seeing that none is left."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator

import pytest


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for another thread; fail after ten seconds."""
    for _ in range(10_000):
        if condition():
            return
        threading.Event().wait(0.001)
    pytest.fail("it never came true")


@pytest.fixture
def no_thread_left() -> Iterator[None]:
    """Fail a test that leaves a thread behind, forgotten streams being collected first."""
    before = set(threading.enumerate())
    yield
    gc.collect()
    assert set(threading.enumerate()) <= before
