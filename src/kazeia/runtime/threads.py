"""How many cores this process may really use."""

from __future__ import annotations

import os
from pathlib import Path

from kazeia.errors import OptionError

MOST_THREADS = 256
_CGROUP = Path("/sys/fs/cgroup")


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
