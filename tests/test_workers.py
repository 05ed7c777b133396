"""Threads that run ahead: bounded, stoppable, honest about errors, gone afterwards."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Generator

import pytest

from kazeia.workers import Registry, Workers
from patience import wait_until


class Mine(Exception):
    pass


def count(made: list[int], end: int | None = None) -> Generator[int, None, None]:
    number = 0
    while number != end:
        made.append(number)
        yield number
        number += 1


@pytest.fixture
def workers() -> Workers:
    return Workers(Registry(), threaded=True)


@pytest.fixture(autouse=True)
def no_thread_left() -> Generator[None, None, None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("room", [1, 2, 7])
@pytest.mark.parametrize("threaded", [True, False])
def test_items_come_in_order_and_end(room: int, threaded: bool) -> None:
    with Workers(Registry(), threaded) as workers:
        items = workers.ahead(count([], 20), room, "t")
        assert list(items) == list(range(20))
        assert list(items) == []


@pytest.mark.parametrize("room", [1, 3])
def test_a_slow_consumer_holds_the_thread_back(workers: Workers, room: int) -> None:
    made: list[int] = []
    with workers:
        items = workers.ahead(count(made), room, "t")
        for taken in range(5):
            wait_until(lambda taken=taken: len(made) == taken + room)  # type: ignore[misc]
            threading.Event().wait(0.02)
            assert len(made) == taken + room  # not one item more is begun
            assert next(items) == taken


def test_stages_stand_behind_each_other(workers: Workers) -> None:
    made: list[int] = []

    def doubled(source: object) -> Generator[int, None, None]:
        for item in source:  # type: ignore[attr-defined]
            yield 2 * item

    with workers:
        first = workers.ahead(count(made), 2, "first")
        second = workers.ahead(doubled(first), 1, "second")
        assert [next(second) for _ in range(50)] == list(range(0, 100, 2))
    assert len(made) <= 50 + 1 + 2


@pytest.mark.parametrize("threaded", [True, False])
@pytest.mark.parametrize("kind", [Mine, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_a_thread_raises_is_raised_to_the_consumer_after_its_items(
    kind: type[BaseException], threaded: bool
) -> None:
    error = kind("found")

    def failing() -> Generator[int, None, None]:
        yield 1
        yield 2
        raise error

    seen: list[int] = []
    with pytest.raises(kind) as caught, Workers(Registry(), threaded) as workers:
        seen.extend(workers.ahead(failing(), 5, "t"))
    assert caught.value is error
    assert seen == [1, 2]


def test_an_error_goes_through_both_stages(workers: Workers) -> None:
    def failing() -> Generator[int, None, None]:
        yield 1
        raise Mine

    def through(source: object) -> Generator[int, None, None]:
        yield from source  # type: ignore[misc]

    with pytest.raises(Mine), workers:
        list(workers.ahead(through(workers.ahead(failing(), 1, "a")), 1, "b"))


def test_leaving_stops_the_thread_after_the_item_it_is_at(workers: Workers) -> None:
    made: list[int] = []
    closed: list[bool] = []

    def source() -> Generator[int, None, None]:
        try:
            yield from count(made)
        finally:
            closed.append(True)

    with workers:
        items = workers.ahead(source(), 3, "t")
        next(items)
    after = len(made)
    assert after <= 1 + 3 + 1
    assert closed == [True]
    threading.Event().wait(0.02)
    assert len(made) == after


def test_an_error_of_the_consumer_leaves_no_thread(workers: Workers) -> None:
    def consume() -> None:
        with workers:
            for _ in workers.ahead(count([]), 3, "t"):
                raise Mine

    with pytest.raises(Mine):
        consume()


def test_stopping_all_wakes_those_who_wait() -> None:
    registry = Registry()
    gate = threading.Event()
    errors: list[BaseException] = []

    def never() -> Generator[int, None, None]:
        gate.wait(10)
        yield 1

    def consume() -> None:
        try:
            with Workers(registry, True) as workers:
                next(workers.ahead(never(), 1, "t"))
        except Mine as error:
            errors.append(error)

    threads = [threading.Thread(target=consume) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: threading.active_count() >= 7)
    threading.Timer(0.05, gate.set).start()
    registry.stop_all(Mine)
    for thread in threads:
        thread.join(10)
    assert len(errors) == 3
    assert len({id(error) for error in errors}) == 3  # one each: a shared traceback would grow
    wait_until(lambda: not any(isinstance(t, threading.Timer) for t in threading.enumerate()))


def test_a_thread_may_stop_all_from_within() -> None:
    registry = Registry()

    def source() -> Generator[int, None, None]:
        yield 1
        registry.stop_all(Mine)
        yield 2

    with pytest.raises(Mine), Workers(registry, True) as workers:
        list(workers.ahead(source(), 1, "t"))


def test_a_thread_that_is_begun_after_the_stop_does_nothing(workers: Workers) -> None:
    made: list[int] = []
    with workers:
        workers.stop(Mine)
        items = workers.ahead(count(made), 1, "t")
        with pytest.raises(Mine):
            next(items)
    assert len(made) <= 1


def test_a_call_that_has_ended_is_forgotten() -> None:
    registry = Registry()
    with Workers(registry, True) as workers:
        list(workers.ahead(count([], 3), 1, "t"))
    gone = weakref.ref(workers)
    del workers
    gc.collect()
    assert gone() is None
    registry.stop_all(Mine)


def test_the_interpreter_leaves_in_the_middle_of_everything() -> None:
    # A thread that waits for its consumer, and one that works, at the end of the program.
    program = (
        "import time\n"
        "from kazeia.workers import Registry, Workers\n"
        "def source():\n"
        "    while True:\n"
        "        time.sleep(0.001)\n"
        "        yield 1\n"
        "registry = Registry()\n"
        "a, b = Workers(registry, True), Workers(registry, True)\n"
        "first = a.__enter__().ahead(source(), 1, 'a')\n"
        "second = b.__enter__().ahead(source(), 10**9, 'b')\n"
        "next(first), next(second)\n"
        "print('leaving')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("leaving\n", "")
