"""The package as a whole: what it offers, how its rooms stand to each other, what importing it costs."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import kazeia

ROOT = Path(kazeia.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
MOST_LINES = 420

# The rooms in the order of the design: each may use those before it, never those after it.
ORDER = (
    ("errors", "_version", "_warn", "random", "quant", "rope", "budget", "runaway", "row_table"),
    ("text", "checkpoint", "audio", "dumps"),
    ("sampling", "testing"),
    ("graphs",),
    ("runtime",),
    ("prompt", "bundle"),
    ("bundle_build",),
    ("model", "models"),
    ("generation", "teacher_forcing"),
    ("speech",),
    ("job",),
    ("schedule", "workers", "scheduler"),
    ("running_batch", "decoding"),
    ("streaming",),
    ("engine", "validation"),
    ("bench", "quality", "reading"),
    ("cli", "server"),
    ("__main__",),
)
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}

# Libraries that a room must not know of; whoever needs them is elsewhere.
FORBIDDEN = {
    "checkpoint": {"onnx", "onnxruntime", "typer", "argparse"},
    "text": {"onnx", "onnxruntime", "numpy", "typer", "argparse"},
    "graphs": {"onnxruntime", "tokenizers", "safetensors", "typer", "argparse"},
    "runtime": {"onnx", "tokenizers", "safetensors", "typer", "argparse"},
    "generation": {"onnx", "onnxruntime", "tokenizers"},
    "engine": {"onnx", "onnxruntime", "tokenizers", "typer", "argparse", "sounddevice"},
}


def name_of(file: Path) -> str:
    parts = file.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(file: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it, but for the eyes of a type checker alone."""
    tree = ast.parse(file.read_text("utf-8"))
    unseen = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in unseen:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            assert node.module is not None
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if module_exists(inner) else node.module


def module_exists(name: str) -> bool:
    path = ROOT.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


EDGES = [(name_of(file), name) for file in FILES for name in imported(file)]


def test_the_public_names_are_sorted_and_all_there_is() -> None:
    assert kazeia.__all__ == sorted(kazeia.__all__)
    assert len(set(kazeia.__all__)) == len(kazeia.__all__)
    assert dir(kazeia) == kazeia.__all__
    for name in kazeia.__all__:
        assert getattr(kazeia, name) is not None
    errors = {name for name, value in vars(kazeia.errors).items() if isinstance(value, type)}
    assert {name for name in errors if not name.startswith("_")} <= set(kazeia.__all__)
    found = {
        name
        for name, value in vars(kazeia).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert found - {"TYPE_CHECKING", "Any"} <= set(kazeia.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        kazeia.nonsense  # noqa: B018


def public_members(value: object) -> Iterator[tuple[str, object]]:
    for name, member in vars(value).items():
        if name.startswith("_"):
            continue
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if inspect.isfunction(function):
            yield name, function


def test_everything_public_has_a_docstring() -> None:
    bare = []
    for name in kazeia.__all__:
        value = getattr(kazeia, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            bare += [] if (value.__doc__ or "").strip() else [name]
        if inspect.isclass(value):
            bare += [f"{name}.{member}" for member, f in public_members(value) if not f.__doc__]
    assert not bare


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_modules_and_their_public_parts_have_docstrings(file: Path) -> None:
    if file.name == "__main__.py":
        return
    tree = ast.parse(file.read_text("utf-8"))
    if file.stat().st_size:
        assert ast.get_docstring(tree), "the module has none"
    bare = [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert not bare


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_files_stay_short(file: Path) -> None:
    lines = file.read_text("utf-8").count("\n")
    assert lines <= MOST_LINES, f"{file.name} has {lines} lines: it is asking to be two"


def test_every_room_has_its_place() -> None:
    rooms = {room(name_of(file)) for file in FILES} - {""}
    assert rooms <= set(RANK), f"new rooms: give {rooms - set(RANK)} a place in ORDER"


def test_imports_run_one_way() -> None:
    wrong = [
        (importer, name)
        for importer, name in EDGES
        if name.startswith("kazeia.")
        and room(importer)
        and room(importer) != room(name)
        and RANK[room(importer)] < RANK[room(name)]
    ]
    assert not wrong


def test_the_engine_knows_no_face_and_nobody_imports_the_public_face() -> None:
    faces = {"cli", "server", "__main__"}
    for importer, name in EDGES:
        if room(importer) not in faces:
            assert name != "kazeia", f"{importer} imports the public face"
            assert room(name) not in faces


def test_no_module_imports_itself_by_a_detour() -> None:
    graph: dict[str, set[str]] = {}
    for importer, name in EDGES:
        if name.startswith("kazeia.") and importer != "kazeia":
            graph.setdefault(importer, set()).add(name)

    def reach(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " → ".join((*path, name))
        if name not in clean:
            for other in graph.get(name, ()):
                reach(other, (*path, name))
            clean.add(name)

    clean: set[str] = set()
    for name in sorted(graph):
        reach(name, ())


@pytest.mark.parametrize("name", sorted(FORBIDDEN))
def test_rooms_know_only_their_own_trade(name: str) -> None:
    wrong = [
        (importer, module)
        for importer, module in EDGES
        if room(importer) == name and module.split(".")[0] in FORBIDDEN[name]
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("library", "home"),
    [
        (name, "server")
        for name in ("starlette", "uvicorn", "prometheus_client", "websockets", "wyoming", "zeroconf")
    ]
    + [("av", "audio"), ("sounddevice", "audio")],
)
def test_optional_libraries_have_one_home(library: str, home: str) -> None:
    assert {room(importer) for importer, name in EDGES if name.split(".")[0] == library} <= {home}


@pytest.mark.parametrize("library", ["torch", "transformers", "qwen_tts", "librosa", "scipy"])
def test_the_heavy_libraries_are_never_imported(library: str) -> None:
    # but for the process that runs the official package because somebody asked for it
    known = {"kazeia.bench.official"}
    users = {importer for importer, name in EDGES if name.split(".")[0] == library}
    assert users <= known


def test_importing_the_package_imports_no_runtime() -> None:
    program = (
        "import sys, kazeia\n"
        "kazeia.KazeiaError, kazeia.EmptyTextError, kazeia.__all__, dir(kazeia)\n"
        "print(sorted({'onnxruntime', 'onnx', 'numpy', 'tokenizers'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"


def test_every_module_can_be_imported_first() -> None:
    # A module that only works after another one has been imported hides a circle.
    names = [name_of(file) for file in FILES if file.name != "__main__.py"]
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    for loaded in [m for m in sys.modules if m.split('.')[0] == 'kazeia']:\n"
        "        del sys.modules[loaded]\n"
    )
    subprocess.run([sys.executable, "-c", program, *names], check=True)
    assert importlib.import_module(names[0]) is kazeia
