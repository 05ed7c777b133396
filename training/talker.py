"""Step 4: talker and code predictor.

    python talker.py train DATASET WORK --minutes 20      # resumes from WORK/talker.pt
    python talker.py train … --team 0/2                   # and 1/2 beside it: two processes, one model
    python talker.py spell DATASET WORK [--count 8]       # phone error rate of what it samples

Every step draws utterances anew: half spoken ones under a random time shift, half texts that nobody spoke, with
borrowed durations and pitch. WORK/talker.pt holds weights, their moving average, optimiser and step.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import codes
import common
import data
import numpy as np
import phones
import torch
from alignment import Aligner, Prosody
from talker_model import EOS, GUIDES, TALKER, Talker, prompt, text_start
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import nn

F = nn.functional
torch.set_num_threads(1)
LAYOUT = Path(__file__).parent / "layout"
HEAD = [*range(common.CODES), EOS]  # rows of codec_head that can be sampled
RATE, WARM_UP, BATCH, DROPOUT = 2e-3, 100, 16, 0.0
# Weights of the streams' losses. Lengths and pitch are matters of chance: their noise must not drown the spelling.
FIRST, REST = 2.0, (1.0, 1.0, 1.0, 1.0, 1.5, 0.3, 0.2, 0.6)
NORM_RATE = 4.0  # of the norms' weights, in the others' rate: they make attention sharp
SHARE = 0.25  # of the frames, for the predictor
SPOKEN = 0.4  # of the utterances; the others are texts that nobody spoke
FRENCH = 0.65  # of the utterances: its spelling takes longer to learn
AUTO = 0.25  # of the utterances are not told their language


def tokenizer() -> Tokenizer:
    vocab = json.loads((LAYOUT / "vocab.json").read_text("utf-8"))
    merges = [
        tuple(line.split(" ")) for line in (LAYOUT / "merges.txt").read_text("utf-8").splitlines() if line
    ]
    made = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


class Corpus:
    """Utterances as (tokens, language, symbols, alignment, pitch), drawn at random."""

    def __init__(self, dataset: str, work: str) -> None:
        self.rng = common.seed_all()
        table = phones.symbols_of(dataset, work)
        coder = tokenizer()
        self.spoken = data.load(dataset, work, "train")
        self.held = data.load(dataset, work, "held")
        for u in (*self.spoken, *self.held):
            u.mc = u.ap = np.zeros((0, 0))  # only the alignment and the pitch are needed
        rows = [json.loads(line) for line in (Path(work) / "texts.jsonl").read_text("utf-8").splitlines()]
        self.texts = []
        for row in rows:
            symbols, _ = common.merge_phones(
                row["phonemes"], [1] * (len(row["phonemes"]) + 2), row["language"]
            )
            self.texts.append(
                (coder.encode(row["text"]).ids, row["language"], np.array([table[s] for s in symbols]))
            )
        self.spoken_in = {lang: [u for u in self.spoken if u.language == lang] for lang in common.LANGUAGES}
        self.texts_in = {
            lang: np.array([i for i, (_, of, _) in enumerate(self.texts) if of == lang])
            for lang in common.LANGUAGES
        }
        self.prosody = Prosody(self.spoken)
        self.aligner = Aligner()
        tokens = {u.name: coder.encode(u.text).ids for u in (*self.spoken, *self.held)}
        self.tokens = tokens
        pairs = [(np.array(tokens[u.name]), u.alignment.symbols) for u in self.spoken[::2]]
        pairs += [(np.array(t), s) for t, _, s in self.texts[::12]]
        self.aligner.fit(pairs)
        self._paths: dict[object, np.ndarray] = {}

    def path(self, key: object, tokens: list[int], symbols: np.ndarray) -> np.ndarray:
        if key not in self._paths:
            self._paths[key] = self.aligner.path(np.array(tokens), symbols)
        return self._paths[key]

    def item(self, u: data.Utterance, shift: int) -> tuple:
        tokens = self.tokens[u.name]
        where = self.path(u.name, tokens, u.alignment.symbols)
        last = codes_index(u.alignment.shifted(shift), u.frames(shift))
        return tokens, u.language, point(u.encode(self.rng, shift), len(tokens), where, last), where, last

    def draw(self) -> tuple:
        rng = self.rng
        wanted = "french" if rng.random() < FRENCH else "english"
        if rng.random() < SPOKEN:
            spoken = self.spoken_in[wanted]
            return self.item(spoken[rng.integers(len(spoken))], int(rng.integers(16)) * common.TICK)
        number = int(rng.choice(self.texts_in[wanted]))
        tokens, language, symbols = self.texts[number]
        alignment = self.prosody.align(symbols, rng).shifted(int(rng.integers(common.FRAME)))
        frames = -(-alignment.length // common.FRAME)
        encoded = codes.encode(alignment, self.prosody.pitch(language, symbols, frames, rng), rng)
        where, last = self.path(number, tokens, symbols), codes_index(alignment, frames)
        return tokens, language, point(encoded, len(tokens), where, last), where, last


def pointed(where: np.ndarray, last: np.ndarray) -> np.ndarray:
    """(frames,) token of the phone after each frame's last slot."""
    return where[np.minimum(last + 1, len(where) - 1)]


