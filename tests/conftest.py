"""Models for the tests: made once per run, in a cache of the run's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import kazeia
from kazeia import Threads
from kazeia.engine import Engine
from kazeia.testing import SHAPES, make_checkpoint


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The run's cache folder; the user's own is never touched, nor are the user's settings read."""
    folder = tmp_path_factory.mktemp("cache")
    names = [name for name in os.environ if name.startswith(("KZTTS_", "KAZEIA_MODEL", "KAZEIA_CACHE"))]
    saved = {name: os.environ.pop(name) for name in names}
    os.environ["KAZEIA_CACHE"] = str(folder)
    yield folder
    del os.environ["KAZEIA_CACHE"]
    os.environ.update(saved)


@pytest.fixture(scope="session")
def checkpoint(cache: Path) -> Callable[[str], Path]:
    """The folder of a random checkpoint by the name of its shape; "ending" is tiny and ends by itself."""

    def make(name: str) -> Path:
        folder = cache / "checkpoints" / name
        if not folder.exists():
            shape = replace(SHAPES["tiny"], end_gain=3.5) if name == "ending" else SHAPES[name]
            make_checkpoint(folder, shape)
        return folder

    return make


@pytest.fixture(scope="session")
def load_engine(checkpoint: Callable[[str], Path]) -> Iterator[Callable[..., Engine]]:
    """Load a random model by shape, format and threads; each is loaded once per run."""
    engines: dict[tuple[str, str, int | Threads], Engine] = {}

    def load(shape: str = "tiny", quant: str = "f32", threads: int | Threads = 1) -> Engine:
        key = shape, quant, threads
        if key not in engines:
            engines[key] = kazeia.load(checkpoint(shape), quant=quant, threads=threads)
        return engines[key]

    yield load
    for engine in engines.values():
        engine.close()


@pytest.fixture
def tiny(load_engine: Callable[..., Engine]) -> Engine:
    """A tiny random model in f32, generator and decoder side by side; it never ends by itself."""
    return load_engine("tiny", threads=2)


@pytest.fixture
def ending(load_engine: Callable[..., Engine]) -> Engine:
    """A tiny random model in f32 that ends by itself after some ten frames."""
    return load_engine("ending", threads=2)
