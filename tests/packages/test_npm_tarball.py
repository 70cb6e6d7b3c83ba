"""The npm tarball, in an empty folder: what is in it, and what typescript/README.md says about it, run there."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import pytest
from building import ROOT, SECONDS, run
from page_blocks import Block, blocks_of

from leafgate import load_encoder
from leafgate.model.leaf import digest_of

TARBALL_BYTES = 7_000_000  # as docs/install.md says
README = ROOT / "typescript" / "README.md"
BLOCKS = blocks_of(README.read_text(encoding="utf-8"))
COMMANDS = [block for block in BLOCKS if block.kind == "sh" and "mcp-leaf wrap" in block.text]
BUILDING = ROOT / "shared-fixtures" / "build-map" / "build.json"
TEXT = "It is currently 14:30 UTC."
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def script(containing: str) -> str:
    """The README's one js block with this in it."""
    (found,) = [block.text for block in BLOCKS if block.kind == "js" and containing in block.text]
    return found


def in_node(folder: Path, code: str) -> str:
    return run(["node", "--input-type=module", "--eval", code], folder)


def test_what_is_in_it(tarball: Path) -> None:
    with tarfile.open(tarball) as archive:
        names = set(archive.getnames())
    sources = {path.stem for path in (ROOT / "typescript" / "src").glob("*.ts")}
    assert {f"package/dist/src/{name}.js" for name in sources} <= names
    assert {"package/maps/qwen/qwen2.json", "package/maps/index.json", "package/README.md", "package/LICENSE"} <= names
    assert {"package/maps/LICENCES.md", "package/maps/LICENCE-Apache-2.0.txt", "package/maps/corpus.json.gz"} <= names
    assert [name for name in names if "/test" in name or "/examples" in name or "node_modules" in name] == []


