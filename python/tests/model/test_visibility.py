"""Which items are seen: globs, exclusions, and the denials of a policy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from routing_catalog import tool

from leafgate.model.rights import CapabilityPolicy, Rule, Visibility

MAIL = tool("send_mail", server="post")
ISSUE = tool("create_issue", server="github", tags=("write",))
PAGE = tool("readme", server="github", kind="resource", id="resource::github:readme#00000000")
ITEMS = (MAIL, ISSUE, PAGE)


def seen(visibility: Visibility) -> set[str]:
    return {item.name for item in ITEMS if visibility.sees(item)}


@pytest.mark.parametrize(
    ("visibility", "names"),
    [
        (Visibility(), {"send_mail", "create_issue", "readme"}),
        (Visibility(include=("post:*",)), {"send_mail"}),
        (Visibility(include=("github:*",)), {"create_issue", "readme"}),
        (Visibility(include=("github:create_issue",)), {"create_issue"}),
        (Visibility(include=("github:create_issue#00000000",)), {"create_issue"}),
        (Visibility(include=("resource::*",)), {"readme"}),
        (Visibility(include=("GitHub:*",)), set()),
        (Visibility(include=("create_issue",)), set()),
        (Visibility(exclude=("github:*",)), {"send_mail"}),
        (Visibility(exclude=("*",)), set()),
        (Visibility(include=("github:*",), exclude=("*:create_*",)), {"readme"}),
        (Visibility(include=("*",), exclude=("resource::*",)), {"send_mail", "create_issue"}),
    ],
)
def test_globs(visibility: Visibility, names: set[str]) -> None:
    assert seen(visibility) == names


def test_what_a_policy_denies_is_hidden_and_what_it_asks_about_is_not() -> None:
    policy = CapabilityPolicy((Rule("deny", namespace="post"), Rule("require_approval", namespace="github")))
    assert seen(Visibility().without_denied(policy, None)) == {"create_issue", "readme"}
    assert Visibility().without_denied(None, "ann") == Visibility()


def test_a_policy_that_says_nothing_of_a_tool_hides_it() -> None:
    assert seen(Visibility().without_denied(CapabilityPolicy(), None)) == {"readme"}


RULES = st.builds(
    Rule,
    st.sampled_from(["allow", "deny", "require_approval"]),
    namespace=st.sampled_from([None, "post", "git*"]),
    principal=st.sampled_from([None, "ann", "*", "b*"]),
)


@given(st.lists(RULES, max_size=6), st.sampled_from([None, "ann", "ben"]), st.sampled_from(ITEMS))
def test_a_policy_spoken_to_somebody_judges_as_it_does(rules: list[Rule], name: str | None, item: object) -> None:
    policy = CapabilityPolicy(tuple(rules))
    assert policy.narrow_to(name).judge(item, None) == policy.judge(item, name)


def test_principals_of_whom_it_says_the_same_share_a_view() -> None:
    policy = CapabilityPolicy((Rule("deny", principal="b*"), Rule("allow")))
    ann, cid, ben = (Visibility().without_denied(policy, name) for name in ("ann", "cid", "ben"))
    assert ann == cid
    assert hash(ann) == hash(cid)
    assert ann != ben
