"""From a name to an opened checkpoint: local first, offline-safe, and errors that list what is missing."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
from pathlib import Path
from typing import Any, NoReturn

import huggingface_hub
import pytest
from huggingface_hub import constants
from tiny_checkpoint import (
    CONFIG,
    TENSORS,
    changed,
    write_checkpoint,
    write_safetensors,
    write_shards,
)

from kazeia.checkpoint import open_checkpoint
from kazeia.errors import ConfigError, ModelNotFoundError, WeightsError

REPO = "some-owner/Some-Model.1"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Refuse every connection, and list those that were tried."""
    tried: list[object] = []

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        tried.append(args)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return tried


@pytest.fixture
def hub_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Refuse, and list, every use of the hub's library."""
    calls: list[str] = []

    def refuse(repo: str, **kwargs: Any) -> NoReturn:
        calls.append(repo)
        raise AssertionError("the hub was asked")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    return calls


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache of this test's own."""
    cache = tmp_path / "hub"
    cache.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.chdir(tmp_path)
    return cache


def _cache_model(cache: Path, repo: str = REPO) -> Path:
    """Lay a model in a hub cache as its library does; returns the snapshot's folder."""
    storage = cache / f"models--{repo.replace('/', '--')}"
    (storage / "refs").mkdir(parents=True)
    (storage / "refs" / "main").write_text(COMMIT, "utf-8")
    return write_checkpoint(storage / "snapshots" / COMMIT)


def test_everything_of_a_checkpoint_is_opened(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model")
    with open_checkpoint(folder) as checkpoint:
        assert checkpoint.path == folder
        assert checkpoint.config.talker.vocab_size == 128
        assert checkpoint.codec_config.decoder.samples_per_frame == 24
        assert checkpoint.generation.temperature == 0.9
        assert checkpoint.weights.get("talker.model.norm.weight", (4,))[3] == 3
        assert checkpoint.codec_weights.get("talker.codec_head.weight", (2, 3))[1, 2] == 5
    with pytest.raises(WeightsError, match="closed"):
        checkpoint.weights.get("talker.model.norm.weight", (4,))


def test_a_missing_generation_config_is_fine(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model")
    (folder / "generation_config.json").unlink()
    assert open_checkpoint(folder).generation.temperature is None


def test_both_weights_may_be_sharded(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model")
    shards = [{name: TENSORS[name]} for name in TENSORS]
    for place in (folder, folder / "speech_tokenizer"):
        (place / "model.safetensors").unlink()
        write_shards(place, shards)
    checkpoint = open_checkpoint(folder)
    assert checkpoint.weights.get("talker.codec_head.weight", (2, 3))[0, 1] == 1
    assert "speech_tokenizer/model.safetensors.index.json" in checkpoint.files()
    (folder / "speech_tokenizer" / "model-00001-of-00002.safetensors").unlink()
    with pytest.raises(WeightsError, match="model-00001-of-00002"):
        open_checkpoint(folder)


@pytest.mark.parametrize("name", ["model", "with.dots.v1", "é and space", "模型", "owner/name", "é/…"])
@pytest.mark.parametrize("form", ["plain", "slash", "relative", "dotted", "home", "path"])
def test_l04_an_existing_folder_always_wins_over_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub_calls: list[str], name: str, form: str
) -> None:
    write_checkpoint(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    given = {
        "plain": str(tmp_path / name),
        "slash": str(tmp_path / name) + "/",
        "relative": name,
        "dotted": f"./{name}/../{name.split('/')[-1]}",
        "home": f"~/{name}",
        "path": Path(name),
    }[form]
    assert open_checkpoint(given).config.tts_model_size == "0b6"
    assert hub_calls == []


@pytest.mark.parametrize(
    "name",
    ["", "  ", "nothing-here", "./owner/name", "~/no/such", "a/b/c", "a\0b/c", "é/name", "owner/", "/x/y"],
)
def test_a_name_that_leads_nowhere_says_where_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub_calls: list[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFoundError) as told:
        open_checkpoint(name)
    assert hub_calls == []
    if name.strip():
        assert str(Path(os.path.expanduser(name)).absolute()) in str(told.value).replace("./", "")
    assert "owner/name" in str(told.value)


def test_a_path_is_never_taken_for_a_hub_id(hub_calls: list[str]) -> None:
    with pytest.raises(ModelNotFoundError, match="no such folder"):
        open_checkpoint(Path("owner/name"))
    assert hub_calls == []


def test_a_file_instead_of_a_folder_is_told(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model")
    with pytest.raises(ModelNotFoundError, match=f"is a file; give the folder .*{folder.name}"):
        open_checkpoint(folder / "config.json")


def test_l03_everything_that_is_missing_is_listed(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model")
    for path in list(folder.iterdir()):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "config.json":
            path.unlink()
    with pytest.raises(ModelNotFoundError) as told:
        open_checkpoint(folder)
    for part in (str(folder), "vocab.json", "merges.txt", "model.safetensors", "speech_tokenizer/"):
        assert part in str(told.value)


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "vocab.json",
        "merges.txt",
        "model.safetensors",
        "speech_tokenizer/config.json",
        "speech_tokenizer/model.safetensors",
    ],
)
def test_l03_one_missing_file_is_named_alone(tmp_path: Path, name: str) -> None:
    folder = write_checkpoint(tmp_path / "model")
    (folder / name).unlink()
    with pytest.raises(ModelNotFoundError, match=f"missing: {name}$"):
        open_checkpoint(folder)


def test_l03_the_parent_folder_names_the_checkpoints_in_it(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_checkpoint(tmp_path / name)
    (tmp_path / "other").mkdir()
    with pytest.raises(ModelNotFoundError) as told:
        open_checkpoint(tmp_path)
    assert str(tmp_path / "one") in str(told.value)
    assert str(tmp_path / "two") in str(told.value)
    assert str(tmp_path / "other") not in str(told.value)


@pytest.mark.parametrize("depth", ["cache", "model", "snapshots"])
def test_l03_a_hub_cache_names_the_snapshot_to_use(hub_cache: Path, depth: str) -> None:
    snapshot = _cache_model(hub_cache)
    given = {"cache": hub_cache, "model": snapshot.parent.parent, "snapshots": snapshot.parent}[depth]
    with pytest.raises(ModelNotFoundError, match=re.escape(str(snapshot))):
        open_checkpoint(given)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"model_type": "llama"}, 'model_type "llama", expected model_type "qwen3_tts"'),
        ({"hidden_size": 1}, 'no model_type, expected model_type "qwen3_tts"'),
        ({"model_type": "qwen3_tts_tokenizer_12hz"}, "this is the speech tokenizer alone"),
    ],
)
def test_l03_another_models_folder_is_told(tmp_path: Path, data: dict[str, Any], told: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(data), "utf-8")
    with pytest.raises(ConfigError, match=told):
        open_checkpoint(tmp_path)
    folder = write_checkpoint(tmp_path / "model")
    (folder / "config.json").write_text(json.dumps(data), "utf-8")
    with pytest.raises(ConfigError, match=told):
        open_checkpoint(folder)


