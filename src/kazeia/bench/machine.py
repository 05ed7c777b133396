"""What the machine is, and what this process has taken of it. What cannot be known is None."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kazeia.runtime.threads import usable_cores

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Machine:
    """The machine that was measured on."""

    cpu: str
    """The processor's name."""
    cores: int
    """Cores that the process may really use."""
    l3_bytes: int | None
    """The last level cache of one core."""
    memory_bytes: int | None
    system: str
    python: str
    onnxruntime: str

    def to_dict(self) -> dict[str, Any]:
        """The fields."""
        return asdict(self)


def this_machine() -> Machine:
    """Describe the machine this runs on."""
    import onnxruntime

    return Machine(
        cpu=_cpu_name(),
        cores=usable_cores(),
        l3_bytes=last_level_cache(),
        memory_bytes=memory_bytes(),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        onnxruntime=onnxruntime.__version__,
    )


def _cpu_name(info: Path = Path("/proc/cpuinfo")) -> str:
    try:
        for line in info.read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine() or "unknown processor"


def last_level_cache(caches: Path = _CACHES) -> int | None:
    """Bytes of the largest cache of the first core (Linux)."""
    sizes = []
    for file in caches.glob("index*/size"):
        try:
            text = file.read_text().strip()
            sizes.append(int(text[:-1]) * _UNITS[text[-1]])
        except (OSError, ValueError, KeyError, IndexError):
            continue
    return max(sizes, default=None)


def memory_bytes() -> int | None:
    """Bytes of main memory (Unix)."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def peak_rss(status: Path = Path("/proc/self/status")) -> int | None:
    """The most resident memory that this process ever had, in bytes (Linux, macOS)."""
    try:
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    if sys.platform == "darwin":  # on Linux it would be that of whoever started this process, too
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return None


def disk_bytes_read(io: Path = Path("/proc/self/io")) -> int | None:
    """Bytes that this process has made the disk deliver so far (Linux)."""
    try:
        for line in io.read_text().splitlines():
            if line.startswith("read_bytes:"):
                return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return None


def evict(files: Iterable[Path]) -> bool:
    """Ask the system to forget what it holds of these files in memory; False where one cannot ask.

    Files that are in use elsewhere stay: whoever measures must look at `disk_bytes_read`.
    """
    if not hasattr(os, "posix_fadvise"):
        return False
    for file in files:
        handle = os.open(file, os.O_RDONLY)
        try:
            os.fsync(handle)  # what has not been written yet cannot be forgotten
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:
            return False
        finally:
            os.close(handle)
    return True
