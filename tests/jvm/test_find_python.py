"""Which Python the library starts, and what it says when it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
Open = Callable[..., tuple[int, str]]


@pytest.fixture
def open_with(c_program: Callable[..., Path], model: Path, tmp_path: Path) -> Open:
    """Load a model in a process of its own, with a Python as the argument and in KAZEIA_PYTHON."""

    def run(argument: object = None, variable: object = None, **more: str) -> tuple[int, str]:
        command = [c_program(HERE / "c" / "open.c"), model, *([] if argument is None else [str(argument)])]
        set_too = {} if variable is None else {"KAZEIA_PYTHON": str(variable)}
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", env=os.environ | set_too | more, cwd=tmp_path
        )
        return done.returncode, done.stdout.strip() + done.stderr

    return run


@pytest.mark.parametrize(
    ("argument", "variable"),
    [
        (None, None),
        (None, ""),
        (sys.executable, None),
        (sys.prefix, None),
        (None, sys.executable),
        (None, sys.prefix),
        (sys.prefix, "/nowhere/python"),
        (os.path.relpath(sys.executable, "/"), None),
    ],
    ids=[
        "built-in",
        "empty",
        "file",
        "folder",
        "variable",
        "variable's folder",
        "argument first",
        "relative",
    ],
)
def test_the_python_is_the_arguments_the_variables_or_the_builders(
    open_with: Open, argument: str | None, variable: str | None, tmp_path: Path
) -> None:
    if argument is not None and not argument.startswith("/"):
        argument = os.path.relpath(sys.executable, tmp_path)
    assert open_with(argument, variable) == (0, "ok")


def test_a_python_that_is_not_there_is_named_with_its_origin(open_with: Open, tmp_path: Path) -> None:
    code, said = open_with("/nowhere/python")
    assert code == 2
    assert said.startswith(
        "PythonError: the Python that was asked for is /nowhere/python, which is not there"
    )
    assert "KAZEIA_PYTHON" in said
    code, said = open_with(variable="missing/python")
    assert said.startswith(f"PythonError: KAZEIA_PYTHON is {tmp_path}/missing/python, which is not there")
    code, said = open_with(tmp_path)
    assert code == 2
    assert "holds no bin/python3" in said
    code, said = open_with("")
    assert "empty" in said
    code, said = open_with("x" * 5000)
    assert "too long" in said


def test_a_file_that_is_no_program_is_refused(open_with: Open, tmp_path: Path) -> None:
    (tmp_path / "python").write_text("no program")
    code, said = open_with(tmp_path / "python")
    assert code == 2
    assert "cannot be executed" in said


def test_an_environment_of_another_version_is_refused_before_it_is_started(
    open_with: Open, tmp_path: Path
) -> None:
    program = tmp_path / "other" / "bin" / "python3"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    code, said = open_with(tmp_path / "other")
    assert code == 2
    assert f"has no lib/python{VERSION} beside it; this library was built for Python {VERSION}" in said
    for line in ("version = 3.1.4", "version_info = 3.1.4.final.0", f"version = {VERSION}0.1"):
        (tmp_path / "other" / "pyvenv.cfg").write_text(f"home = /usr/bin\n{line}\n")
        code, said = open_with(tmp_path / "other")
        assert code == 2
        assert (
            f"an environment of Python {line.split()[-1]}; this library was built for Python {VERSION}"
            in said
        )


def test_an_environment_without_kazeia_is_named_with_what_to_install(open_with: Open, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    code, said = open_with(tmp_path / "bare", PYTHONPATH="")
    assert code == 2
    assert f"the Python {tmp_path}/bare/bin/python3 cannot use the package kazeia" in said
    assert "No module named 'kazeia'" in said
    assert "install kazeia there" in said
