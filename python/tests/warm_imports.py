"""What the commands of the tests have in common, imported and loaded once, by warm_process."""

from __future__ import annotations

import gc
from copy import copy

import anyio
import mcp.server.mcpserver  # noqa: F401  for servers of tests
import numpy.ma  # noqa: F401  imported by the first index of tools

from leafgate.cli.main import COMMANDS, load_command
from leafgate.config.models import ConfigFile
from leafgate.maps import files, shelf
from leafgate.meaning import bundled_embedder
from leafgate.model.leaf import digest_of
from leafgate.tokens.encoder import Encoder, make_encoder
from leafgate.tokens.token_map import TokenMap, read_map


def load() -> None:
    """Do what every gateway does at its start."""
    for command, _ in COMMANDS.values():
        load_command(command)
    anyio.run(anyio.sleep, 0, backend_options={"use_uvloop": True})
    bundled_embedder()
    ConfigFile.model_rebuild()
    load_maps()
    gc.freeze()


def load_maps() -> None:
    """Load the checkout's maps. Others, packed ones and those that a test writes, are read where they are used."""
    entries = [entry for entry in files.MapFiles().list() if entry.path.suffix == ".json"]
    loaded = [read_map(entry.path.read_bytes(), where=entry.id) for entry in entries]
    maps = {token_map.digest: token_map for token_map in loaded}
    encoders = {digest: make_encoder(token_map) for digest, token_map in maps.items()}

    def find_or_read(raw: bytes, *, where: str, expected_digest: str | None = None) -> TokenMap:
        found = maps.get(digest_of(raw))
        if found is not None and expected_digest in (None, found.digest):
            return found
        return read_map(raw, where=where, expected_digest=expected_digest)

    def find_or_make(token_map: TokenMap) -> Encoder:
        if token_map.digest not in encoders:
            return make_encoder(token_map)
        encoder = copy(encoders[token_map.digest])
        vars(encoder)["map"] = token_map  # a caller may have added the digests of equal maps
        return encoder

    for module in (files, shelf):
        module.read_map = find_or_read
        module.make_encoder = find_or_make