def point(encoded: np.ndarray, tokens: int, where: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Fill in stream c8. Between the first text row and the first frame's row lie tokens + 2 rows."""
    distance = tokens + 2 + np.arange(len(encoded)) - pointed(where, last)
    encoded[:, codes.POINTER] = np.clip(distance, 0, codes.FARTHEST)
    return encoded


def codes_index(alignment: codes.Alignment, frames: int) -> np.ndarray:
    """(frames,) index of the phone in each frame's last slot."""
    return codes.slot_phones(alignment, frames)[common.SLOTS - 1 :: common.SLOTS]


def collate(items: list[tuple], rng: np.random.Generator, corrupt: float) -> dict[str, torch.Tensor]:
    """Right-padded batch. Guides are token positions to attend to, -1 for none."""
    built = []
    for tokens, language, encoded, where, last in items:
        spoken_as = "auto" if rng.random() < AUTO and corrupt else language
        text_ids, codec_ids = prompt(tokens, spoken_as)
        built.append((text_ids, codec_ids, encoded, pointed(where, last), text_start(spoken_as), len(tokens)))
    width = max(len(b[0]) + len(b[2]) for b in built)
    n = len(built)
    text = np.full((n, width), 296)
    codec = np.full((n, width), -1)
    target = np.full((n, width), -1)
    guide = np.full((len(GUIDES), TALKER.heads, n, width), -1)
    at, inputs, source, truth, early = [], [], [], [], []
    for i, (text_ids, codec_ids, encoded, to, start, tokens) in enumerate(built):
        t0, frames = len(text_ids), len(encoded)
        text[i, :t0], codec[i, :t0] = text_ids, codec_ids
        here = np.arange(frames)
        target[i, t0 - 1 : t0 - 1 + frames] = encoded[:, 0]
        target[i, t0 - 1 + frames] = common.CODES
        # The row that predicts a frame reads where the frame before pointed; the first reads the beginning.
        reads = np.concatenate([[0], to])
        for layer, offsets in enumerate(GUIDES.values()):
            for head, offset in enumerate(offsets):
                guide[layer, head, i, t0 - 1 : t0 + frames] = start + np.clip(reads + offset, -1, tokens)
        guide[0, :, i, t0 - 1] = -1  # the first layer cannot know where the text begins
        wrong = encoded[:, : codes.USED].copy()
        if corrupt:
            frame = rng.random(frames) < corrupt
            wrong[frame] = wrong[rng.integers(frames, size=int(frame.sum()))]
            single = rng.random(wrong.shape) < corrupt
            wrong[single] = wrong[rng.integers(frames, size=int(single.sum())), np.nonzero(single)[1]]
            # The pointer goes wrong by little: here and there, and in the silence before the first word,
            # where it has to be guessed.
            pointer = encoded[:, codes.POINTER].copy()
            slip = rng.random(frames) < corrupt
            pointer[slip] += rng.choice([-2, -1, 1, 2], size=int(slip.sum())).astype(pointer.dtype)
            if rng.random() < 0.6:
                pointer[to <= to[0]] += rng.integers(-4, 5)
            wrong[:, codes.POINTER] = np.clip(pointer, 0, codes.FARTHEST)
        at.append(i * width + t0 + here)
        inputs.append(wrong)
        source.append(i * width + t0 - 1 + here)
        truth.append(encoded[:, : codes.USED])
        early.append(here < 3)
    join = lambda parts: torch.as_tensor(np.concatenate(parts).astype(np.int64))  # noqa: E731
    return {
        "text": torch.as_tensor(text), "codec": torch.as_tensor(codec), "target": torch.as_tensor(target),
        "guide": torch.as_tensor(guide), "at": join(at), "inputs": join(inputs), "source": join(source),
        "truth": join(truth), "early": join(early) > 0,
    }  # fmt: skip


def losses(
    model: Talker, b: dict[str, torch.Tensor], dropout: float, share: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """-> nats per frame of c0, of c1 … c8 (8,), guided attention loss."""
    x = model.inputs(b["text"], b["codec"], b["inputs"], b["at"])
    hidden, seen = model.model.run(F.dropout(x, dropout, model.training and dropout > 0), dropout)
    flat = hidden.reshape(-1, hidden.shape[-1])
    spots = torch.nonzero(b["target"].reshape(-1) >= 0)[:, 0]
    first = F.cross_entropy(
        F.linear(flat[spots], model.codec_head.weight[HEAD]), b["target"].reshape(-1)[spots]
    )
    # The predictor learns fast: a share of the frames is enough for it.
    chosen = (torch.rand(len(b["source"])) < share) | b["early"] if share < 1 else slice(None)
    truth = b["truth"][chosen]
    logits = model.predict(flat[b["source"][chosen]], truth, dropout)
    rest = torch.stack([F.cross_entropy(logit, truth[:, k + 1]) for k, logit in enumerate(logits)])
    guided = []
    for attention, goals in zip(seen, b["guide"], strict=True):
        for head, goal in enumerate(goals):
            mass = attention[:, head].float().gather(-1, goal.clamp_min(0)[..., None])[..., 0][goal >= 0]
            guided.append(-(mass + 1e-4).log().mean())
    return first, rest, torch.stack(guided).mean()


def batch(corpus: Corpus, size: int) -> dict[str, torch.Tensor]:
    """Drawn from four batches' worth sorted by length, so that little is padding."""
    pool = getattr(corpus, "pool", [])
    if not pool:
        items = sorted((corpus.draw() for _ in range(4 * size)), key=lambda x: len(x[0]) + len(x[2]))
        pool = [items[i : i + size] for i in range(0, len(items), size)]
        corpus.rng.shuffle(pool)
    corpus.pool = pool[1:]
    return collate(pool[0], corpus.rng, 0.06)


class Team:
    """Several processes that train one model, each on batches of its own; one does without all this."""

    def __init__(self, rank: int, size: int, meeting: str) -> None:
        self.rank, self.size = rank, size
        if size > 1:
            torch.distributed.init_process_group(
                "gloo", init_method=f"file://{meeting}", rank=rank, world_size=size
            )

    def share(self, parameters: list[nn.Parameter], stop: bool) -> bool:
        """Average the gradients over all processes; True when one of them wants to stop."""
        if self.size == 1:
            return stop
        grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
        flat = torch.cat([*(g.reshape(-1) for g in grads), torch.tensor([float(stop)])])
        torch.distributed.all_reduce(flat)
        flat /= self.size
        at = 0
        for p in parameters:
            p.grad = flat[at : at + p.numel()].view_as(p)
            at += p.numel()
        return bool(flat[-1] > 0)


def train(dataset: str, work: str, minutes: float, planned: int, team: Team) -> None:
    torch.manual_seed(common.SEED)
    corpus = Corpus(dataset, work)
    corpus.rng = np.random.default_rng(common.SEED + 7 * team.rank)
    model = Talker()
    average = Talker()
    average.load_state_dict(model.state_dict())
    decay = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
    plain = [p for p in model.parameters() if p.requires_grad and p.dim() <= 1]
    optimiser = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}],
        RATE,
        betas=(0.9, 0.98),
    )
    path, step, spent = Path(work) / "talker.pt", 0, 0.0
    if path.exists():
        state = torch.load(path, weights_only=False)
        model.load_state_dict(state["model"])
        average.load_state_dict(state["average"])
        if "optimiser" in state:  # begin.py makes one without
            optimiser.load_state_dict(state["optimiser"])
        step, spent = state["step"], state["cpu"]
        corpus.rng = np.random.default_rng([common.SEED + step, team.rank])
        torch.manual_seed(common.SEED + step + 1_000_003 * team.rank)
    held_rng = np.random.default_rng(1)
    held = collate([corpus.item(u, 0) for u in data.sample_held(corpus.held, 16)], held_rng, 0.0)
    begun, cpu, last, sums = time.time(), time.process_time(), time.time(), []
    print(f"{len(corpus.spoken)} spoken, {len(corpus.texts)} texts, step {step}", flush=True)

    parameters, stop = [p for p in model.parameters() if p.requires_grad], False

    def save() -> None:
        if team.rank:
            return
        state = {"model": model.state_dict(), "average": average.state_dict(), "optimiser": optimiser.state_dict(),
                 "step": step, "cpu": spent + time.process_time() - cpu}  # fmt: skip
        torch.save(state, path.with_suffix(".part"))
        path.with_suffix(".part").rename(path)

    while not stop and step < planned:
        rate = (
            RATE
            * min(1.0, (step + 1) / WARM_UP)
            * max(0.03, 0.5 + 0.5 * np.cos(np.pi * min(1.0, step / planned)))
        )
        for group, factor in zip(optimiser.param_groups, (1.0, NORM_RATE), strict=True):
            group["lr"] = rate * factor
        model.train()
        with torch.autocast("cpu", torch.bfloat16, enabled=common.half()):
            first, rest, guided = losses(model, batch(corpus, BATCH), DROPOUT, SHARE)
        weight = 0.5 if step < 5000 else 0.15
        loss = FIRST * first + (rest * torch.tensor(REST)).sum() + weight * guided
        optimiser.zero_grad()
        loss.backward()
        stop = team.share(parameters, time.time() - begun > minutes * 60)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        step += 1
        with torch.no_grad():
            keep = min(0.996, step / (step + 20))
            for a, p in zip(average.parameters(), model.parameters(), strict=True):
                a.lerp_(p, 1 - keep)
        sums.append((float(first.detach()), float(rest.sum().detach()), float(guided.detach())))
        if step % 100 == 0 and team.rank == 0:
            average.eval()
            with torch.no_grad():
                h1, h2, h3 = losses(average, held, 0.0)
            c = np.mean(sums, 0)
            print(
                f"step {step} train c0 {c[0]:.3f} rest {c[1]:.3f} guide {c[2]:.2f} | held c0 {h1:.3f} rest "
                f"{' '.join(f'{v:.2f}' for v in h2)} guide {h3:.2f} | {time.time() - begun:.0f} s", flush=True,
            )  # fmt: skip
            sums = []
        if time.time() - last > 120:
            save()
            last = time.time()
    save()


