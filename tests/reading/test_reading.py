"""Books read aloud: where everything is, and going on where a reading stopped, bit for bit."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
from filelock import FileLock

from kazeia import Threads
from kazeia.audio.wav import pcm_bytes, to_int16
from kazeia.engine import Engine
from kazeia.errors import (
    AudioError,
    EmptyTextError,
    GenerationError,
    KazeiaWarning,
    OptionError,
    ReadingStoppedError,
    TextError,
    VoiceError,
)
from kazeia.reading import Book, Reading, Style, parse_book, read_book
from kazeia.reading.work import MANIFEST, WorkFolder, work_path

RATE = 24_000
STYLE = Style(max_frames=6)
TEXT = """Before it all.

# One

The first paragraph. [pause:500ms] It goes on.

## Chapter and verse

Again.

***

Again.

### Deep

The end. [pause:1s]"""
BOOK = parse_book(TEXT)


def heard(path: Path) -> npt.NDArray[np.int16]:
    samples, rate = soundfile.read(path, dtype="int16")
    assert rate == RATE
    return np.asarray(samples)


class Counting:
    """An engine that remembers what it was asked to say."""

    def __init__(self, engine: Engine) -> None:
        self.texts: list[str] = []
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def batch(self, requests: Any) -> Any:
        self.texts += [request.text for request in requests]
        return self._engine.batch(requests)


def stop_after(pieces: int, book: Book, engine: Any, output: Path, **options: Any) -> Path:
    """Read until so many pieces are kept, then stop; the folder that stays."""
    cancel = threading.Event()
    folder = work_path(output)

    def look(stage: str, share: float) -> None:
        if len(list(folder.glob("*.wav"))) >= pieces:
            cancel.set()

    # one after the other, so that the others are not finished in the meantime
    one = Counting(engine)
    one.max_batch = 1
    with pytest.raises(ReadingStoppedError, match=rf"pieces left; the others are kept in {folder}"):
        read_book(one, book, output, cancel=cancel, progress=look, **options)  # type: ignore[arg-type]
    assert not output.exists()
    return folder


def test_everything_is_where_it_is_said_to_be(tiny: Engine, tmp_path: Path) -> None:
    path = tmp_path / "book.wav"
    reading = read_book(tiny, BOOK, path, style=STYLE, seed=3, subtitles=["srt", "vtt"])
    pieces = reading.pieces
    assert [piece.text for piece in pieces] == [
        "Before it all.", "One", "The first paragraph.", "It goes on.", "Chapter and verse",
        "Again.", "Again.", "Deep", "The end.",
    ]  # fmt: skip
    silences = [(b.start - a.end) / RATE for a, b in pairwise(pieces)]
    assert silences == [1.2, 0.4, 0.5, 1.2, 0.4, 0.4, 0.4, 0.4]
    assert pieces[0].start == 0
    samples = heard(path)
    assert len(samples) == reading.samples == pieces[-1].end + RATE
    rest = samples.copy()
    for piece in pieces:
        alone = tiny.synthesize(piece.text, seed=piece.seed, max_frames=6)
        assert np.array_equal(samples[piece.start : piece.end], to_int16(alone.pcm))
        rest[piece.start : piece.end] = 0
    assert not rest.any()
    assert [(c.title, c.start, c.end) for c in reading.chapters] == [
        ("book", 0, pieces[1].start),
        ("One", pieces[1].start, pieces[4].start),
        ("Chapter and verse", pieces[4].start, len(samples)),
    ]
    assert not reading.has_marks
    assert pieces[5].seed != pieces[6].seed, "equal texts sound different"
    srt = (tmp_path / "book.srt").read_text("utf-8")
    assert "2\n00:00:01,680 --> 00:00:02,160\nOne\n" in srt
    assert srt.count("-->") == (tmp_path / "book.vtt").read_text("utf-8").count("-->") == len(pieces)
    assert reading.subtitles == (tmp_path / "book.srt", tmp_path / "book.vtt")
    assert sorted(os.listdir(tmp_path)) == ["book.srt", "book.vtt", "book.wav"]


def test_chapters_lie_in_the_file(tiny: Engine, tmp_path: Path) -> None:
    import av

    reading = read_book(tiny, BOOK, tmp_path / "b.m4a", style=STYLE, seed=3, title="Buch", author="Zoë")
    with av.open(str(tmp_path / "b.m4a")) as container:
        marks = [(c["metadata"]["title"], float(c["start"] * c["time_base"])) for c in container.chapters()]
        assert (container.metadata["title"], container.metadata["artist"]) == ("Buch", "Zoë")
        assert container.duration is not None
        assert container.duration / 1e6 == pytest.approx(reading.duration, abs=0.001)
    assert marks == [(c.title, pytest.approx(c.start / RATE, abs=0.001)) for c in reading.chapters]
    assert reading.has_marks
    assert marks[0][0] == "Buch"


def test_flac_holds_the_samples_of_wav(tiny: Engine, tmp_path: Path) -> None:
    for name in ("a.wav", "a.flac"):
        read_book(tiny, BOOK, tmp_path / name, style=STYLE, seed=3)
    assert np.array_equal(heard(tmp_path / "a.wav"), heard(tmp_path / "a.flac"))


def test_threads_and_company_change_nothing(
    load_engine: Callable[..., Engine], tiny: Engine, tmp_path: Path
) -> None:
    read_book(tiny, BOOK, tmp_path / "a.wav", style=STYLE, seed=3)
    one = load_engine("tiny", threads=Threads(1, side_by_side=False))
    read_book(one, BOOK, tmp_path / "b.wav", style=STYLE, seed=3)
    assert (tmp_path / "a.wav").read_bytes() == (tmp_path / "b.wav").read_bytes()
    read_book(tiny, BOOK, tmp_path / "c.wav", style=STYLE, seed=4)
    assert (tmp_path / "a.wav").read_bytes() != (tmp_path / "c.wav").read_bytes()


# ---- going on ----


def test_a_stopped_reading_goes_on_without_speaking_twice(tiny: Engine, tmp_path: Path) -> None:
    want = read_book(tiny, BOOK, tmp_path / "whole.wav", style=STYLE, seed=3)
    path = tmp_path / "cut.wav"
    folder = stop_after(3, BOOK, tiny, path, style=STYLE, seed=3)
    kept = {json.loads(line)["text"] for line in (folder / MANIFEST).read_bytes().splitlines()[1:]}
    assert len(kept) >= 3
    engine: Any = Counting(tiny)
    reading = read_book(engine, BOOK, path, style=STYLE)  # the seed is that of the reading
    assert reading.seed == 3
    assert sum(piece.kept for piece in reading.pieces) == len(BOOK.blocks) + 1 - len(engine.texts)
    assert not kept & (set(engine.texts) - {"Again."})
    assert path.read_bytes() == (tmp_path / "whole.wav").read_bytes()
    assert [replace(p, kept=False) for p in reading.pieces] == list(want.pieces)
    assert sorted(os.listdir(tmp_path)) == ["cut.wav", "whole.wav"]


def test_only_what_has_changed_is_spoken_anew(tiny: Engine, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    stop_after(8, BOOK, tiny, path, style=STYLE, seed=3)
    changed = parse_book(TEXT.replace("It goes on.", "It went on.").replace("# One", "# One\n\nNew.\n"))
    engine: Any = Counting(tiny)
    read_book(engine, changed, path, style=STYLE)
    assert sorted(set(engine.texts) - {"The end."}) == ["It went on.", "New."]
    read_book(tiny, changed, tmp_path / "b.wav", style=STYLE, seed=3)
    assert path.read_bytes() == (tmp_path / "b.wav").read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 4},
        {"style": replace(STYLE, voice="vivian")},
        {"style": replace(STYLE, language="french")},
        {"style": replace(STYLE, max_frames=5)},
        {"style": replace(STYLE, layout="streamed")},
        {"style": replace(STYLE, sampling="official")},
    ],
)
def test_other_settings_are_another_reading(change: dict[str, Any], tiny: Engine, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    stop_after(2, BOOK, tiny, path, style=STYLE, seed=3)
    settings = {"style": STYLE, "seed": 3} | change
    reading = read_book(tiny, BOOK, path, **settings)
    assert not any(piece.kept for piece in reading.pieces)
    read_book(tiny, BOOK, tmp_path / "b.wav", **settings)
    assert path.read_bytes() == (tmp_path / "b.wav").read_bytes()


def test_pauses_and_formats_need_no_new_speech(tiny: Engine, tmp_path: Path) -> None:
    stop_after(8, BOOK, tiny, tmp_path / "a.wav", style=STYLE, seed=3)
    engine: Any = Counting(tiny)
    style = replace(STYLE, paragraph_pause=0, chapter_pause=10)
    read_book(engine, BOOK, tmp_path / "a.wav", style=style, subtitles=["vtt"])
    assert len(engine.texts) <= 1


def test_a_damaged_piece_and_a_torn_line_are_noticed(tiny: Engine, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    folder = stop_after(4, BOOK, tiny, path, style=STYLE, seed=3)
    lines = (folder / MANIFEST).read_bytes().splitlines(keepends=True)
    damaged = json.loads(lines[1])
    file = folder / f"{damaged['key']}.wav"
    file.write_bytes(file.read_bytes()[:-2] + b"\x7f\x7f")
    gone = json.loads(lines[2])
    (folder / f"{gone['key']}.wav").unlink()
    (folder / MANIFEST).write_bytes(b"".join(lines[:-1]) + lines[-1][:30])
    torn = json.loads(lines[-1])
    (folder / ".half.123456.tmp").write_bytes(b"RIFF")
    engine: Any = Counting(tiny)
    with pytest.warns(KazeiaWarning, match="has changed since it was written"):
        read_book(engine, BOOK, path, style=STYLE)
    assert {damaged["text"], gone["text"], torn["text"]} <= set(engine.texts)
    read_book(tiny, BOOK, tmp_path / "b.wav", style=STYLE, seed=3)
    assert path.read_bytes() == (tmp_path / "b.wav").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a.wav", "b.wav"]


HEAD = {"kazeia": "reading", "version": 1, "output": "a.wav"}


@pytest.mark.parametrize(
    "manifest",
    [
        b"\x00\xff" * 20,
        b"[" * 200_000,
        *(json.dumps(HEAD | {"seed": seed}).encode() for seed in (-5, 2**64, True, 1.0, "3", None)),
        b"{}\n",
    ],
    ids=["bytes", "nested", "negative", "huge", "true", "float", "text", "null", "empty"],
)
def test_a_damaged_manifest_is_said_and_all_is_spoken_anew(
    manifest: bytes, tiny: Engine, tmp_path: Path
) -> None:
    path = tmp_path / "a.wav"
    folder = stop_after(2, BOOK, tiny, path, style=STYLE, seed=3)
    (folder / MANIFEST).write_bytes(manifest)
    with pytest.warns(KazeiaWarning, match="is damaged or from another version"):
        reading = read_book(tiny, BOOK, path, style=STYLE)
    assert not any(piece.kept for piece in reading.pieces)
    assert os.listdir(tmp_path) == ["a.wav"]


def test_a_second_head_in_the_manifest_is_passed_over(tiny: Engine, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    folder = stop_after(2, BOOK, tiny, path, style=STYLE, seed=3)
    lines = (folder / MANIFEST).read_bytes().splitlines(keepends=True)
    (folder / MANIFEST).write_bytes(b"".join([*lines[:2], lines[0], *lines[2:]]))
    reading = read_book(tiny, BOOK, path, style=STYLE)
    assert sum(piece.kept for piece in reading.pieces) == len(lines) - 1


def test_an_error_in_the_middle_keeps_what_is_finished(tiny: Engine, tmp_path: Path) -> None:
    class Broken(Counting):
        max_batch = 1

        def batch(self, requests: Any) -> Any:
            if requests[0].text == "It goes on.":
                raise GenerationError("talker logits: 3 NaN")
            return super().batch(requests)

    broken: Any = Broken(tiny)
    path = tmp_path / "a.wav"
    with pytest.raises(GenerationError, match="3 NaN"):
        read_book(broken, BOOK, path, style=STYLE, seed=3)
    assert broken.texts == ["Before it all.", "One", "The first paragraph."]
    assert not path.exists()
    engine: Any = Counting(tiny)
    assert read_book(engine, BOOK, path, style=STYLE).seed == 3
    assert not set(broken.texts) & set(engine.texts)


# ---- what cannot be done ----


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"style": Style(voice="nobody")}, VoiceError, "nobody"),
        ({"style": Style(paragraph_pause=-1)}, OptionError, "paragraph_pause is -1"),
        ({"style": Style(segment_chars=0)}, OptionError, "segment_chars is 0"),
        ({"style": Style(layout="odd")}, OptionError, "layout is 'odd'"),  # type: ignore[arg-type]
        ({"seed": -1}, OptionError, "seed is -1"),
        ({"format": "ogg"}, OptionError, "unknown audio format"),
        ({"subtitles": ["ass"]}, OptionError, "unknown subtitles 'ass'"),
    ],
)
def test_bad_options_leave_nothing(
    options: dict[str, Any], error: type[Exception], said: str, tiny: Engine, tmp_path: Path
) -> None:
    with pytest.raises(error, match=said):
        read_book(tiny, BOOK, tmp_path / "a.wav", **options)
    assert not list(tmp_path.iterdir())


def test_a_malformed_pause_is_named_with_its_line(tiny: Engine, tmp_path: Path) -> None:
    with pytest.raises(TextError, match=r"^line 3: '\[pause:400\]' at character 5"):
        read_book(tiny, parse_book("One.\n\nTwo. \n[pause:400]"), tmp_path / "a.wav")
    style = replace(STYLE, markup=False)
    reading = read_book(tiny, parse_book("Two. [pause:400]"), tmp_path / "a.wav", style=style, seed=1)
    assert reading.pieces[0].text == "Two. [pause:400]"


def test_pauses_alone_are_nothing_to_say(tiny: Engine, tmp_path: Path) -> None:
    with pytest.raises(EmptyTextError, match="nothing to say"):
        read_book(tiny, parse_book("[pause:1s]\n\n[pause:2s]"), tmp_path / "a.wav")
    assert not list(tmp_path.iterdir())


def test_a_pause_between_paragraphs_is_added(tiny: Engine, tmp_path: Path) -> None:
    book = parse_book("[pause:250ms]\n\nOne.\n\n[pause:2s]\n\nTwo.")
    reading = read_book(tiny, book, tmp_path / "a.wav", style=STYLE, seed=1)
    first, second = reading.pieces
    assert first.start == RATE // 4
    assert second.start - first.end == round(2.4 * RATE)


def test_a_chapter_without_words_begins_with_what_follows(tiny: Engine, tmp_path: Path) -> None:
    book = parse_book("# ***\n\nOne.\n\n# —\n\n# Three\n\nThree.\n\n# ...")
    reading = read_book(tiny, book, tmp_path / "a.wav", style=STYLE, seed=1)
    assert [(c.title, c.start) for c in reading.chapters] == [("***", 0), ("Three", reading.pieces[1].start)]
    assert reading.chapters[-1].end == reading.samples


def test_another_folder_of_that_name_is_left_alone(tiny: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "a.wav.kazeia"
    folder.mkdir()
    (folder / "precious.txt").write_text("mine")
    with pytest.raises(AudioError, match=r"something else \(it holds precious.txt\)"):
        read_book(tiny, BOOK, tmp_path / "a.wav", style=STYLE)
    assert (folder / "precious.txt").read_text() == "mine"
    assert os.listdir(tmp_path) == ["a.wav.kazeia"]


def test_two_readings_into_one_file_are_refused(tiny: Engine, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    folder = stop_after(1, BOOK, tiny, path, style=STYLE, seed=3)
    before = sorted(os.listdir(folder))
    with FileLock(folder / "lock"), pytest.raises(AudioError, match="another process is reading into it"):
        read_book(tiny, BOOK, path, style=STYLE)
    assert set(before) <= {*os.listdir(folder), "lock"}


@pytest.mark.parametrize("output", ["none/a.wav", "."])
def test_places_that_cannot_be_written_are_named(output: str, tiny: Engine, tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="cannot write"):
        read_book(tiny, BOOK, tmp_path / output, style=STYLE, format="wav")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that nobody can write in")
def test_a_folder_that_cannot_be_written_in_is_named(tiny: Engine) -> None:
    with pytest.raises(AudioError, match=r"cannot write in /proc/a.wav.kazeia: .*; choose another place"):
        read_book(tiny, BOOK, "/proc/a.wav", style=STYLE)


def test_subtitles_beside_a_link_may_be_on_another_disk(tiny: Engine, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "a.wav").symlink_to(tmp_path / "there" / "real.wav")
    read_book(tiny, BOOK, tmp_path / "a.wav", style=STYLE, seed=1, subtitles=["srt"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.srt", "a.wav", "there"]
    assert (tmp_path / "a.wav").is_symlink()
    assert os.listdir(tmp_path / "there") == ["real.wav"]


def test_a_device_is_refused(tiny: Engine) -> None:
    with pytest.raises(AudioError, match="no regular file"):
        read_book(tiny, BOOK, "/dev/null", style=STYLE, format="wav")


# ---- the rest ----


def test_stored_samples_come_back_exactly(tmp_path: Path) -> None:
    every = np.arange(-32767, 32768, dtype=np.float64) / 32767
    with WorkFolder(tmp_path / "a", RATE) as work:
        work.begin(1)
        work.save("0" * 40, every.astype(np.float32), "stop", 1, "all")
        assert pcm_bytes(work.pcm("0" * 40)) == pcm_bytes(every)


def test_progress_only_grows_and_ends_at_one(tiny: Engine, tmp_path: Path) -> None:
    told: dict[str, list[float]] = {}
    read_book(
        tiny, BOOK, tmp_path / "a.wav", style=STYLE, seed=1,
        progress=lambda stage, share: told.setdefault(stage, []).append(share),
    )  # fmt: skip
    assert set(told) == {"speaking", "writing"}
    assert told["speaking"][0] == 0
    assert max(told["speaking"]) == told["writing"][-1] == 1
    assert told["writing"] == sorted(told["writing"])


def test_the_finish_reason_is_the_worst(tiny: Engine, ending: Engine, tmp_path: Path) -> None:
    def read(engine: Engine, **style: Any) -> Reading:
        return read_book(engine, parse_book("One.\n\nTwo."), tmp_path / "a.wav", style=Style(**style), seed=1)

    assert read(tiny, max_frames=3).finish_reason == "limit"
    assert read(ending).finish_reason == "stop"


def test_long_paragraphs_are_cut_and_pause_as_asked(tiny: Engine, tmp_path: Path) -> None:
    book = parse_book("This is a sentence. " * 12)
    style = Style(max_frames=2, segment_chars=60, segment_pause=100)
    reading = read_book(tiny, book, tmp_path / "a.wav", style=style, seed=1)
    assert len(reading.pieces) >= 4
    assert " ".join(piece.text for piece in reading.pieces).split() == ("This is a sentence. " * 12).split()
    gaps = {b.start - a.end for a, b in pairwise(reading.pieces)}
    assert gaps == {RATE // 10}
