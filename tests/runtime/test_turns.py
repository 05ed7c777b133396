"""A few at a time, first come, first served."""

from __future__ import annotations

import threading

import pytest

from kazeia.runtime.turns import Turns
from patience import wait_until


@pytest.mark.parametrize("count", [1, 3])
def test_they_come_in_the_order_of_their_coming(count: int) -> None:
    turns, order, inside = Turns(count), list[int](), list[int]()
    go = [threading.Event() for _ in range(12)]

    def work(number: int) -> None:
        with turns:
            order.append(number)
            inside.append(number)
            go[number].wait()
            inside.remove(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for number, thread in enumerate(threads):
        thread.start()
        if number < count:
            wait_until(lambda number=number: len(order) == number + 1)
        else:
            wait_until(lambda number=number: len(turns._waiting) == number + 1 - count)
    for number in range(12):
        assert len(inside) <= count
        go[number].set()
        threads[number].join()
        wait_until(lambda number=number: len(order) == min(12, number + 1 + count))
    assert order == list(range(12))
    with turns:  # all places are free again
        assert turns._free == count - 1


def test_an_error_inside_gives_the_place_back() -> None:
    turns = Turns(1)
    for _ in range(3):
        with pytest.raises(ValueError, match="inside"), turns:
            raise ValueError("inside")
    assert turns._free == 1


def test_who_is_interrupted_while_waiting_leaves_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(1)

    def interrupted(self: threading.Event, timeout: float | None = None) -> bool:
        raise KeyboardInterrupt

    with turns:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Event, "wait", interrupted)
            with pytest.raises(KeyboardInterrupt), turns:
                pass
        assert not turns._waiting
    assert turns._free == 1