@torch.no_grad()
def generate(
    model: Talker,
    tokens: list[int],
    language: str,
    seed: int,
    temperature: float,
    sub: float,
    top_k: int,
    most: int = 200,
) -> tuple[np.ndarray, bool]:
    """Sampled codes (frames, 16) and whether the end came by itself. No cache: for short sentences only."""
    generator = torch.Generator().manual_seed(seed)

    def draw(logits: torch.Tensor, heat: float) -> int:
        if heat == 0:
            return int(logits.argmax())
        scaled = logits / heat
        floor = scaled.topk(min(top_k, len(scaled))).values[-1]
        scaled[scaled < floor] = float("-inf")
        return int(torch.multinomial(scaled.softmax(-1), 1, generator=generator))

    text_ids, codec_ids = prompt(tokens, language)
    t0 = len(text_ids)
    rows: list[list[int]] = []
    model.eval()
    for t in range(most):
        text = torch.tensor([text_ids + [296] * t])
        codec = torch.tensor([codec_ids + [-1] * t])
        frames = torch.tensor(rows, dtype=torch.int64).reshape(t, codes.USED)
        x = model.inputs(text, codec, frames, torch.arange(t0, t0 + t))
        hidden = model.model.run(x, 0.0)[0][0, -1:]
        logits = F.linear(hidden[0], model.codec_head.weight[HEAD])
        if t < 2:
            logits[common.CODES] = float("-inf")
        c0 = draw(logits, temperature)
        if c0 == common.CODES:
            return pad_streams(rows, seed), True
        row = [c0, *[0] * (codes.USED - 1)]
        for k in range(1, codes.USED):
            row[k] = draw(model.predict(hidden, torch.tensor([row]), 0.0)[k - 1][0], sub)
        rows.append(row)
    return pad_streams(rows, seed), False


