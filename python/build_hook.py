"""Puts the maps into the wheel, without those for tests, with an index, the table of models, and the licences.

They come from the repository's maps/, or from the copy that the sdist carries.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOR_TESTS = "toy"
BESIDE = ("models.json", "LICENCES.md", "LICENCE-Apache-2.0.txt")


class BundledMaps(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        here = Path(self.root)
        maps = next(folder for folder in (here / "maps", here.parent / "maps") if folder.is_dir())
        listed = json.loads((maps / "index.json").read_text())["maps"]
        entries = [entry for entry in listed if not entry["id"].startswith(FOR_TESTS)]
        index = Path(tempfile.mkdtemp()) / "index.json"
        index.write_text(json.dumps({"maps": entries}, indent=2) + "\n")
        build_data["force_include"][str(index)] = "leafgate/maps/index.json"
        for file in (*BESIDE, *(entry["file"] for entry in entries)):
            build_data["force_include"][str(maps / file)] = f"leafgate/maps/{file}"
