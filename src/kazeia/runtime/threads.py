"""How many cores this process may really use."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from kazeia.errors import OptionError
from kazeia.runtime.memory import memory_scales

MOST_THREADS = 256
MOST_BY_ITSELF = 8  # matrices of a few megabytes: more threads would mostly wait for each other
_LARGE = 64 << 20  # bytes of weights; smaller ones stay in caches
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Threads:
    """How many threads each part of the engine has. Raises OptionError for what cannot be.

    The language model is bound by memory and the codec decoder by arithmetic: one thread of each, side
    by side, keeps two cores busy, while several of each would only fight.
    """

    generator: int = 1
    """Threads of the talker and the code predictor, 1 to 256."""
    side_by_side: bool = True
    """Whether the codec decoder works beside the generator in a thread of its own (it uses one core;
    its sine is exact in one thread only), or in turn with it in the caller's thread."""
    decoders: int = 1
    """How many segments are decoded at the same time, in files and batches of several; 1 to 256."""

    def __post_init__(self) -> None:
        resolve_threads(self.generator)
        resolve_threads(self.decoders)
        if not isinstance(self.side_by_side, bool):
            raise OptionError(f"threads: side_by_side is {self.side_by_side!r}; expected True or False")


def plan_threads(threads: int | Threads | None) -> Threads:
    """What `load(threads=…)` stands for: a number is the sum, of which the decoder takes one.

    With one in all, generator and decoder work in turn. Decoding several segments, which is most of the
    work there, may use all of them. None counts `usable_cores()`, of which the
    generator takes no more than eight.
    """
    if isinstance(threads, Threads):
        return threads
    count = resolve_threads(threads)
    if threads is None:
        count = min(count, MOST_BY_ITSELF + 1)
    return Threads(max(1, count - 1), side_by_side=count > 1, decoders=min(count, MOST_BY_ITSELF))


def widened(plan: Threads, weights: int) -> Threads:
    """A second thread for the generator of two cores, where weights of so many bytes are read faster by it.

    It takes turns with the decoder's; on machines whose memory one core exhausts they would only fight.
    """
    if plan.generator > 1 or not plan.side_by_side or weights < _LARGE or not memory_scales(2):
        return plan
    return replace(plan, generator=2)


def resolve_threads(threads: int | None) -> int:
    """The caller's number if given (OptionError unless it is a whole number ≥ 1), else `usable_cores()`."""
    if threads is None:
        return usable_cores()
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MOST_THREADS:
        raise OptionError(
            f"threads is {threads!r}; expected a whole number from 1 to {MOST_THREADS}, or None"
        )
    return threads


def usable_cores(cgroup: Path = _CGROUP, membership: Path = Path("/proc/self/cgroup")) -> int:
    """Cores left after CPU affinity and the container's quota, at least 1.

    A machine of 64 cores with a quota of two answers 2: more threads than that would only be
    throttled.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quota = _quota(cgroup, membership)
    return max(1, cores if quota is None else min(cores, int(quota)))


def _quota(cgroup: Path, membership: Path) -> float | None:
    """The tightest CPU quota, in cores, of this process's control groups (v2 and v1)."""
    quotas: list[float] = []
    groups = ["/"]
    try:
        for line in membership.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "" or "cpu" in controllers.split(","):
                groups.append(path)
    except (OSError, ValueError):
        pass  # no control groups here
    for group in groups:
        # A limit on any ancestor binds its children too.
        for folder in [group, *(str(p) for p in Path(group).parents)]:
            quotas += _read_v2(cgroup / folder.lstrip("/")) + _read_v1(cgroup / "cpu" / folder.lstrip("/"))
    return min(quotas, default=None)


def _read_v2(folder: Path) -> list[float]:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return [] if quota == "max" else [int(quota) / int(period)]
    except (OSError, ValueError, ArithmeticError):
        return []


def _read_v1(folder: Path) -> list[float]:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        return [quota / int((folder / "cpu.cfs_period_us").read_text())] if quota > 0 else []
    except (OSError, ValueError, ArithmeticError):
        return []
