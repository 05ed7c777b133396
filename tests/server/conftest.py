"""One running server for all tests that need no settings of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from paced_engine import PacedEngine
from running import Running, running

from kazeia.engine import Engine


@pytest.fixture(scope="session")
def server(load_engine: Callable[..., Engine]) -> Iterator[Running]:
    """A server over the tiny random model."""
    with running(load_engine("tiny")) as found:
        yield found


@pytest.fixture
def paced(tiny: Engine) -> PacedEngine:
    return PacedEngine(tiny)
