from xml.etree import ElementTree

from leaf_bench_samples import figures, weights

from leafgate.cli.leaf_bench.charts import draw_charts
from leafgate.cli.leaf_bench.ways import WAYS


def texts(drawn: str) -> list[str]:
    root = ElementTree.fromstring(drawn)
    return [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]


def test_the_cpu_of_both_processes_is_drawn_for_every_way() -> None:
    shown = texts(draw_charts(figures(leaf_decode=2.0), weights())["leaf-cpu.svg"])
    assert {way.title for way in WAYS} <= {*shown}
    assert shown[shown.index("leaf-decode") + 1] == "3.0 ms"


def test_ratios_are_drawn_for_every_size() -> None:
    shown = texts(draw_charts(figures(100, 1024, leaf_decode=2.0), weights(100, 1024))["leaf-sizes.svg"])
    assert shown.count("leaf-decode") == shown.count("0.50x") == 2
    assert "shim (tiktoken)" not in shown  # it is what the others are measured by
    assert {"100 B", "1 KB"} <= {*shown}


def test_bytes_are_drawn_for_every_form_and_format() -> None:
    shown = texts(draw_charts(figures(), weights(both_json=3000))["leaf-bytes.svg"])
    assert shown[shown.index("text and ids") + 1 :][:2] == ["json", "3.00x"]
    assert shown.count("msgpack+zstd") == 3


def test_the_description_tells_what_is_drawn() -> None:
    for drawn in draw_charts(figures(leaf_decode=2.0), weights()).values():
        told = ElementTree.fromstring(drawn).findtext("{http://www.w3.org/2000/svg}desc") or ""
        assert "leaf-decode" in told or "msgpack" in told
