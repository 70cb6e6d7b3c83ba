"""Puts the one map that exact card budgets need into the wheel, with an index of its own, and the table of models.

They come from the repository's maps/, or from the copy that the sdist carries.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUNDLED = "openai/cl100k_base"


class BundledMap(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        here = Path(self.root)
        maps = next(folder for folder in (here / "maps", here.parent / "maps") if folder.is_dir())
        listed = json.loads((maps / "index.json").read_text())["maps"]
        entries = [entry for entry in listed if entry["id"] == BUNDLED]
        index = Path(tempfile.mkdtemp()) / "index.json"
        index.write_text(json.dumps({"maps": entries}, indent=2) + "\n")
        build_data["force_include"][str(index)] = "leafgate/maps/index.json"
        build_data["force_include"][str(maps / "models.json")] = "leafgate/maps/models.json"
        for entry in entries:
            build_data["force_include"][str(maps / entry["file"])] = f"leafgate/maps/{entry['file']}"
