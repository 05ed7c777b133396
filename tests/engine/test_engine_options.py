"""What a caller may ask for: everything else is refused by name, before any work (S02, S03)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kazeia
from kazeia import (
    ConfigError,
    EmptyTextError,
    Engine,
    FrameBudget,
    KazeiaWarning,
    LanguageError,
    OptionError,
    Request,
    Sampling,
    TextEncodingError,
    TextError,
    VoiceError,
)
from kazeia.generation import FrameLoop
from kazeia.runtime.talker import Talker

TEXT = "Hello there."

REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    *(({"seed": seed}, OptionError, "seed") for seed in (-1, 1 << 64, True, 1.5, "1", float("nan"))),
    *(({"max_frames": n}, OptionError, "max_frames") for n in (0, -1, True, 1.5, "9", 1 << 40)),
    *(({"layout": v}, OptionError, "layout") for v in ("", "Whole", None, 1, [], "streaming")),
    *(({"segment_chars": n}, OptionError, "segment_chars") for n in (0, -1, True, 1.5, "9")),
    *(
        ({option: value}, OptionError, f"^{option} is ")
        for option in ("sampling", "predictor_sampling")
        for value in (True, 0.9, "greedy", "", {"temperature": 1.0}, (), Sampling)
    ),
    *(({"segment_pause": v}, OptionError, "segment_pause") for v in (-1, 60_001, True, "9", float("nan"))),
    *(({"markup": v}, OptionError, "markup") for v in (None, 1, "no")),
    *(({"text": f"Hello. {v}"}, TextError, "pause") for v in ("[pause:400]", "[pause:2min]", "[pause:61s]")),
    *(({"voice": v}, VoiceError, "serena") for v in ("nobody", "", " ", 3, b"ryan", True)),
    *(({"language": v}, LanguageError, "english") for v in ("klingon", "", " ", 3, b"en", True)),
    *(({"instruct": v}, TextError, "instruct") for v in (3, b"softly", True, ["softly"])),
    ({"text": ""}, EmptyTextError, "nothing to say"),
    ({"text": 5}, TextError, "int"),
    ({"text": b"Hello"}, TextError, "bytes"),
    ({"text": None}, TextError, "NoneType"),
    ({"text": "lone \ud800"}, TextEncodingError, "surrogate"),
]


@pytest.fixture
def no_work(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:  # its loading is work
    def work(*args: object) -> None:
        raise AssertionError("work was begun")

    monkeypatch.setattr(Talker, "prefill", work)
    monkeypatch.setattr(FrameLoop, "step", work)


def case_name(case: Any) -> str | None:
    return str(case) if isinstance(case, dict) else "" if isinstance(case, type) else None


@pytest.mark.parametrize(("options", "error", "named"), REFUSED, ids=case_name)
@pytest.mark.parametrize("entrance", ["synthesize", "stream", "batch"])
@pytest.mark.usefixtures("no_work")
def test_what_cannot_be_done_is_refused_by_name_before_any_work(
    tiny: Engine, options: dict[str, Any], error: type[Exception], named: str, entrance: str
) -> None:
    asked = {"text": TEXT} | options

    def ask() -> None:
        if entrance == "batch":
            # One bad request in good company: nobody is begun.
            tiny.batch([Request(TEXT), Request(**asked), Request(TEXT)])
        else:
            getattr(tiny, entrance)(asked.pop("text"), **asked)  # the stream is not even iterated

    with pytest.raises(error, match=named) as caught:
        ask()
    assert type(caught.value) is error
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("chunk", [0, -1, True, 1.5, "2", float("inf")])
@pytest.mark.usefixtures("no_work")
def test_bad_chunk_sizes_are_refused_before_any_work(tiny: Engine, chunk: Any) -> None:
    with pytest.raises(OptionError, match=r"chunk_frames.*at least 1"):
        tiny.stream(TEXT, chunk_frames=chunk)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        *(({"threads": n}, "threads") for n in (0, -1, True, 1.5, "2")),
        *(({"quant": q}, "f32, q8, q4") for q in ("int8", "", None, 8, ["q8"], "Q8")),
        *(({"budget": b}, "budget") for b in (50, 0, False, "50", FrameBudget, {"base": 50})),
    ],
    ids=str,
)
def test_bad_ways_to_load_are_refused_before_the_model_is_looked_for(
    tmp_path: Path, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(OptionError, match=named):
        kazeia.load(tmp_path / "there is no such model", cache_dir=tmp_path / "cache", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seed", [0, 1, 1 << 32, 1 << 63, (1 << 64) - 1, np.int64(7), np.uint64(1 << 63)])
def test_every_seed_in_range_works_is_reported_and_heard(tiny: Engine, seed: int) -> None:
    first, again = (tiny.synthesize(TEXT, seed=seed, max_frames=3) for _ in range(2))
    assert first.seed == seed
    assert type(first.seed) is int
    assert np.array_equal(first.pcm, again.pcm)
    other = tiny.synthesize(TEXT, seed=int(seed) ^ 1, max_frames=3)
    assert not np.array_equal(first.codes, other.codes)


def test_request_synthesize_and_stream_take_the_same_options_with_the_same_defaults() -> None:
    request = {f.name: f.default for f in fields(Request)}
    for function in (Engine.synthesize, Engine.stream):
        parameters = dict(inspect.signature(function).parameters)
        del parameters["self"]
        chunk = parameters.pop("chunk_frames", None)
        assert (chunk is None) == (function is Engine.synthesize)
        assert list(parameters) == list(request)
        for name, parameter in parameters.items():
            if name != "text":
                assert parameter.kind is parameter.KEYWORD_ONLY
                assert parameter.default == request[name]


def test_every_option_reaches_the_speech(load_engine: Callable[..., Engine]) -> None:
    # An option that is passed on to the wrong place, or to none, would change nothing.
    engine = load_engine("tiny-1b7")
    plain = {"text": TEXT, "seed": 1, "max_frames": 6}
    changes: dict[str, Any] = {
        "voice": "ryan",
        "language": "french",
        "instruct": "softly",
        "seed": 2,
        "sampling": Sampling(temperature=2.0),
        "predictor_sampling": Sampling(temperature=2.0),
        "max_frames": 5,
        "layout": "streamed",
        "segment_chars": 4,
    }
    reference = engine.batch([Request(**plain)])[0]
    for name, value in changes.items():
        asked = plain | {name: value}
        batched = engine.batch([Request(**asked)])[0]
        assert not np.array_equal(batched.codes, reference.codes), name
        text = asked.pop("text")
        assert np.array_equal(engine.synthesize(text, **asked).pcm, batched.pcm), name
        *_, last = engine.stream(text, **asked)
        assert last.speech is not None
        assert np.array_equal(last.speech.pcm, batched.pcm), name
        assert last.speech.finish_reason == batched.finish_reason


@pytest.mark.parametrize(
    ("variable", "value", "same"),
    [
        ("KZTTS_TEMP", "0", {"sampling": {"temperature": 0.0}}),
        ("KZTTS_TOPK", "1", {"sampling": {"top_k": 1}}),
        ("KZTTS_TOPP", "0.01", {"sampling": {"top_p": 0.01}}),
        ("KZTTS_REPP", "1e6", {"sampling": {"repetition_penalty": 1e6}}),
        ("KZTTS_CP_TEMP", "0", {"predictor_sampling": {"temperature": 0.0}}),
        ("KZTTS_CP_TOPK", "1", {"predictor_sampling": {"top_k": 1}}),
        ("KZTTS_CP_TOPP", "0.01", {"predictor_sampling": {"top_p": 0.01}}),
        ("KZTTS_CP_REPP", "1e6", {"predictor_sampling": {"repetition_penalty": 1e6}}),
    ],
)
def test_the_environment_is_heard_and_an_explicit_argument_wins(
    tiny: Engine, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, same: dict[str, Any]
) -> None:
    base = {"sampling": tiny.talker_sampling(), "predictor_sampling": tiny.predictor_sampling()}
    plain = tiny.synthesize(TEXT, seed=1, max_frames=8)
    asked = {name: base[name].replace(**changes) for name, changes in same.items()}
    wanted = tiny.synthesize(TEXT, seed=1, max_frames=8, **asked)
    assert not np.array_equal(wanted.codes, plain.codes)
    monkeypatch.setenv(variable, value)
    assert np.array_equal(tiny.synthesize(TEXT, seed=1, max_frames=8).pcm, wanted.pcm)
    assert np.array_equal(tiny.synthesize(TEXT, seed=1, max_frames=8, **base).pcm, plain.pcm)
    official = {"sampling": "official", "predictor_sampling": "official"}
    heard = tiny.synthesize(TEXT, seed=1, max_frames=8, **official).codes  # type: ignore[arg-type]
    monkeypatch.delenv(variable)
    unheard = tiny.synthesize(TEXT, seed=1, max_frames=8, **official).codes  # type: ignore[arg-type]
    assert np.array_equal(heard, unheard)  # the official way is the official way


@pytest.mark.parametrize("prefix", ["KZTTS_", "KZTTS_CP_"])
@pytest.mark.parametrize(
    ("suffix", "value"), [("TEMP", "hot"), ("TEMP", "-1"), ("TOPK", "2.5"), ("TOPP", "0"), ("REPP", "nan")]
)
@pytest.mark.usefixtures("no_work")
def test_a_bad_variable_is_named_before_any_work(
    tiny: Engine, monkeypatch: pytest.MonkeyPatch, prefix: str, suffix: str, value: str
) -> None:
    monkeypatch.setenv(prefix + suffix, value)
    with pytest.raises(OptionError, match=f"{prefix}{suffix}.*{value}"):
        tiny.synthesize(TEXT)
    with pytest.raises(OptionError, match=prefix + suffix):
        tiny.stream(TEXT)


def test_the_official_way_differs_from_the_usual_one(tiny: Engine) -> None:
    assert tiny.talker_sampling("official").repetition_window is None
    assert tiny.talker_sampling().repetition_window == 64
    assert tiny.predictor_sampling("official").repetition_penalty == 1.0
    assert tiny.predictor_sampling().repetition_penalty == 1.05


def test_the_checkpoints_own_sampling_is_taken_and_its_nonsense_named(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    import edits

    greedy = {"do_sample": False, "subtalker_temperature": 0.25, "subtalker_top_k": 7}
    folder = edits.copy(checkpoint("tiny"), tmp_path / "greedy")
    edits.change_json(folder / "generation_config.json", lambda c: c.update(greedy))
    with kazeia.load(folder, quant="f32", threads=1) as engine:
        assert engine.talker_sampling().greedy
        assert engine.talker_sampling("official").greedy
        assert (engine.predictor_sampling().temperature, engine.predictor_sampling().top_k) == (0.25, 7)
    edits.change_json(folder / "generation_config.json", lambda c: c.update(top_p=7.0, do_sample=True))
    with kazeia.load(folder, quant="f32", threads=1) as engine:
        for choice in (None, "official"):
            with pytest.raises(ConfigError, match=r"generation_config.json.*top_p is 7"):
                engine.synthesize(TEXT, sampling=choice)  # type: ignore[arg-type]
        engine.synthesize(TEXT, sampling=Sampling(), max_frames=1)


def test_the_instruction_is_dropped_with_a_warning_only_where_the_model_is_deaf(
    tiny: Engine, load_engine: Callable[..., Engine]
) -> None:
    plain = tiny.synthesize(TEXT, seed=1, max_frames=3)
    with pytest.warns(KazeiaWarning, match=r"instruction is ignored.*0\.6B") as warned:
        told = tiny.synthesize(TEXT, seed=1, max_frames=3, instruct="softly")
    assert np.array_equal(plain.pcm, told.pcm)
    assert not tiny.takes_instruct
    assert warned[0].filename == __file__  # it points at who asked
    tiny.synthesize(TEXT, seed=1, max_frames=1, instruct="")  # nothing asked, nothing ignored
    larger = load_engine("tiny-1b7")
    assert larger.takes_instruct
    softly = larger.synthesize(TEXT, seed=1, max_frames=3, instruct="softly")
    assert not np.array_equal(softly.codes, larger.synthesize(TEXT, seed=1, max_frames=3).codes)
    with pytest.raises(TextEncodingError):
        larger.synthesize(TEXT, instruct="\ud800")


def test_an_empty_batch_is_no_work(tiny: Engine) -> None:
    assert tiny.batch([]) == []


def test_a_dialect_is_not_a_language_to_ask_for(tiny: Engine) -> None:
    for name in ("sichuan_dialect", "Beijing_Dialect"):
        with pytest.raises(LanguageError, match="dialect"):
            tiny.synthesize(TEXT, language=name)
    assert not any("dialect" in name for name in tiny.languages)
    assert "sichuan_dialect" not in str(tiny.languages)


def test_names_are_taken_in_any_case_and_reported_as_the_model_has_them(tiny: Engine) -> None:
    plain = tiny.synthesize(TEXT, seed=1, max_frames=2, voice="ono_anna", language="french")
    for voice, language in (("ONO_ANNA", "French"), (" Ono_Anna ", "FR"), ("ono_anna", "fr-FR")):
        speech = tiny.synthesize(TEXT, seed=1, max_frames=2, voice=voice, language=language)
        assert (speech.voice, speech.language) == ("ono_anna", "french")
        assert np.array_equal(speech.pcm, plain.pcm)
    first = tiny.synthesize(TEXT, seed=1, max_frames=1)
    assert (first.voice, first.language) == (tiny.voices[0], "auto")
    assert tiny.synthesize(TEXT, seed=1, max_frames=1, language=None).language == "auto"


def test_unknown_names_are_answered_with_all_the_known_ones(tiny: Engine) -> None:
    with pytest.raises(VoiceError) as voice:
        tiny.synthesize(TEXT, voice="nobody")
    assert all(name in str(voice.value) for name in tiny.voices)
    with pytest.raises(LanguageError) as language:
        tiny.synthesize(TEXT, language="klingon")
    assert all(name in str(language.value) for name in (*tiny.languages, "auto"))


@pytest.mark.parametrize("code0", [-1, 128, 1.5, True, "1", None])
def test_the_predictor_by_itself_takes_a_code_of_codebook_0(tiny: Engine, code0: Any) -> None:
    with pytest.raises(OptionError, match=r"code0 is .*expected 0 to 127"):
        tiny.predict_codes(np.zeros(128, np.float32), code0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("quant", ["f32", "q8"])
def test_the_predictor_by_itself_takes_finite_numbers(
    load_engine: Callable[..., Engine], quant: str, bad: float
) -> None:
    hidden = np.zeros(128, np.float32)
    hidden[5] = bad
    with pytest.raises(OptionError, match="NaN or infinite"):
        load_engine("tiny", quant).predict_codes(hidden, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cancel": object()}, "cancel is"),
        ({"on_frame": 3}, "on_frame is 3"),
    ],
)
def test_what_cannot_be_called_is_refused(tiny: Engine, options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        tiny.synthesize("Hello.", max_frames=1, **options)  # type: ignore[arg-type]


def test_a_batch_takes_requests_only(tiny: Engine) -> None:
    with pytest.raises(OptionError, match=r"expected a kazeia\.Request"):
        tiny.batch("abc")  # type: ignore[arg-type]


def test_a_limit_on_a_long_text_is_not_worked_past(tiny: Engine) -> None:
    frames: list[int] = []
    text = "A sentence of its own. " * 200
    speech = tiny.synthesize(text, seed=1, max_frames=20, segment_chars=40, on_frame=frames.append)
    stream = list(tiny.stream(text, seed=1, max_frames=20, segment_chars=40))
    assert len(speech.codes) == 20
    assert speech.finish_reason == "limit"
    assert stream[-1].speech is not None
    assert np.array_equal(speech.pcm, stream[-1].speech.pcm)