def test_its_size_is_as_stated(tarball: Path) -> None:
    assert tarball.stat().st_size < TARBALL_BYTES
    stated = f"below {TARBALL_BYTES // 1_000_000} MB, no dependencies"
    assert stated in (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


def test_it_needs_nothing_else(tarball: Path) -> None:
    with tarfile.open(tarball) as archive:
        file = archive.extractfile("package/package.json")
        assert file is not None
        package = json.load(file)
    wanted = {*package.get("dependencies", {}), *package.get("peerDependencies", {})}
    optional = {name for name, meta in package.get("peerDependenciesMeta", {}).items() if meta.get("optional")}
    assert wanted == optional == {"@modelcontextprotocol/sdk", "@modelcontextprotocol/server"}


def test_its_maps_have_names(node_folder: Path) -> None:
    """A bundler copies the file; the bytes make the tokenizer."""
    code = f"""
        import {{ readFileSync }} from "node:fs";
        import {{ makeMetaTokenizerFromBytes }} from "@codecai/mcp-leaf/portable";
        const file = new URL(import.meta.resolve("@codecai/mcp-leaf/maps/qwen/qwen2.json"));
        const meta = await makeMetaTokenizerFromBytes(readFileSync(file));
        console.log(JSON.stringify([meta.mapId, meta.encode({TEXT!r})]));
    """
    encoder = load_encoder("qwen/qwen2")
    assert json.loads(in_node(node_folder, code)) == [encoder.map.digest, [*encoder.encode(TEXT)]]


def test_the_quick_start(node_folder: Path) -> None:
    """Its first block prints its second."""
    shown = next(block.text for block in BLOCKS if block.kind == "json")
    printed = in_node(node_folder, script("// once, when the server starts"))
    assert json.loads(printed) == json.loads(shown)


def test_wrap_server(node_folder: Path) -> None:
    code = f"""
        import {{ makeMetaTokenizer, wrapServer, takeIds }} from "@codecai/mcp-leaf";
        import {{ McpServer }} from "@modelcontextprotocol/sdk/server/mcp.js";
        import {{ Client }} from "@modelcontextprotocol/sdk/client/index.js";
        import {{ InMemoryTransport }} from "@modelcontextprotocol/sdk/inMemory.js";
        const meta = await makeMetaTokenizer({{ mapUrl: "qwen/qwen2" }});
        const server = new McpServer({{ name: "time", version: "1" }});
        server.registerTool("now", {{}}, () => ({{ content: [{{ type: "text", text: {TEXT!r} }}] }}));
        {script("wrapServer(server, meta)")}
        const [here, there] = InMemoryTransport.createLinkedPair();
        const client = new Client({{ name: "test", version: "1" }});
        await Promise.all([server.connect(there), client.connect(here)]);
        console.log(JSON.stringify(takeIds(await client.callTool({{ name: "now" }}))));
        await client.close();
    """
    assert json.loads(in_node(node_folder, code)) == [[2132, 374, 5023, 220, 16, 19, 25, 18, 15, 27403, 13]]


@pytest.mark.parametrize("block", COMMANDS, ids=lambda block: f"line {block.line}")
def test_its_commands(block: Block, node_folder: Path) -> None:
    """Each wraps a server on stdio: it answers, its text has ids, and it ends when the client leaves."""
    said = [
        {"id": 1, "method": "initialize", "params": HELLO},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {"message": "hello"}}},
    ]
    process = subprocess.Popen(
        ["bash", "-c", f"exec {block.text}"], cwd=node_folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        for message in said:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()
        answer = next(found for line in process.stdout if (found := json.loads(line)).get("id") == 2)
        process.stdin.close()
        assert process.wait(SECONDS) == 0
    (content,) = answer["result"]["content"]
    assert "hello" in content["text"]
    expected = load_encoder("qwen/qwen2").encode(content["text"])
    assert content["_meta"]["ai.codec/leaf-tokenization"]["ids"] == [*expected]


def test_building_and_checking(node_folder: Path) -> None:
    """Both commands; the second says what it needs, and then compares."""
    (block,) = [block for block in BLOCKS if block.kind == "sh" and "maps build" in block.text]
    building, checking = block.text.splitlines()
    case = json.loads(BUILDING.read_text(encoding="utf-8"))["cases"][0]
    (node_folder / "tokenizer.json").write_text(json.dumps(case["input"]["json"]))
    run(["bash", "-c", building], node_folder)
    raw = (node_folder / "mine.json").read_bytes()
    assert digest_of(raw) == case["expect"]["map_id"]
    alone = subprocess.run(["bash", "-c", checking], cwd=node_folder, capture_output=True, text=True, check=False)
    assert (alone.returncode, alone.stdout) == (2, "")
    assert "npm install --no-save tokenizers" in alone.stderr
    engine = node_folder / "node_modules" / "tokenizers"
    engine.symlink_to(ROOT / "typescript" / "node_modules" / "tokenizers")
    assert "0 differences on 2360 texts with tokenizers " in run(["bash", "-c", checking], node_folder)
    engine.unlink()


def test_the_client(node_folder: Path, url: str) -> None:
    """`/client`, against the wheel's gateway, with the map that both packages carry."""
    code = script("@codecai/mcp-leaf/client").replace("time:get_current_time#…", "notes:search_notes#2d0608c7")
    code = code.replace("what time is it", "search notes").replace("qwen/qwen2", "openai/cl100k_base")
    code = code.replace(", {}, { onProgress", ', { query: "rye", limit: 1 }, { onProgress')
    code = code.replace("http://127.0.0.1:8808", url)
    printed = in_node(node_folder, f"{code}\nconsole.log(JSON.stringify([texts, answer.texts, answer.ids]));")
    texts, answered, ids = json.loads(printed.splitlines()[-1])
    assert "notes:search_notes" in texts[0]
    assert answered[0].startswith("1: On day 1 we ordered a rye loaf")
    assert ids[0] == [*load_encoder("openai/cl100k_base").encode(answered[0])]
