"""The laws on the full-size random 0.6B: needs memory and disk, and some minutes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dump_official
import kazeia
from kazeia.validation import SNR_FLOOR_DB, snr_db
from oracle import load, require

pytestmark = [pytest.mark.oracle, pytest.mark.full]

GB = 1 << 30
MODEL = "random:0.6b"
TEXT = "The quick brown fox jumps over the lazy dog, twice."
SAY_RSS_GB = 2.5


@pytest.fixture(scope="module")
def model(cache: Path) -> Path:
    """The folder of the random 0.6B checkpoint."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    disk = shutil.disk_usage(cache).free
    if memory < 14 * GB or disk < 14 * GB:
        pytest.skip(f"needs 14 GB of memory and disk; found {memory / GB:.0f} and {disk / GB:.0f}")
    return kazeia.inspect(MODEL).path


def test_f32_equals_the_official_package(model: Path, tmp_path: Path) -> None:
    require()
    asked = ["--voice", "vivian", "--language", "english", "--frames", "33"]
    # In a process of its own, so that its memory is given back.
    subprocess.run(
        [sys.executable, dump_official.__file__, "--model", model, "--out", tmp_path, "--text", TEXT, *asked],
        check=True,
        capture_output=True,
    )
    report = kazeia.validate(MODEL, tmp_path)
    results = {stage.name: stage.result for stage in report.stages}
    assert report.ok, "\n".join(report.lines())
    assert results["predictor, teacher-forced"].startswith("495/495 codes")
    assert results["free greedy run"] == "528/528 codes"


@pytest.mark.parametrize("frames", [1, 600])
def test_the_decoder_equals_the_official_one(model: Path, frames: int) -> None:
    # One frame, and more than the attention window and the official chunk of 300.
    official = load(model)
    codes = np.random.default_rng(frames).integers(0, 2048, (frames, 16))
    with kazeia.load(MODEL) as engine:
        assert engine._model is not None
        ours = engine._model.decoder.decode(codes)
    assert snr_db(ours, official.waveform(codes)) >= SNR_FLOOR_DB


def test_threads_chunks_and_company_do_not_change_a_bit(model: Path) -> None:
    with kazeia.load(MODEL, threads=1) as engine:
        reference = engine.synthesize(TEXT, seed=1, max_frames=5).pcm
    with kazeia.load(MODEL, threads=2) as engine:
        assert np.array_equal(engine.synthesize(TEXT, seed=1, max_frames=5).pcm, reference)
        stream = engine.stream(TEXT, seed=1, max_frames=5, chunk_frames=2)
        assert np.array_equal(np.concatenate([chunk.pcm for chunk in stream]), reference)
        company = [
            kazeia.Request("Something else altogether.", voice="ryan", seed=2, max_frames=4),
            kazeia.Request(TEXT, seed=1, max_frames=5),
            kazeia.Request("Short.", seed=3, max_frames=2),
        ]
        assert np.array_equal(engine.batch(company)[1].pcm, reference)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to see the peak")
def test_say_stays_within_its_memory(model: Path, tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from kazeia.cli import main\n"
        "try:\n"
        "    main(sys.argv[1:])\n"
        "finally:\n"
        "    status = dict(line.split(':') for line in open('/proc/self/status'))\n"
        "    print(status['VmHWM'].split()[0], file=sys.stderr)\n"
    )
    out = tmp_path / "speech.wav"
    command = [sys.executable, "-c", program, "say", "-m", MODEL, "--max-frames", "12", "-o", str(out), TEXT]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "12 frames, 0.96 s of audio in" in done.stderr
    assert int(done.stderr.splitlines()[-1]) * 1024 < SAY_RSS_GB * 1e9
    assert out.stat().st_size == 44 + 12 * 1920 * 2
