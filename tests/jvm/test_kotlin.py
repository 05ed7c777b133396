"""The Kotlin classes: compiled by kotlinc, used from Java; and the page's examples as they stand."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from jvm_expected import example, spoken

import kazeia
from kazeia_jvm.build import HOME

HERE = Path(__file__).parent
RunJava = Callable[..., str]


def test_every_option_field_and_error_arrives(
    kotlin_classes: list[Path], run_java: RunJava, model: Path, tiny: kazeia.Engine, tmp_path: Path
) -> None:
    assert run_java("EngineTest", model, tmp_path / "out.pcm") == "ok\n"
    assert (tmp_path / "out.pcm").read_bytes() == spoken(tiny, 1)


def test_a_library_that_is_not_there_is_an_exception_that_says_what_to_do(
    kotlin_classes: list[Path], jdk: Path, java_classes: list[Path], tmp_path: Path
) -> None:
    path = os.pathsep.join(map(str, java_classes))
    for option in ("-Dkazeia.tts.library=/nowhere/libkazeia_tts.so", f"-Djava.library.path={tmp_path}"):
        command = [jdk / "bin" / "java", option, "-cp", path, "EngineTest", "random:tiny", tmp_path / "out"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1
        assert "found LibraryError, expected ModelNotFoundError" in done.stderr


def test_the_stand_ins_have_the_classes_own_names_and_types(
    kotlin_classes: list[Path], jdk: Path, tmp_path: Path
) -> None:
    sources = sorted((HERE / "java" / "standin").rglob("*.java"))
    subprocess.run([jdk / "bin" / "javac", "-d", tmp_path, *sources], check=True)

    names = [
        f"com.kazeia.tts.{name}" for name in ("TtsException", "TtsJni", "TtsJni$RawSpeech", "TtsJni$Sink")
    ]

    def members(folder: Path) -> set[tuple[str, str]]:
        command = [str(jdk / "bin" / "javap"), "-cp", str(folder), "-s", "-public", *names]
        out = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        return set(re.findall(r"(\w+(?=\()|\w+(?=;)).*\n +descriptor: (\S+)", out))

    found = members(tmp_path)
    assert len(found) == 5 + 9 + 1 + 3, found  # functions, fields, the sink's, two constructors and a getter
    assert members(kotlin_classes[0]) - {("INSTANCE", "Lcom/kazeia/tts/TtsJni;")} == found


@pytest.mark.parametrize("language", ["kotlin", "java"])
def test_the_pages_examples_run_as_they_stand(
    language: str, kotlin_classes: list[Path], jdk: Path, library: Path, tmp_path: Path
) -> None:
    path = os.pathsep.join(map(str, [tmp_path, *kotlin_classes]))
    if language == "kotlin":
        main = "HelloKt"  # compiled with the binding's classes
    else:
        (tmp_path / "Hello.java").write_text(example("java"), encoding="utf-8")
        command = [jdk / "bin" / "javac", "-cp", path, "-d", tmp_path, tmp_path / "Hello.java"]
        subprocess.run([str(part) for part in command], check=True)
        main = "Hello"
    command = [jdk / "bin" / "java", f"-Djava.library.path={library.parent}", "-cp", path, main]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\d+ samples at 24000 Hz, seed 42\n", done.stdout), done.stdout


def test_the_pages_c_example_runs_as_it_stands(c_program: Callable[..., Path], tmp_path: Path) -> None:
    source = tmp_path / "hello.c"
    source.write_text(example("c"), encoding="utf-8")
    done = subprocess.run([c_program(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\d+ samples at 24000 Hz, seed 42\n", done.stdout), done.stdout


def test_the_page_and_the_build_files_speak_of_one_version() -> None:
    for name in ("pom.xml", "build.gradle.kts"):
        text = (HOME / name).read_text("utf-8")
        assert re.search(
            rf'<version>{kazeia.__version__}</version>|version = "{kazeia.__version__}"', text
        ), name
