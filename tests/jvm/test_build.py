"""`python -m kazeia_jvm.build`: what it makes, and what it says when something is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kazeia_jvm import build as building
from kazeia_jvm.build import LIBRARY, BuildError, bridge_header, find_compiler, find_jdk, main


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with nothing on it; returns a folder without a JDK."""
    for name in ("CC", "CFLAGS", "LDFLAGS", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_a_missing_compiler_is_said(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BuildError, match="found no C compiler"):
        find_compiler()
    monkeypatch.setenv("CC", "ccache clang -m64")
    assert find_compiler() == ["ccache", "clang", "-m64"]


def test_a_missing_jdk_is_said(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BuildError, match=r"found no JDK with include/jni.h; .* --no-jni"):
        find_jdk()
    monkeypatch.setenv("JAVA_HOME", str(bare))
    with pytest.raises(BuildError, match=str(bare)):
        find_jdk()
    (bare / "include").mkdir()
    (bare / "include" / "jni.h").write_text("")
    assert find_jdk() == bare


def test_a_python_without_headers_or_library_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(building.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(BuildError, match=r"found no Python\.h"):
        building.python_flags()
    (tmp_path / "Python.h").write_text("")
    monkeypatch.setattr(building.sysconfig, "get_config_var", {"Py_ENABLE_SHARED": 0}.get)
    with pytest.raises(BuildError, match="has no shared libpython"):
        building.python_flags()
    monkeypatch.setattr(building.sysconfig, "get_config_var", {"Py_ENABLE_SHARED": 1, "LDVERSION": "9.9"}.get)
    with pytest.raises(BuildError, match=r"found no libpython9\.9\.so"):
        building.python_flags()


def test_the_command_builds_whole_or_not_at_all(
    compiler: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CFLAGS", "-fno-such-flag")
    assert main(["--no-jni", "--out", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("kazeia_jvm.build: error: the C compiler failed:\n")
    assert not list(tmp_path.iterdir())
    monkeypatch.delenv("CFLAGS")
    assert main(["--no-jni", "--verbose", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert said.out == f"{tmp_path / LIBRARY}\n"
    assert "-shared" in said.err
    assert [path.name for path in tmp_path.iterdir()] == [LIBRARY]
    monkeypatch.setenv("CC", "/nowhere/cc")
    assert main(["--no-jni", "--out", str(tmp_path)]) == 1
    assert "cannot be run" in capsys.readouterr().err


def test_the_library_carries_the_bridge_byte_for_byte() -> None:
    body = bridge_header().split("{", 1)[1].split("}")[0]
    data = bytes(int(number) for number in body.split(","))
    source = (building.HOME / "kazeia_jvm" / "bridge.py").read_bytes()
    assert data == source + b"\0"
    assert b"\0" not in source  # C would end it there
