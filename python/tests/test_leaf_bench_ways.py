from leafgate.cli.leaf_bench.ways import FAST_CANONICAL, FAST_SHIM, WAYS, servers_of, ways_with


def test_every_way_has_a_name_of_its_own() -> None:
    assert len({way.key for way in WAYS}) == len({way.title for way in WAYS}) == len(WAYS)


def test_without_the_faster_tokenizer_its_ways_are_left_out() -> None:
    assert {*WAYS} - {*ways_with(frozenset({"tiktoken"}))} == {FAST_SHIM, FAST_CANONICAL}
    assert ways_with(frozenset({"tiktoken", "accelerated"})) == WAYS


def test_each_gateway_has_the_servers_of_its_ways_once() -> None:
    assert sorted(servers_of("tiktoken")) == ["canonical", "decode", "plain", "trust"]
    assert sorted(servers_of("accelerated")) == ["canonical", "plain"]
