"""`leafgate maps`, as a person or a script uses it."""

from __future__ import annotations

import base64
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from click.testing import CliRunner, Result

from leafgate.cli.main import cli
from leafgate.maps.corpus import corpus
from leafgate.maps.files import MapFiles
from leafgate.maps.original import Comparison, compare, open_original
from leafgate.model.errors import (
    ConfigError,
    MapDigestError,
    MapHashMismatchError,
    MapInvalidError,
    MapUnreachableError,
)
from leafgate.model.leaf import digest_of
from leafgate.tokens.encoder import Encoder, make_encoder
from leafgate.tokens.map_building import write_map
from leafgate.tokens.token_map import read_map
from leafgate.tokens.tokenizer_files import read_tokenizer

ROOT = Path(__file__).resolve().parents[3]
MAPS, DOCS = ROOT / "maps", ROOT / "docs"
TOY = (MAPS / "toy.json").read_bytes()
DIGEST = digest_of(TOY)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of its own."""
    monkeypatch.delenv("LEAFGATE_MAPS", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "data" / "leafgate" / "maps"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["maps", *arguments])


def answer(*arguments: str) -> Any:
    found = run(*arguments, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def mine(tmp_path: Path, raw: bytes = TOY) -> str:
    path = tmp_path / "mine.json"
    path.write_bytes(raw)
    return str(path)


# list


def test_list(tmp_path: Path) -> None:
    """What can be used and what cannot."""
    added = answer("add", mine(tmp_path), "--id", "me/own")
    Path(added["file"]).write_bytes(TOY + b" ")
    found = run("list", "--json")
    assert found.exit_code == 1
    listed = {entry["id"]: entry for entry in json.loads(found.stdout)}
    assert {"openai/cl100k_base", "qwen/qwen2", "toy", "me/own"} <= listed.keys()
    toy = listed["toy"]
    assert (toy["map_id"], toy["bytes"], toy["licence"]) == (DIGEST, len(TOY), "MIT")
    assert (toy["ok"], toy["problem"]) == (True, None)
    assert listed["me/own"]["ok"] is False
    assert DIGEST in listed["me/own"]["problem"]


def test_list_for_people() -> None:
    found = run("list")
    assert found.exit_code == 0
    line = next(line for line in found.stdout.splitlines() if line.startswith("qwen/qwen2"))
    assert "Apache-2.0" in line
    assert line.rstrip().endswith("yes")
    assert DIGEST[:19] in found.stdout


def test_list_without_loading() -> None:
    assert {entry["ok"] for entry in answer("list", "--no-load")} == {None}
    shown = run("list", "--no-load").stdout.splitlines()
    assert all(line.rstrip().endswith("-") for line in shown[1:])


# add


def test_add_and_use(folder: Path, tmp_path: Path) -> None:
    added = answer("add", mine(tmp_path), "--id", "me/own", "--licence", "MIT", "--sha256", DIGEST.upper())
    assert (added["id"], added["map_id"], added["added"], added["source"]) == ("me/own", DIGEST, True, "mine.json")
    assert Path(added["file"]).is_relative_to(folder)
    assert MapFiles().load("me/own").map.digest == DIGEST
    assert answer("add", mine(tmp_path), "--id", "me/own")["added"] is False


def test_add_takes_the_maps_own_id(tmp_path: Path) -> None:
    shown = run("add", mine(tmp_path)).stdout
    assert "added toy" in shown
    assert "already installed" in run("add", mine(tmp_path)).stdout


def test_add_to_the_first_folder_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAFGATE_MAPS", f"{tmp_path / 'first'}:{tmp_path / 'second'}")
    assert Path(answer("add", mine(tmp_path))["file"]).is_relative_to(tmp_path / "first")


def test_replace(tmp_path: Path) -> None:
    run("add", mine(tmp_path))
    other = TOY.replace(b'"version":"2"', b'"version": "2"')
    refused = run("add", mine(tmp_path, other))
    assert isinstance(refused.exception, ConfigError)
    assert answer("add", mine(tmp_path, other), "--replace")["map_id"] == digest_of(other)
    assert MapFiles().load("toy").map.digest == digest_of(other)


LOSES = json.dumps({**json.loads(TOY), "pre_tokenizer_pattern": "[a-z]+"}).encode()


@pytest.mark.parametrize(
    ("raw", "options", "error"),
    [
        (TOY, ["--sha256", "sha256:" + "0" * 64], MapHashMismatchError),
        (TOY, ["--sha256", "12"], MapDigestError),
        (TOY, ["--id", "../up"], ConfigError),
        (TOY.replace(b'"id":"toy"', b'"id":"../../up"'), [], ConfigError),
        (TOY.replace(b'"id":"toy"', b'"id":""'), [], ConfigError),
        (b"{}", [], MapInvalidError),
        (TOY[:-1], [], MapInvalidError),
        (LOSES, [], MapInvalidError),
    ],
)
def test_add_refuses(folder: Path, tmp_path: Path, raw: bytes, options: list[str], error: type[Exception]) -> None:
    assert isinstance(run("add", mine(tmp_path, raw), *options).exception, error)
    assert not folder.exists()


def test_add_no_such_file(folder: Path) -> None:
    assert isinstance(run("add", "missing.json").exception, MapUnreachableError)


@pytest.fixture
def url() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(TOY)))
            self.end_headers()
            self.wfile.write(TOY)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://user:hunter2@127.0.0.1:{server.server_port}/toy.json?key=hunter3"
    server.shutdown()
    server.server_close()


def test_add_from_a_url(url: str, folder: Path) -> None:
    found = run("add", url, "--sha256", DIGEST)
    assert found.exit_code == 0, found.output
    index = (folder / "index.json").read_text()
    assert DIGEST in index
    assert json.loads(index)["maps"][0]["source"] == "127.0.0.1"
    assert "hunter" not in index + found.output


def test_a_url_needs_a_digest(url: str, folder: Path) -> None:
    found = run("add", url)
    assert isinstance(found.exception, ConfigError)
    assert "--hash" in str(found.exception)
    assert isinstance(run("add", url, "--sha256", "0" * 64).exception, MapHashMismatchError)
    assert isinstance(run("add", "http://maps.example/x", "--sha256", DIGEST).exception, MapUnreachableError)
    assert not folder.exists()


# check


def test_check() -> None:
    facts = answer("check", "toy")
    assert (facts["map_id"], facts["encoder"], facts["tokens"], facts["max_id"]) == (DIGEST, "byte_level", 266, 300)
    assert facts["pattern_family"] == "cl100k"
    assert facts["special_tokens"] == {"<|stop|>": 300}
    assert facts["checked"] == f"the ids of {len(corpus())} of {len(corpus())} texts decode to them"
    assert facts["compared"] is None


def test_check_says_nothing_about_an_original_that_it_does_not_have(tmp_path: Path) -> None:
    shown = run("check", mine(tmp_path)).stdout
    assert "differences" not in shown
    assert "no original" in shown
    assert "<|stop|>" in shown
    assert "9 texts have no tokenization" in run("check", "toy-metaspace").stdout


def test_check_against_another_tokenizer_exits_with_1(tmp_path: Path) -> None:
    other = {
        "version": "1.0",
        "added_tokens": [],
        "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
    }
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(other))
    found = run("check", "toy", "--against", str(path), "--json")
    assert found.exit_code == 1
    assert json.loads(found.stdout)["compared"]["first_difference"]


@pytest.mark.parametrize("raw", [b"{}", TOY[:-1], LOSES])
def test_check_refuses(tmp_path: Path, raw: bytes) -> None:
    assert isinstance(run("check", mine(tmp_path, raw)).exception, MapInvalidError)


def test_check_an_unknown_name() -> None:
    found = run("check", "nothing")
    assert isinstance(found.exception, MapUnreachableError)
    assert "qwen/qwen2" in str(found.exception)


# The documentation


def test_the_commands_of_the_documentation_run(tmp_path: Path) -> None:
    """Every shell block of docs/maps.md, in its order, in one folder, as a person would type it."""
    work = tmp_path / "work"
    work.mkdir()
    ranks = MapFiles([MAPS]).load("openai/cl100k_base").map.ranks
    lines = (b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks.items())
    (work / "cl100k_base.tiktoken").write_bytes(b"".join(lines))
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["the cat and the other cat"] * 5, trainer)
    tokenizer.save(str(work / "tokenizer.json"))
    blocks = re.findall(r"^```sh\n(.*?)^```", (DOCS / "maps.md").read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 5
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "-euc", "\n".join(blocks)]
    done = subprocess.run(
        command, cwd=work, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("0 differences") == 1
    assert "added me/mine" in done.stdout


# build


def rank_file(tmp_path: Path) -> str:
    path = tmp_path / "toy.tiktoken"
    ranks = MapFiles([MAPS]).load("toy").map.ranks
    path.write_bytes(b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks.items()))
    return str(path)


def build(tmp_path: Path, *options: str) -> Result:
    return run("build", rank_file(tmp_path), "--out", str(tmp_path / "out.json"), *options)


def test_build_gives_the_bundled_bytes(tmp_path: Path) -> None:
    found = build(tmp_path, "--id", "toy", "--pattern", "cl100k", "--special", "<|stop|>=300", "--json")
    assert found.exit_code == 0, found.output
    assert (tmp_path / "out.json").read_bytes() == TOY
    facts = json.loads(found.stdout)
    assert (facts["map_id"], facts["tokens"], facts["special_tokens"], facts["patterns"]) == (
        DIGEST,
        266,
        1,
        ["cl100k"],
    )


def test_build_for_people(tmp_path: Path) -> None:
    shown = build(tmp_path, "--id", "toy", "--pattern", "gpt2", "--special", "a=b=300").stdout
    assert "special_tokens  1" in shown
    assert "a=b" in json.loads((tmp_path / "out.json").read_bytes())["special_tokens"]


def test_build_from_a_tokenizer_json(tmp_path: Path) -> None:
    toy = json.loads((MAPS / "toy-metaspace.json").read_bytes())
    document = {
        "added_tokens": [{"id": 0, "content": "<s>", "special": True}],
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False},
        "model": {"type": "BPE", "byte_fallback": True, "vocab": toy["vocab"], "merges": toy["merges"]},
    }
    source = tmp_path / "tokenizer.json"
    source.write_text(json.dumps(document))
    facts = answer("build", str(source), "--id", "me/mine", "--out", str(tmp_path / "out.json"))
    assert (facts["encoder"], facts["special_tokens"]) == ("metaspace", 1)
    raw = (tmp_path / "out.json").read_bytes()
    assert make_encoder(read_map(raw, where="x")).encode("the cat") == [309, 312]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--id", "a/b"], "--pattern"),
        (["--id", "a/b", "--pattern", "cl100kk"], "cl100k, o200k"),
        (["--id", "a/b", "--pattern", "[a-z]+"], "leaves out"),
        (["--id", "a/b", "--pattern", "[a-z"], "unusable pattern"),
        (["--id", "../b", "--pattern", "gpt2"], "owner/name"),
        (["--id", "a/b", "--pattern", "gpt2", "--special", "x"], "NAME=ID"),
        (["--id", "a/b", "--pattern", "gpt2", "--special", "=5"], "NAME=ID"),
        (["--id", "a/b", "--pattern", "gpt2", "--special", "x=-1"], "NAME=ID"),
        (["--id", "a/b", "--pattern", "gpt2", "--special", "x=²"], "NAME=ID"),
        (["--id", "a/b", "--pattern", "gpt2", "--special", "x=300", "--special", "x=301"], "twice"),
        (["--id", "a/b", "--pattern", "gpt2", "--special", "x=300", "--special", "y=300"], "share"),
        (["--id", "a/b", "--pattern", "gpt2", "--special", "x=99999999999"], "integer"),
    ],
)
def test_build_refuses(tmp_path: Path, options: list[str], says: str) -> None:
    found = build(tmp_path, *options)
    assert found.exit_code == 1
    assert says in str(found.exception)
    assert not (tmp_path / "out.json").exists()


def test_build_where_nothing_can_be_written(tmp_path: Path) -> None:
    found = run(
        "build",
        rank_file(tmp_path),
        "--out",
        str(tmp_path / "no" / "out.json"),
        "--id",
        "a",
        "--pattern",
        "gpt2",
    )
    assert isinstance(found.exception, ConfigError)
    missing = run("build", str(tmp_path / "no"), "--out", "x", "--id", "a", "--pattern", "gpt2")
    assert isinstance(missing.exception, MapUnreachableError)


FILES = MapFiles()


def original(tmp_path: Path) -> Path:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["the cat and the other cat"] * 5, trainer)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def compared(encoder: Encoder, path: Path) -> Comparison:
    return compare(encoder, open_original(path.read_bytes(), where=path.name, encoder=encoder))


def test_against_the_file_that_a_map_was_made_of(tmp_path: Path) -> None:
    """Its special token is in some of the texts: no engine looks for it."""
    path = original(tmp_path)
    raw = write_map(read_tokenizer(path.read_bytes(), where="x"), id="a/b")
    same = compared(make_encoder(read_map(raw, where="x")), path)
    assert (same.differences, same.texts) == (0, len(corpus()))
    other = compared(FILES.load("toy"), path)
    assert other.differences > 100
    assert other.first_difference is not None
    assert "at token 0 (character 0): the map gives" in other.first_difference


def test_against_a_rank_file(tmp_path: Path) -> None:
    found = compared(FILES.load("toy"), Path(rank_file(tmp_path)))
    assert (found.differences, found.texts) == (0, len(corpus()))
    assert "the pattern of the map" in found.against


def test_against_no_such_file(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"model": 5}))
    with pytest.raises(MapInvalidError, match="tokenizer"):
        compared(FILES.load("toy"), path)