def test_l03_another_models_folder_lists_what_else_is_missing(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}', "utf-8")
    with pytest.raises(ConfigError, match=r"Missing there as well: vocab\.json, merges\.txt, model\.safe"):
        open_checkpoint(tmp_path)


def test_config_errors_name_the_very_file(tmp_path: Path) -> None:
    config = changed(CONFIG, "talker_config.head_dim", ...)
    folder = write_checkpoint(tmp_path / "model", config)
    with pytest.raises(ConfigError) as told:
        open_checkpoint(folder)
    assert str(told.value).startswith(f"{folder / 'config.json'}: talker_config.head_dim: missing")


def test_a_codec_of_another_model_is_refused_when_opened(tmp_path: Path) -> None:
    config = changed(CONFIG, "talker_config.code_predictor_config.vocab_size", 32)
    with pytest.raises(ConfigError, match="belong to different models"):
        open_checkpoint(write_checkpoint(tmp_path / "model", config))


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_l06_a_checkpoint_with_crlf_and_bom_opens(tmp_path: Path, mark: bytes) -> None:
    folder = write_checkpoint(tmp_path / "model")
    plain = open_checkpoint(folder)
    for name in ("config.json", "generation_config.json", "speech_tokenizer/config.json"):
        data = json.dumps(json.loads((folder / name).read_text("utf-8")), indent=2)
        (folder / name).write_bytes(mark + data.replace("\n", "\r\n").encode())
    dressed = open_checkpoint(folder)
    assert dressed.config == plain.config
    assert dressed.codec_config == plain.codec_config
    assert dressed.generation == plain.generation


