"""The process that measures one configuration: loads the model, speaks, and says how long it took."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from kazeia.bench.children import serve
from kazeia.bench.machine import disk_bytes_read, peak_rss
from kazeia.errors import BenchmarkError

if TYPE_CHECKING:  # importing the engine is part of what is measured
    from kazeia.engine import Engine
    from kazeia.speech import Speech, Timings

_WARM_FRAMES = 8
_FIRST_SEED = 1000  # of the streams that speak at the same time


def work(order: dict[str, Any]) -> dict[str, Any]:
    """Load the model and, with `repeats`, speak; the order's fields are those that `run` gives.

    Returns lists of one value per repeat, in milliseconds, seconds or as ratios, as their names say.
    """
    from kazeia.bench.plan import frame_budget

    started = time.perf_counter()
    from kazeia.engine import load

    imported = time.perf_counter()
    read = disk_bytes_read()
    with load(
        order["model"],
        quant=order["quant"],
        threads=order["threads"],
        cache_dir=order["cache_dir"],
        budget=frame_budget(order["text"], order["frames"]),
    ) as engine:
        found: dict[str, Any] = {
            "import_s": imported - started,
            "load_s": time.perf_counter() - imported,
            "disk_bytes": None if read is None else (disk_bytes_read() or 0) - read,
            "generator_threads": engine.threads.generator,
            "side_by_side": engine.threads.side_by_side,
        }
        if order["repeats"]:
            found |= _speak(engine, order)
    return found | {"peak_rss": peak_rss()}


def _speak(engine: Engine, order: dict[str, Any]) -> dict[str, Any]:
    _stream(engine, order, 0, max_frames=min(_WARM_FRAMES, order["frames"]))
    repeats = range(order["repeats"])
    if order["streams"] > 1:
        return _together([_several(engine, order, repeat) for repeat in repeats])
    # File and stream in turn, so that both meet the same weather.
    pairs = [(_file(engine, order, order["text"], r), _stream(engine, order, r)) for r in repeats]
    found = _together([_figures([stream], stream.timings.total_s) for _, stream in pairs])
    for file, stream in pairs:
        _check_same(file, stream)
    found["file_rtf"] = [file.timings.rtf for file, _ in pairs]
    found["stream_over_file"] = [stream.timings.rtf / file.timings.rtf for file, stream in pairs]
    # The first frame's codes come from the prompt: there is one talker step less than frames.
    found["talker_step_ms"] = [_talker_step_ms(stream.timings) for _, stream in pairs]
    if order["long_text"] is not None:
        found["long_rtf"] = [_file(engine, order, order["long_text"], r).timings.rtf for r in repeats]
    return found


def _file(engine: Engine, order: dict[str, Any], text: str, seed: int) -> Speech:
    return engine.synthesize(text, voice=order["voice"], language=order["language"], seed=seed)


def _stream(engine: Engine, order: dict[str, Any], seed: int, max_frames: int | None = None) -> Speech:
    chunks = engine.stream(
        order["text"], voice=order["voice"], language=order["language"], seed=seed, max_frames=max_frames
    )
    *_, last = chunks
    assert last.speech is not None
    return last.speech


def _several(engine: Engine, order: dict[str, Any], repeat: int) -> dict[str, Any]:
    """As many streams as asked for, begun at the same moment by threads of their own."""
    count = order["streams"]
    speeches: list[Speech | BaseException | None] = [None] * count
    barrier = threading.Barrier(count + 1)

    def speak(index: int) -> None:
        barrier.wait()
        try:
            speeches[index] = _stream(engine, order, _FIRST_SEED * (repeat + 1) + index)
        except BaseException as error:  # it belongs to the thread that waits
            speeches[index] = error

    threads = [threading.Thread(target=speak, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    barrier.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    wall = time.perf_counter() - started
    done: list[Speech] = []
    for speech in speeches:
        if isinstance(speech, BaseException):
            raise speech
        assert speech is not None
        done.append(speech)
    return _figures(done, wall)


def _figures(speeches: list[Speech], wall_s: float) -> dict[str, Any]:
    """The figures of one repeat; several streams' are means, but for the sum of what they said."""
    timings = [speech.timings for speech in speeches]
    parts = [t.per_frame_ms() for t in timings]
    audible = [1000 * t.first_audible_s for t in timings if t.first_audible_s is not None]
    return {
        "frames": _mean([t.frames for t in timings]),
        "prefill_ms": _mean([1000 * t.prefill_s for t in timings]),
        "talker_ms": _mean([p["talker"] for p in parts]),
        "predictor_ms": _mean([p["predictor"] for p in parts]),
        "decoder_ms": _mean([p["decoder"] for p in parts]),
        "rtf": _mean([t.rtf for t in timings]),
        "speed": sum(t.audio_s for t in timings) / wall_s,
        "first_audio_ms": _mean([1000 * t.first_audio_s for t in timings]),
        "first_audible_ms": _mean(audible) if audible else None,
    }


def _together(repeats: list[dict[str, Any]]) -> dict[str, Any]:
    """One list per figure; what one repeat lacks (silence has no audible sample) is left out."""
    return {name: [found[name] for found in repeats if found[name] is not None] for name in repeats[0]}


def _talker_step_ms(timings: Timings) -> float:
    return 1000 * timings.talker_s / max(1, timings.frames - 1)


def _mean(values: list[float] | list[int]) -> float:
    return sum(values) / len(values)


def _check_same(file: Speech, stream: Speech) -> None:
    """Equal work is what is compared. A runaway may be begun anew in files only."""
    if "runaway" in (file.finish_reason, stream.finish_reason):
        return
    if not (len(file.pcm) == len(stream.pcm) and (file.pcm == stream.pcm).all()):
        raise BenchmarkError(
            f"file and stream of seed {file.seed} differ, which must never be; please report it, with the "
            "model, the machine and the version of ONNX Runtime"
        )


if __name__ == "__main__":
    serve(work)
