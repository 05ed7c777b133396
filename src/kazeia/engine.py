"""The engine: load a model once, speak many times."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from kazeia import streaming
from kazeia._warn import warn
from kazeia.budget import FrameBudget
from kazeia.bundle_build import Progress
from kazeia.errors import EngineClosedError, OptionError, TextError
from kazeia.generation import Utterance, frame_drawer
from kazeia.graphs.talker import MAX_POSITIONS
from kazeia.job import SEGMENT_CHARS, Job, Request, check_count, check_request
from kazeia.model import Model
from kazeia.models import is_random_name, open_model
from kazeia.prompt import Layout, Prompt
from kazeia.quant import DEFAULT_QUANT
from kazeia.random import check_seed, derive_streams, draw_seed
from kazeia.runaway import GuardChoice, choose_guard
from kazeia.running_batch import RunningBatch
from kazeia.runtime.threads import Threads, plan_threads, widened
from kazeia.sampling import (
    OFFICIAL_PREDICTOR,
    OFFICIAL_TALKER,
    PREDICTOR_DEFAULTS,
    TALKER_DEFAULTS,
    Sampling,
    SamplingChoice,
    choose_sampling,
)
from kazeia.schedule import ChunkFrames, chunk_schedule
from kazeia.scheduler import MAX_BATCH
from kazeia.speech import Chunk, PlaybackClock, Speech
from kazeia.text.clean import check_text
from kazeia.text.languages import resolve_language, resolve_voice
from kazeia.text.pauses import plan_speech
from kazeia.workers import Registry, Workers

I64 = npt.NDArray[np.int64]

_CLOSED = "this engine is closed; load the model again with kazeia.load"


class Engine:
    """A loaded model. Calls do not depend on each other, and several threads may call at once.

    Equal calls give equal samples, bit for bit, whatever the number of threads, the size of chunks,
    and whatever else the engine is doing. Use it as a context manager, or call `close`.
    """

    def __init__(
        self,
        model: Model,
        *,
        name: str,
        budget: FrameBudget,
        threads: Threads,
        guard: GuardChoice,
        max_batch: int = MAX_BATCH,
    ) -> None:
        """Use `kazeia.load`."""
        bundle = model.bundle
        talker = bundle.config.talker
        self._model: Model | None = model
        self._batch: RunningBatch | None = RunningBatch(model, max_batch, threads.side_by_side)
        self.budget = budget
        """How many frames a text may take."""
        self._calls = Registry()
        self._positions = min(talker.transformer.max_position_embeddings, MAX_POSITIONS)
        self.name = name
        """The model's name as it was given to `load`."""
        self.is_random = bundle.is_random or is_random_name(name)
        """Whether the weights are random numbers, and the sound therefore noise."""
        self.guard = choose_guard(guard, self.is_random)
        """What stops a model that has lost its way, None for nothing."""
        self.path: Path = bundle.path
        """The bundle's folder."""
        self.quant = bundle.quant
        """How the weights are stored."""
        self.fingerprint = bundle.fingerprint
        """A hash over the contents of the checkpoint's files."""
        self.threads = threads
        """How many threads each part has."""
        self.max_batch = max_batch
        """How many segments are generated side by side at most, of all calls together."""
        self.sample_rate = bundle.codec_config.sample_rate
        """Hz."""
        self.voices: tuple[str, ...] = tuple(talker.spk_id)
        """The voices' names; the first is the default."""
        self.languages: tuple[str, ...] = talker.languages
        """The languages' names, besides "auto"."""
        self.takes_instruct = model.prompts.takes_instruct
        """Whether it follows `instruct`, which the 0.6B models do not."""

    def __enter__(self) -> Engine:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the model. Calls that are running end with EngineClosedError. May be called twice.

        Waits for the frame that a running call is at, unless called from that call's `on_frame`.
        """
        self._model = self._batch = None
        self._calls.stop_all(lambda: EngineClosedError(_CLOSED))

    def synthesize(
        self,
        text: str,
        *,
        voice: str | None = None,
        language: str | None = "auto",
        instruct: str | None = None,
        seed: int | None = None,
        sampling: SamplingChoice = None,
        predictor_sampling: SamplingChoice = None,
        max_frames: int | None = None,
        layout: Layout = "whole",
        segment_chars: int | None = SEGMENT_CHARS,
        cancel: threading.Event | None = None,
        on_frame: Callable[[int], None] | None = None,
        segment_pause: float = 0,
        markup: bool = True,
    ) -> Speech:
        """Speak a text.

        voice: one of `voices` in any case; None is the first. language: a name or code, or "auto".
        instruct: how to say it; the 0.6B models have no ear for it (KazeiaWarning). seed: 0 … 2⁶⁴ − 1;
        None draws one and reports it. sampling, predictor_sampling: how codebook 0 and codebooks
        1–15 are drawn; None takes the environment (KZTTS_…), then the checkpoint's defaults;
        "official" is the official package's way. max_frames: stop after so many frames of 80 ms; None
        derives a generous limit from the text. layout: "whole" puts the text in the prompt,
        "streamed" feeds it along with the frames. segment_chars: texts longer than this are spoken in
        pieces, None never cuts. cancel: set it to stop generating within a frame; what was generated is
        still decoded and returned, unless its `is_set` raises, which ends the call with that error.
        on_frame: called with the number of frames so far, between two frames, by the thread that
        generates, which serves all calls: it must not wait for another one; what it raises ends the call.
        segment_pause: silence between those pieces, in ms from 0 to 60,000. markup: whether [pause:400ms]
        or [pause:1.5s] in the text is a pause of exactly so long; False takes brackets as they are.

        Raises TextError (malformed pauses included), VoiceError, LanguageError or OptionError for what
        cannot be done, GenerationError for numbers that cannot be used, EngineClosedError.
        """
        return self.batch(
            [
                Request(
                    text,
                    voice,
                    language,
                    instruct,
                    seed,
                    sampling,
                    predictor_sampling,
                    max_frames,
                    layout,
                    segment_chars,
                    cancel,
                    on_frame,
                    segment_pause,
                    markup,
                )
            ]
        )[0]

    def batch(self, requests: Sequence[Request]) -> list[Speech]:
        """Speak several texts side by side, each as it would sound alone; results in order.

        Nothing is begun before every request has been checked. Raises as `synthesize` does.
        """
        model = self._open()
        if isinstance(requests, Request):
            raise OptionError("requests is a single Request; expected several: put it in a list")
        jobs = [self._check(model, request) for request in requests]
        return streaming.synthesize(
            model, self._running(), jobs, self._workers(), self._open, self.threads.decoders
        )

    def stream(
        self,
        text: str,
        *,
        chunk_frames: ChunkFrames = None,
        voice: str | None = None,
        language: str | None = "auto",
        instruct: str | None = None,
        seed: int | None = None,
        sampling: SamplingChoice = None,
        predictor_sampling: SamplingChoice = None,
        max_frames: int | None = None,
        layout: Layout = "whole",
        segment_chars: int | None = SEGMENT_CHARS,
        cancel: threading.Event | None = None,
        on_frame: Callable[[int], None] | None = None,
        segment_pause: float = 0,
        markup: bool = True,
    ) -> Iterator[Chunk]:
        """Speak a text piece by piece, while it is generated.

        chunk_frames: frames of 80 ms per chunk, or the sizes of the first chunks (the last one
        repeats); None takes KZTTS_STREAM_CHUNK, else begins with one and grows. The other arguments
        and the errors are those of `synthesize`, raised before the first chunk is asked for; the
        chunks' samples, put together, are the ones that `synthesize` returns. Generation is one chunk
        and a few frames ahead of who takes them; closing or dropping the iterator stops it within a
        frame.
        """
        schedule = chunk_schedule(chunk_frames)
        model = self._open()
        request = Request(
            text,
            voice,
            language,
            instruct,
            seed,
            sampling,
            predictor_sampling,
            max_frames,
            layout,
            segment_chars,
            cancel,
            on_frame,
            segment_pause,
            markup,
        )
        job = self._check(model, request)
        return streaming.stream(model, self._running(), job, schedule, self._workers(), self._open)

    def predict_codes(
        self,
        hidden: npt.NDArray[np.float32],
        code0: int,
        *,
        sampling: SamplingChoice = None,
        seed: int = 0,
    ) -> I64:
        """The code predictor by itself: codes 1–15 (15,) of one frame; spec §3.2.

        hidden: (hidden,) float32, the talker's state after its final norm, the one whose logits gave
        `code0`. sampling: as `predictor_sampling` of `synthesize`. seed: of the draws. Raises
        OptionError for a hidden state of another size or a code out of range, GenerationError.
        """
        model, settings = self._open(), self.predictor_sampling(sampling)
        talker = model.bundle.config.talker
        hidden = np.asarray(hidden, np.float32)
        if hidden.shape != (talker.transformer.hidden_size,):
            raise OptionError(
                f"hidden has shape {hidden.shape}; expected ({talker.transformer.hidden_size},)"
            )
        if not np.isfinite(hidden).all():
            raise OptionError("hidden holds NaN or infinite values")
        whole = isinstance(code0, Integral) and not isinstance(code0, bool)
        if not whole or not 0 <= code0 < talker.code_predictor.vocab_size:
            raise OptionError(f"code0 is {code0!r}; expected 0 to {talker.code_predictor.vocab_size - 1}")
        draw = frame_drawer([settings], [derive_streams(seed)[1]], [code0])
        return model.predictor.predict(hidden, code0, draw)

    def talker_sampling(self, choice: SamplingChoice = None) -> Sampling:
        """How codebook 0 is drawn for a call's `sampling` argument: what "official" or None stand for."""
        generation = self._open().bundle.generation
        return choose_sampling(
            choice, generation.talker_sampling(), OFFICIAL_TALKER, TALKER_DEFAULTS, "KZTTS_"
        )

    def predictor_sampling(self, choice: SamplingChoice = None) -> Sampling:
        """How codebooks 1–15 are drawn for a call's `predictor_sampling` argument."""
        generation = self._open().bundle.generation
        return choose_sampling(
            choice, generation.predictor_sampling(), OFFICIAL_PREDICTOR, PREDICTOR_DEFAULTS, "KZTTS_CP_"
        )

    def _open(self) -> Model:
        model = self._model
        if model is None:
            raise EngineClosedError(_CLOSED)
        return model

    def _running(self) -> RunningBatch:
        self._open()
        batch = self._batch
        if batch is None:
            raise EngineClosedError(_CLOSED)
        return batch

    def _check(self, model: Model, request: Request) -> Job:
        """Refuse what cannot be done, by name, before any work; resolve the rest."""
        check_request(request)
        check_text(request.text)
        voice = resolve_voice(request.voice, self.voices)
        language = resolve_language(request.language, self.languages)
        seed = draw_seed() if request.seed is None else check_seed(request.seed)
        sampling = self.talker_sampling(request.sampling)
        predictor_sampling = self.predictor_sampling(request.predictor_sampling)
        if request.layout not in ("whole", "streamed"):
            raise OptionError(f'layout is {request.layout!r}; expected "whole" or "streamed"')
        check_count("max_frames", request.max_frames)
        check_count("segment_chars", request.segment_chars)
        instruct = self._instruct(request.instruct)
        segments, pauses = plan_speech(
            request.text,
            request.segment_chars,
            markup=request.markup,
            segment_pause=request.segment_pause,
        )
        utterances = []
        for index, segment in enumerate(segments):
            prompt = model.prompts.build(segment, voice, language, instruct, request.layout)
            utterances.append(
                Utterance(
                    prompt,
                    sampling,
                    predictor_sampling,
                    derive_streams(seed, index),
                    self._limit(prompt, segment, request.max_frames),
                    request.cancel,
                    self.guard,
                )
            )
        samples = [round(pause * self.sample_rate / 1000) for pause in pauses]
        clock = PlaybackClock(self.sample_rate)
        return Job(request, voice, language or "auto", seed, utterances, samples, clock)

    def _workers(self) -> Workers:
        return Workers(self._calls, self.threads.side_by_side)

    def _instruct(self, instruct: str | None) -> str | None:
        if instruct is None or instruct == "":
            return None
        if not isinstance(instruct, str):
            raise TextError(f"instruct is {instruct!r}; expected a str or None")
        if not self.takes_instruct:
            warn("the instruction is ignored: models of size 0.6B take none (spoken without it)")
            return None
        return instruct

    def _limit(self, prompt: Prompt, text: str, asked: int | None) -> int:
        """Frames for one segment: as asked, or by the text's length; never past the model's positions."""
        room = self._positions - len(prompt.rows)
        if room < 1:
            raise TextError(
                f"the text takes {len(prompt.rows)} positions of the model's {self._positions}; "
                "shorten it, or let it be spoken in pieces (segment_chars)"
            )
        if asked is not None and asked > room:
            raise OptionError(f"max_frames is {asked}; beside this text there is room for {room}")
        if asked is not None:
            return asked
        longest = self._open().bundle.generation.max_new_tokens
        return min(room, room if longest is None else longest, self.budget.limit(text))


