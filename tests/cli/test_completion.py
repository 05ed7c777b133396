"""What a shell offers: the script, and values that it asks for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kazeia.audio.output import FILE_FORMATS


def ask(line: str, folder: Path) -> list[str]:
    """What bash is told for this line."""
    words = line.split(" ")
    environment = {
        "_KAZEIA_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "KAZEIA_CACHE": str(folder / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "kazeia"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("kazeia re", {"read"}),
        ("kazeia say --st", {"--stdin", "--stream"}),
        ("kazeia say --format ", set(FILE_FORMATS)),
        ("kazeia say --format m", {"mp3", "m4a"}),
        ("kazeia say --voice ", {"kazeia"}),
        ("kazeia say -m random:1.7b --voice s", {"serena", "sohee"}),
        ("kazeia say --language ", {"auto", "english", "french"}),
        ("kazeia read --language g", set()),
        ("kazeia read -m random:tiny -l g", {"german"}),
        ("kazeia say -m no/such/model -v ", set()),
        ("kazeia say -m e", {"embedded"}),
        ("kazeia read --subtitles s", {"srt", "srt,vtt"}),
        ("kazeia bench -v k", {"kazeia"}),
        ("kazeia convert x --quant ", {"f32", "q8", "q4"}),
        ("kazeia say --layout s", {"streamed"}),
    ],
)
def test_values(line: str, offered: set[str], tmp_path: Path) -> None:
    assert set(ask(line, tmp_path)) == offered
    assert not list(tmp_path.iterdir()), "nothing is made for it"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_shown_for_the_shell(shell: str) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"from kazeia.cli import main; main(['--show-completion', {shell!r}])",
        ],
        env=os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_KAZEIA_COMPLETE" in done.stdout
    assert "kazeia" in done.stdout


def test_bash_takes_the_script(tmp_path: Path) -> None:
    script = (
        'eval "$(KAZEIA= _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION=1 kazeia --show-completion bash)"\n'
        "complete -p kazeia\n"
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", script],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "kazeia" in done.stdout