def test_l05_a_full_cache_needs_no_network(hub_cache: Path, no_network: list[object]) -> None:
    snapshot = _cache_model(hub_cache)
    checkpoint = open_checkpoint(REPO)
    assert checkpoint.path.resolve() == snapshot.resolve()
    assert no_network == []


def test_l05_a_full_sharded_cache_needs_no_network(hub_cache: Path, no_network: list[object]) -> None:
    snapshot = _cache_model(hub_cache)
    (snapshot / "model.safetensors").unlink()
    (snapshot / "generation_config.json").unlink()
    write_shards(snapshot, [{name: TENSORS[name]} for name in TENSORS])
    assert "talker.model.norm.weight" in open_checkpoint(REPO).weights
    assert no_network == []


def test_l05_offline_and_not_cached_says_so(
    hub_cache: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[object]
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelNotFoundError) as told:
        open_checkpoint(REPO)
    for part in (REPO, str(hub_cache), "could not be reached", "offline"):
        assert part in str(told.value)
    assert no_network == []


@pytest.mark.parametrize("name", ["vocab.json", "speech_tokenizer/model.safetensors", "shard"])
def test_l05_offline_and_half_cached_lists_what_is_missing(
    hub_cache: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    snapshot = _cache_model(hub_cache)
    if name == "shard":
        (snapshot / "model.safetensors").unlink()
        write_shards(snapshot, [{name: TENSORS[name]} for name in TENSORS])
        name = "model-00001-of-00002.safetensors"
    (snapshot / name).unlink()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelNotFoundError, match=f"(lacks|missing:) .*{name}.*(offline|not be reached)"):
        open_checkpoint(REPO)


def _serve(monkeypatch: pytest.MonkeyPatch, hub: Path, snapshot: Path) -> list[list[str]]:
    """Put a hub in place of the library's: it copies the asked files of `hub`; returns what was asked."""
    asked: list[list[str]] = []

    def download(repo: str, *, allow_patterns: list[str], local_files_only: bool = False) -> str:
        assert repo == REPO
        if local_files_only:
            raise huggingface_hub.errors.LocalEntryNotFoundError("nothing cached")
        asked.append(allow_patterns)
        for path in hub.rglob("*"):
            name = path.relative_to(hub).as_posix()
            if path.is_file() and any(Path(name).match(pattern) for pattern in allow_patterns):
                (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, snapshot / name)
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    return asked


def test_only_the_needed_files_are_downloaded(
    hub_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = write_checkpoint(tmp_path / "on-the-hub")
    for extra in ("README.md", "pytorch_model.bin", "speech_tokenizer/sample.wav", "onnx/model.onnx"):
        (hub / extra).parent.mkdir(exist_ok=True)
        (hub / extra).write_bytes(b"big")
    _serve(monkeypatch, hub, tmp_path / "snapshot")
    checkpoint = open_checkpoint(REPO)
    got = {p.relative_to(checkpoint.path).as_posix() for p in checkpoint.path.rglob("*") if p.is_file()}
    assert got == set(checkpoint.files())


def test_another_model_is_told_before_its_weights_are_downloaded(
    hub_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = write_checkpoint(tmp_path / "on-the-hub", changed(CONFIG, "model_type", "llama"))
    asked = _serve(monkeypatch, hub, tmp_path / "snapshot")
    with pytest.raises(ConfigError, match='"llama"'):
        open_checkpoint(REPO)
    assert asked == [["config.json"]]


@pytest.mark.parametrize("kind", [ConnectionError, ValueError, RuntimeError])
def test_a_failed_download_is_a_named_error(
    hub_cache: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    def download(repo: str, *, allow_patterns: list[str], local_files_only: bool = False) -> str:
        if local_files_only:
            raise huggingface_hub.errors.LocalEntryNotFoundError("nothing cached")
        raise kind("the line is dead")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(ModelNotFoundError, match=rf"{REPO}.*{kind.__name__}: the line is dead"):
        open_checkpoint(REPO)


def test_weights_errors_come_from_the_codec_too(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model")
    write_safetensors(folder / "model.safetensors")
    (folder / "speech_tokenizer" / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/x")
    with pytest.raises(WeightsError, match=r"speech_tokenizer.model\.safetensors: is a git-lfs pointer"):
        open_checkpoint(folder)
