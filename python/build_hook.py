"""Puts the one map that exact card budgets need into the wheel, from the repository's maps/ or from the sdist's copy."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MAP = "maps/openai/cl100k_base.json"


class BundledMap(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        here = Path(self.root)
        source = next(p for p in (here / MAP, here.parent / MAP) if p.is_file())
        build_data["force_include"][str(source)] = f"leafgate/{MAP}"