def load(
    model: str | os.PathLike[str] | None = None,
    *,
    quant: str = DEFAULT_QUANT,
    threads: int | Threads | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    budget: FrameBudget | None = None,
    guard: GuardChoice = "auto",
    max_batch: int = MAX_BATCH,
    warm_up: bool = True,
    progress: Progress | None = None,
) -> Engine:
    """Load a model, ready to speak.

    model: a checkpoint in the official layout (folder or hub id), a bundle made by `kazeia convert`,
    or "random:tiny", "random:0.6b", … for a model of random numbers that makes noise; "embedded" for
    the voice that comes with Kazeia; None takes the environment's KAZEIA_MODEL, else "embedded".
    quant: "q8", "q4" or "f32". threads: in all (with two or more, one of them is the decoder's), or a
    `Threads` that says what for; None takes what suits the cores that this process may really use. cache_dir:
    where prepared models are kept; None takes KAZEIA_CACHE, then the platform's cache folder. budget:
    the limit of frames by the text's length.
    guard: what counts as a runaway; None for nothing, "auto" for the defaults (for random weights: nothing).
    max_batch: how many segments are generated side by side at most, of all calls together; more wait.
    warm_up: run everything once, so that the first call is as fast as the others; not worth it for one call.
    progress: told (stage, share) while a model is prepared the first time.

    Raises CheckpointError, BundleError or OptionError.
    """
    plan = plan_threads(threads)
    if budget is not None and not isinstance(budget, FrameBudget):
        raise OptionError(f"budget is {budget!r}; expected a FrameBudget, or None")
    choose_guard(guard, is_random=False)  # refused before the work
    check_count("max_batch", max_batch, optional=False)
    opened = open_model(
        Path(model) if isinstance(model, os.PathLike) else model,
        quant,
        Path(cache_dir) if cache_dir is not None else None,
        progress,
    )
    if threads is None:
        plan = widened(plan, opened.bundle.talker_bytes)
    networks = Model(opened.bundle, plan.generator)
    if warm_up:
        networks.warm_up()
    return Engine(
        networks,
        name=opened.name,
        budget=budget or FrameBudget(),
        threads=plan,
        guard=guard,
        max_batch=int(max_batch),
    )
