"""How many cores: affinity and quotas bind, an explicit number wins (L09)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kazeia import OptionError
from kazeia.runtime import threads as threads_module
from kazeia.runtime.threads import resolve_threads, usable_cores

Tree = dict[str, str]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str, Tree], int]:
    """usable_cores() on a machine of so many cores, with this membership and this cgroup tree."""

    def cores(count: int, membership: str, tree: Tree) -> int:
        root = tmp_path / "cgroup"
        for name, content in tree.items():
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        (tmp_path / "membership").write_text(membership)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(count)), raising=False)
        return usable_cores(root, tmp_path / "membership")

    return cores


def v1(quota: object, period: object = 100000, group: str = "") -> Tree:
    folder = f"cpu/{group}/" if group else "cpu/"
    return {f"{folder}cpu.cfs_quota_us": f"{quota}\n", f"{folder}cpu.cfs_period_us": f"{period}\n"}


@pytest.mark.parametrize(
    ("membership", "tree", "wanted"),
    [
        # version 2
        ("0::/\n", {}, 64),
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 64),
        ("0::/\n", {"cpu.max": "250000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "1000 1000000\n"}, 1),
        ("0::/\n", {"cpu.max": "9900000 100000\n"}, 64),
        ("0::/a/b\n", {"a/b/cpu.max": "300000 100000\n"}, 3),
        # a limit of any ancestor binds
        ("0::/a/b\n", {"a/cpu.max": "300000 100000\n", "a/b/cpu.max": "max 100000\n"}, 3),
        ("0::/a/b\n", {"a/cpu.max": "300000 100000\n", "a/b/cpu.max": "700000 100000\n"}, 3),
        ("0::/a/b\n", {"cpu.max": "200000 100000\n", "a/b/cpu.max": "700000 100000\n"}, 2),
        # one of another group does not
        ("0::/a/b\n", {"a/c/cpu.max": "200000 100000\n", "b/cpu.max": "200000 100000\n"}, 64),
        # a group that cannot be seen from inside a container
        ("0::/../../elsewhere\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/system.slice/docker-1f.scope\n", {"cpu.max": "200000 100000\n"}, 2),
        # version 1
        ("4:cpu,cpuacct:/\n", v1(-1), 64),
        ("4:cpu,cpuacct:/\n", v1(200000), 2),
        ("4:cpuacct,cpu:/docker/x\n", v1(300000, group="docker/x"), 3),
        ("7:memory:/docker/x\n4:cpu:/docker/y\n", v1(300000, group="docker/x"), 64),
        ("4:cpu:/docker/x\n", v1(100000, 50000, "docker"), 2),
        # both
        ("4:cpu:/x\n0::/x\n", v1(400000, group="x") | {"x/cpu.max": "300000 100000\n"}, 3),
        # colons and spaces in names
        ("0::/a:b c\n", {"a:b c/cpu.max": "200000 100000\n"}, 2),
        # garbage is no quota
        ("", {}, 64),
        ("garbage\n", {"cpu.max": "200000 100000\n"}, 2),
        ("garbage\n0::/a\n", {"cpu.max": "nonsense"}, 64),
        ("0::/\n", {"cpu.max": ""}, 64),
        ("0::/\n", {"cpu.max": "200000\n"}, 64),
        ("0::/\n", {"cpu.max": "200000 0\n"}, 64),
        ("0::/\n", {"cpu.max": "9" * 400 + " 1\n"}, 64),
        ("0::/\n", {"cpu.max/inside": "a folder"}, 64),
        ("4:cpu:/\n", v1(200000, 0), 64),
        ("4:cpu:/\n", v1("many"), 64),
        ("4:cpu:/\n", v1(0), 64),
    ],
)
def test_a_quota_binds(
    machine: Callable[[int, str, Tree], int], membership: str, tree: Tree, wanted: int
) -> None:
    assert machine(64, membership, tree) == wanted


@pytest.mark.parametrize(("cores", "quota", "wanted"), [(1, 4, 1), (2, 4, 2), (4, 2, 2), (8, 8, 8)])
def test_the_tighter_of_affinity_and_quota_binds(
    machine: Callable[[int, str, Tree], int], cores: int, quota: int, wanted: int
) -> None:
    assert machine(cores, "0::/\n", {"cpu.max": f"{quota * 100000} 100000\n"}) == wanted


def test_a_machine_without_control_groups_has_its_cores(tmp_path: Path) -> None:
    assert usable_cores(tmp_path / "none", tmp_path / "none") >= 1


def test_a_system_without_affinity_has_its_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    for count, wanted in ((6, 6), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert usable_cores(tmp_path / "none", tmp_path / "none") == wanted


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs sched_setaffinity")
def test_taskset_is_followed_and_an_explicit_number_wins() -> None:
    program = (
        "import os\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from kazeia.runtime.threads import resolve_threads\n"
        "print(resolve_threads(None), resolve_threads(5))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "1 5\n"


def test_an_explicit_number_wins_over_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "usable_cores", lambda: 2)
    assert resolve_threads(None) == 2
    assert [resolve_threads(n) for n in (1, 2, 64)] == [1, 2, 64]


@pytest.mark.parametrize("threads", [0, -1, True, False, 1.0, "2", [2], 257, 10**11])
def test_impossible_numbers_are_refused_by_name(threads: object) -> None:
    with pytest.raises(OptionError, match=r"threads is .*from 1 to 256"):
        resolve_threads(threads)  # type: ignore[arg-type]
