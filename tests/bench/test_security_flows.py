"""The benchmark of the flow policy: enough chains, copies are caught, few alarms."""

from __future__ import annotations

from security.flows import attacks, benign, measure

# What a gateway that follows copies cannot see; docs/security.md and spec 3.15 say so.
BEYOND = (
    "paraphrased",
    "translated",
    "summarised",
    "a cipher with a key",
    "rotated by three letters",
    "a short number",
)


def test_chains_are_many_and_have_names_of_their_own() -> None:
    for chains in (attacks(), benign()):
        names = [chain.name for chain in chains]
        assert len(names) == len({*names}) >= 60


def test_attacks_are_refused_and_benign_chains_pass() -> None:
    section = measure()
    (_, number, refused, _), (_, others, alarms, _) = section.rows
    assert int(refused) >= 0.85 * int(number)
    assert int(alarms) <= 0.05 * int(others)
    missed, false_alarms, _ = section.notes
    assert all(name in missed for name in BEYOND)
    assert "own words" not in false_alarms
