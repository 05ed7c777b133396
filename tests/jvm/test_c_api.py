"""The C API from plain C programs, which assert for themselves; see c/*.c."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from jvm_expected import TEXT, spoken

import kazeia
from kazeia_jvm.build import HOME

HERE = Path(__file__).parent
RunC = Callable[..., str]


def test_speech_equals_the_python_librarys_and_streams_equal_the_whole(
    run_c: RunC, model: Path, tiny: kazeia.Engine, tmp_path: Path
) -> None:
    run_c("speak", model, tmp_path / "out.pcm")
    assert (tmp_path / "out.pcm").read_bytes() == spoken(tiny, 2**64 - 1)


def test_what_cannot_be_done_is_an_error_by_name_and_harms_nothing(
    run_c: RunC, model: Path, tmp_path: Path
) -> None:
    run_c("refuse", model, tmp_path)


def test_four_threads_hear_what_each_hears_alone(run_c: RunC, model: Path) -> None:
    run_c("threads", model)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_is_flat_over_300_calls(run_c: RunC, model: Path) -> None:
    speeches = 25 * 3 * 1920 * 2  # bytes of a block's PCM
    assert int(run_c("memory", model)) < speeches / 2
    assert int(run_c("memory", model, "keep")) > speeches / 2, "a leak is not seen"


def test_the_leak_check_finds_what_was_leaked_on_purpose_and_nothing_else(
    c_program: Callable[..., Path], model: Path, tmp_path: Path
) -> None:
    source = tmp_path / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    try:
        subprocess.run([c_program(source, "-fsanitize=leak")], check=True, capture_output=True)
    except (AssertionError, subprocess.CalledProcessError):
        pytest.skip("the compiler's LeakSanitizer does not work here")
    done = subprocess.run(
        [c_program(HERE / "c" / "memory.c", "-fsanitize=leak"), model, "keep"],
        capture_output=True,
        encoding="utf-8",
        # Who called malloc is enough to know, and to look up more takes most of a minute.
        env=os.environ | {"LSAN_OPTIONS": "symbolize=0:malloc_context_size=2:exitcode=23"},
        timeout=300,
    )
    assert done.returncode == 23, done.stderr  # Python and ONNX Runtime keep things for the process's life
    leaks = re.findall(r"leak of \d+ byte\(s\) in (\d+) object\(s\)[^\n]*\n((?: +#[^\n]*\n)+)", done.stderr)
    ours = [int(count) for count, frames in leaks if "libkazeia_tts" in frames]
    # A hundred speeches were kept: PCM, codes, voice, language and finish reason of each. What some forgotten
    # register or stack slot still points to counts as in use, so one may be missing.
    assert len(ours) == 5, done.stderr
    assert set(ours) <= {99, 100}, ours


def test_a_python_program_may_load_the_library_too(library: Path, model: Path, tiny: kazeia.Engine) -> None:
    kz = ctypes.CDLL(str(library))
    kz.kz_load.restype = ctypes.c_int64
    kz.kz_last_error.restype = kz.kz_version.restype = ctypes.c_char_p
    assert kz.kz_version().decode() == kazeia.__version__
    assert kz.kz_load(os.fsencode(model), None, b"/bin/sh") == 0
    assert f"already runs {sys.executable};" in kz.kz_last_error().decode()
    options = b'{"quant": "f32", "threads": 1}'
    number = ctypes.c_int64(kz.kz_load(os.fsencode(model), options, os.fsencode(sys.executable)))
    assert number.value > 0
    heard: list[bytes] = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_void_p)
    def on_chunk(pcm: int, samples: int, sample_rate: int, user: int | None) -> int:
        heard.append(ctypes.string_at(pcm, 2 * samples))
        return 1

    options = b'{"seed": 5, "voice": "vivian", "language": "de", "max_frames": 12}'
    text = TEXT.encode()
    assert kz.kz_stream(number, text, options, on_chunk, None, None) == 0
    assert b"".join(heard) == spoken(tiny, 5)
    assert kz.kz_free(number) == 0


def test_the_header_stands_by_itself_and_names_every_export(
    compiler: list[str], library: Path, tmp_path: Path
) -> None:
    source = tmp_path / "alone.c"
    source.write_text('#include "kazeia_tts.h"\n')
    command = [*compiler, "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{HOME / 'include'}"]
    subprocess.run([*command, "-fsyntax-only", source], check=True)
    header = (HOME / "include" / "kazeia_tts.h").read_text("utf-8")
    declared = set(re.findall(r"^KZ_API [^(]*?\b(kz_\w+)\(", header, re.MULTILINE))
    assert declared == {
        *("kz_load", "kz_synthesize", "kz_stream", "kz_free", "kz_speech_free"),
        *("kz_last_error", "kz_last_error_kind", "kz_version"),
    }
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, check=True, text=True
    )
    exported = {line.split()[-1] for line in symbols.stdout.splitlines()}
    assert {name for name in exported if not name.startswith("Java_com_kazeia_tts_TtsJni_")} == declared
