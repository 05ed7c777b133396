"""All the networks of one bundle, opened."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from kazeia.bundle import Bundle
from kazeia.errors import BundleError, GenerationError
from kazeia.prompt import PromptBuilder
from kazeia.quant import quant_plan
from kazeia.runtime.code_predictor import CodePredictor
from kazeia.runtime.codec_decoder import CodecDecoder
from kazeia.runtime.prefix_cache import PrefixCache
from kazeia.runtime.session import open_session, row_pairs_needed
from kazeia.runtime.talker import Talker
from kazeia.text.tokenizer import TextTokenizer


class Model:
    """Prompt builder, talker, code predictor and codec decoder of one bundle.

    Any number of threads may use one: nothing changes after it is made, but for what `prefixes` remembers.
    """

    def __init__(self, bundle: Bundle, threads: int) -> None:
        config, path = bundle.config, bundle.path
        talker = config.talker
        plan = quant_plan(bundle.quant)
        codec_embedding = bundle.table("codec_embedding")[:]
        predictor_embedding = bundle.table("predictor_embedding")
        width = talker.transformer.hidden_size
        expected = (talker.num_code_groups - 1, talker.code_predictor.vocab_size, width)
        if codec_embedding.shape != (talker.vocab_size, width) or predictor_embedding.shape != expected:
            raise BundleError(f"{path}: the tables do not fit config.json; build the bundle again")
        self.bundle = bundle
        heads = [f"heads/{k:02d}.onnx" for k in range(talker.num_code_groups - 1)]
        # Two at a time, for arranging the weights is most of the work. The decoder on one thread: its sine is
        # exact only where a row is not cut between threads. The heads on two: of a few megabytes each, more
        # threads would only wait for each other, fifteen times over.
        with ThreadPoolExecutor(2) as pool:
            sessions = pool.map(
                lambda name, count: open_session(path / name, count),
                ["talker.onnx", "codec_decoder.onnx", "code_predictor.onnx", *heads],
                [threads, 1, threads, *[min(threads, 2)] * len(heads)],
            )
            self.prompts = PromptBuilder(
                config, self._tokenizer(), bundle.table("text_rows"), codec_embedding
            )
            talker_session, decoder_session, predictor_session, *head_sessions = sessions
        self.talker = Talker(
            talker_session, talker.transformer, talker.vocab_size, row_pairs_needed(plan.talker)
        )
        self.prefixes = PrefixCache(self.talker)
        self.predictor = CodePredictor(
            predictor_session,
            head_sessions,
            talker,
            codec_embedding,
            predictor_embedding,
            row_pairs_needed(plan.predictor),
        )
        self.decoder = CodecDecoder(decoder_session, bundle.codec_config.decoder, bundle.codec_states)

    def _tokenizer(self) -> TextTokenizer:
        config = self.bundle.config
        return TextTokenizer.from_folder(
            self.bundle.path,
            im_start_token_id=config.im_start_token_id,
            im_end_token_id=config.im_end_token_id,
            assistant_token_id=config.assistant_token_id,
            text_vocab_size=config.talker.text_vocab_size,
        )

    def warm_up(self) -> None:
        """Run every graph once, so that the first speech finds its memory and its pages in place.

        The beginning of prompts for the first voice is remembered along the way. Numbers that cannot
        be used are no matter here: they are found when they are heard.
        """
        talker = self.bundle.config.talker
        prompt = self.prompts.build("a", next(iter(talker.spk_id)), None)
        if len(prompt.rows) >= talker.transformer.max_position_embeddings:
            return
        state = self.prefixes.read(prompt.rows[: prompt.prefix], len(prompt.rows) + 1)
        hidden, _ = self.talker.read(state, prompt.rows[prompt.prefix :])
        codes = np.zeros((1, talker.num_code_groups), np.int64)
        codes[0, 1:] = self.predictor.predict(hidden[-1], 0)
        self.talker.step(state, prompt.pad[None])
        with contextlib.suppress(GenerationError):
            self.decoder.decode(codes)
