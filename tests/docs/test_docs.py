"""The documentation is true: its examples run, and it lists the options that there are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kazeia.bench.report import SPEED_COLUMNS, table

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
_BLOCK = re.compile(r"<!-- run -->\n```(\w+)\n(.*?)```", re.DOTALL)
EXAMPLES = [
    pytest.param(language, code, id=f"{page.name}-{number}")
    for page in PAGES
    for number, (language, code) in enumerate(_BLOCK.findall(page.read_text("utf-8")))
]


def shell(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )


def test_there_are_examples_of_each_face() -> None:
    assert {e.values[0] for e in EXAMPLES} == {"sh", "python"}
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize(("language", "code"), EXAMPLES)
def test_examples_run_as_they_stand(language: str, code: str, tmp_path: Path) -> None:
    if language == "python":
        (tmp_path / "example.py").write_text(code, encoding="utf-8")
        code = f'"{sys.executable}" -W error example.py'
    done = shell(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    for wav in re.findall(r"[^\s\"'(]+\.wav", code):
        assert (tmp_path / wav).stat().st_size > 44


def test_the_first_command_of_the_readme_speaks(tmp_path: Path) -> None:
    first = re.search(r"pip install \. && (kazeia say .*)", (ROOT / "README.md").read_text("utf-8"))
    assert first is not None
    done = shell(first[1], tmp_path)
    assert done.returncode == 0, done.stderr
    samples = ((tmp_path / "bonjour.wav").stat().st_size - 44) // 2
    assert 1.5 * 24_000 <= samples <= 4 * 24_000


def test_the_test_command_is_the_same_everywhere() -> None:
    command = 'pip install -e ".[test]" && pip install --no-deps -r tests/oracle-requirements.txt && pytest'
    assert command in (ROOT / "README.md").read_text("utf-8")
    assert command in (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    # CI differs only in being quiet, and in checking the style in between.
    script = (ROOT / ".ci" / "run").read_text("utf-8").replace("--quiet ", "").replace("--editable", "-e")
    install, test = command.rsplit(" && ", 1)
    assert install in script
    assert script.rstrip().endswith(test)


@pytest.mark.parametrize(
    "command", ["say", "read", "serve", "voices", "convert", "validate", "bench", "quality"]
)
def test_the_page_lists_exactly_the_options_of_the_command(command: str, tmp_path: Path) -> None:
    done = shell(f"kazeia {command} --help", tmp_path)
    known = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", done.stdout.split("Exit codes:")[0])) - {"--help"}
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    section = re.search(rf"## kazeia {command}\b.*?(?=\n## |\Z)", page, re.DOTALL)
    assert section is not None
    prose = section[0].split("<!-- run -->")[0]
    listed = set(re.findall(r"`(--[a-z][a-z-]+)`", prose))
    assert listed == known


def test_the_table_of_the_readme_is_that_of_the_command() -> None:
    assert table(SPEED_COLUMNS, []) in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target
