"""docs/security-figures.md is what the kept security figures make, whichever parts they hold."""

from __future__ import annotations

from security.redaction import generate, is_redacted
from security.run import KEPT, PAGE, PARTS, page, read_kept

from leafgate.clean.redact import redact_json


def test_the_page_is_what_the_kept_figures_make() -> None:
    assert KEPT.is_file()
    assert PAGE.read_text("utf-8") == page(read_kept())


def test_the_page_has_the_sections_that_are_there() -> None:
    section = {
        "date": "2026-11-18",
        "title": "One",
        "method": "How.",
        "headers": ["a"],
        "rows": [["x|y"]],
        "notes": ["z"],
    }
    text = page({PARTS[0]: section})
    assert "## One\n\nMeasured on 2026-11-18. How.\n\n| a |\n| --- |\n| x\\|y |\n\n- z\n" in text
    assert text.count("\n## ") == 1


def test_generated_secrets_are_redacted_and_the_rest_stays() -> None:
    sets = generate(seed=5)
    for name, least in (("tokens of listed kinds", 0.95), ("passwords in context", 0.95)):
        cases = sets[name]
        assert sum(is_redacted(case, redact_json(case.value).value) for case in cases) >= least * len(cases)
    changed = [case.kind for case in sets["must stay"] if redact_json(case.value).value != case.value]
    assert len(changed) <= len(sets["must stay"]) // 50, changed
