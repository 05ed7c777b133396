"""The native library, built once per run, and the C and Java programs that use it.

Where a compiler or a JDK is missing these tests are skipped; with KAZEIA_REQUIRE_JVM=1 they fail, and
with KAZEIA_REQUIRE_KOTLIN=1 so do those that need kotlinc.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jvm_expected import example

from kazeia_jvm.build import HOME, BuildError, build, find_compiler, find_jdk

HERE = Path(__file__).parent
KOTLIN = HOME / "src" / "main" / "kotlin"

Done = subprocess.CompletedProcess[str]
Program = Callable[..., str]


def missing(what: object, switch: str = "KAZEIA_REQUIRE_JVM") -> None:
    """Skip the test, unless what it needs was promised."""
    if os.environ.get(switch) == "1":
        pytest.fail(f"{switch}=1, but {what}")
    pytest.skip(str(what))


def run(*command: object, **more: str) -> Done:
    """Run a program to its end, with more environment variables."""
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        encoding="utf-8",
        env=os.environ | more,
        timeout=300,
    )


def must(*command: object, **more: str) -> str:
    """Run a program that must succeed; returns its standard output."""
    done = run(*command, **more)
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session", autouse=True)
def _built_in_python() -> Iterator[None]:
    """The programs take the Python that runs the tests, whatever the user has set."""
    saved = os.environ.pop("KAZEIA_PYTHON", None)
    yield
    if saved is not None:
        os.environ["KAZEIA_PYTHON"] = saved


@pytest.fixture(scope="session")
def compiler() -> list[str]:
    """The C compiler's command."""
    try:
        command = find_compiler()
    except BuildError as error:
        missing(error)
    return command


@pytest.fixture(scope="session")
def jdk() -> Path:
    """The JDK's folder."""
    try:
        return find_jdk()
    except BuildError as error:
        missing(error)
        raise


@pytest.fixture(scope="session")
def library(compiler: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library with everything that this machine can give it, without a warning of the compiler's."""
    try:
        find_jdk()
        jni = True
    except BuildError:
        jni = False
    try:
        return build(
            tmp_path_factory.mktemp("library"), jni=jni, flags=["-Werror", "-g", "-fno-omit-frame-pointer"]
        )
    except BuildError as error:
        if "found no" in str(error) or "has no shared libpython" in str(error):
            missing(error)
        raise


@pytest.fixture(scope="session")
def c_program(
    compiler: list[str], library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Compile a C source against the library; returns the program's path."""
    folder = tmp_path_factory.mktemp("c")

    def compile_program(source: Path, *flags: str) -> Path:
        program = folder / "-".join([source.stem, *(flag.strip("-").replace("=", "-") for flag in flags)])
        if not program.exists():
            must(
                *compiler,
                *("-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"),
                *(f"-I{HOME / 'include'}", f"-I{HERE / 'c'}", *flags, "-o", program, source),
                *(f"-L{library.parent}", "-lkazeia_tts", f"-Wl,-rpath,{library.parent}"),
            )
        return program

    return compile_program


@pytest.fixture(scope="session")
def run_c(c_program: Callable[..., Path]) -> Program:
    """Run one of the C programs beside this file, which must succeed."""

    def run_program(name: str, *arguments: object) -> str:
        return must(c_program(HERE / "c" / f"{name}.c"), *arguments)

    return run_program


@pytest.fixture(scope="session")
def kotlin_classes(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The class path of the binding's Kotlin classes: a folder, and Kotlin's own library."""
    kotlinc = shutil.which("kotlinc")
    if kotlinc is None:
        missing("found no kotlinc; install one, such as Debian's kotlin", "KAZEIA_REQUIRE_KOTLIN")
    assert kotlinc is not None
    standard = Path(kotlinc).resolve().parents[1] / "lib" / "kotlin-stdlib.jar"
    classes = tmp_path_factory.mktemp("kotlin")
    hello = tmp_path_factory.mktemp("page") / "Hello.kt"  # in one go: a start of kotlinc takes seconds
    hello.write_text(example("kotlin"), encoding="utf-8")
    must(kotlinc, "-Werror", "-jvm-target", "1.8", "-no-reflect", "-d", classes, KOTLIN, hello)
    return [classes, standard]


@pytest.fixture(scope="session")
def java_classes(
    jdk: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[Path]:
    """The class path of the Java programs beside this file: over Kotlin's classes where there is a
    compiler for them, else over their stand-ins, and then without EngineTest, which has none."""
    classes = tmp_path_factory.mktemp("java")
    sources = sorted((HERE / "java").glob("*.java"))
    base: list[Path] = []
    if shutil.which("kotlinc"):
        base = request.getfixturevalue("kotlin_classes")
        options = ["-cp", os.pathsep.join(map(str, base))]
    else:
        sources = [source for source in sources if source.stem != "EngineTest"]
        options = ["-sourcepath", str(HERE / "java" / "standin")]
    must(
        jdk / "bin" / "javac",
        "-encoding",
        "UTF-8",
        "-Xlint:all",
        "-Werror",
        *options,
        "-d",
        classes,
        *sources,
    )
    return [classes, *base]


@pytest.fixture(scope="session")
def run_java(jdk: Path, library: Path, java_classes: list[Path]) -> Program:
    """Run one of the Java programs under the JVM's own checks of JNI calls."""

    def run_program(name: str, *arguments: object, options: tuple[str, ...] = ("-Xcheck:jni",)) -> str:
        where = ("-cp", os.pathsep.join(map(str, java_classes)), f"-Dkazeia.tts.library={library}")
        done = run(jdk / "bin" / "java", *options, *where, name, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "WARNING" not in done.stdout, done.stdout  # -Xcheck:jni complains there
        assert "onnxruntime" not in done.stderr, done.stderr
        return done.stdout

    return run_program


@pytest.fixture(scope="session")
def model(checkpoint: Callable[[str], Path], load_engine: Callable[..., object]) -> Path:
    """A tiny random checkpoint whose bundle lies ready in the run's cache."""
    load_engine("tiny")
    return checkpoint("tiny")