def pad_streams(rows: list[list[int]], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    noise = rng.integers(0, common.CODES, (len(rows), common.STREAMS - codes.USED))
    return np.concatenate([np.array(rows).reshape(-1, codes.USED), noise], 1)


def load_model(work: str) -> Talker:
    model = Talker()
    model.load_state_dict(torch.load(Path(work) / "talker.pt", weights_only=False)["average"])
    return model.eval()


def spoken_phones(encoded: np.ndarray) -> list[int]:
    """The phones that codes (frames, 16) spell, equal neighbours counted once."""
    slots = encoded[:, codes.SLOT0 : codes.SLOT0 + common.SLOTS].reshape(-1)
    return [int(p) for i, p in enumerate(slots) if i == 0 or slots[i - 1] != p]


def spell(dataset: str, work: str, count: int, temperature: float, sub: float) -> None:
    """Phone error rate of sampled codes against espeak, for held-out and new sentences; no audio."""
    from judge import errors

    model, coder = load_model(work), tokenizer()
    table = phones.symbols_of(dataset, work)
    names = {number: name for name, number in table.items()}
    silent = {number for name, number in table.items() if name == common.SILENCE or name in common.PAUSES}
    rows = [
        ("held-out", u.language, u.text, u.alignment.symbols)
        for u in data.sample_held(data.load(dataset, work, "held"), count)
    ]
    new = json.loads((Path(__file__).parent / "new_sentences.json").read_text("utf-8"))
    for language in common.LANGUAGES:
        texts = new[language][:count]
        for text, found in zip(texts, phones.phonemes(texts, language), strict=True):
            symbols, _ = common.merge_phones(found, [1] * (len(found) + 2), language)
            rows.append(("new", language, text, np.array([table[s] for s in symbols])))
    wrong: dict[tuple[str, str], list[int]] = {}
    for seed, (kind, language, text, symbols) in enumerate(rows):
        encoded, ended = generate(model, coder.encode(text).ids, language, seed, temperature, sub, 50)
        heard = [p for p in spoken_phones(encoded) if p not in silent]
        truth = [int(p) for i, p in enumerate(symbols) if i == 0 or symbols[i - 1] != p]
        truth = [p for p in truth if p not in silent]
        n = errors(truth, heard)
        total = wrong.setdefault((kind, language), [0, 0])
        total[0] += n
        total[1] += len(truth)
        said, meant = ("".join(names[p].split(":")[-1] for p in s) for s in (heard, truth))
        print(
            f"{n}/{len(truth)} {'' if ended else 'NO END '}{text} | {said}{'' if not n else ' <> ' + meant}",
            flush=True,
        )
    for (kind, language), (n, of) in wrong.items():
        print(f"{kind}, {language}: {n / of:.1%} of {of} phones")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("train", "spell"))
    parser.add_argument("dataset")
    parser.add_argument("work")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--planned", type=int, default=4000, help="steps over which the rate falls")
    parser.add_argument("--team", default="0/1", help="number/processes: start one process for each number")
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--temperature", type=float, default=0.6)
    parser.add_argument("--sub", type=float, default=0.4)
    args = parser.parse_args()
    if args.what == "train":
        rank, size = (int(x) for x in args.team.split("/"))
        meeting = str((Path(args.work) / f"team{size}").resolve())
        train(args.dataset, args.work, args.minutes, args.planned, Team(rank, size, meeting))
    else:
        spell(args.dataset, args.work, args.count, args.temperature, args.sub)
    return 0


if __name__ == "__main__":
    sys.exit(main())
