"""Comments that answer for a finding, and comments that do not count."""

from __future__ import annotations

import pytest

from standfast.scan.scanner import scan

BEFORE = "import asyncio\n\n\nasync def send(): ...\n\n\nasync def main():\n"


@pytest.fixture
def rules_found(tmp_path):
    def found(body: str) -> tuple[list[str], int]:
        file = tmp_path / "app.py"
        file.write_text(BEFORE + body)
        result = scan([file])
        return sorted(each.rule for each in result.findings), result.ignored

    return found


def test_a_comment_with_a_rule_and_a_reason_counts(rules_found):
    body = "    asyncio.create_task(send())  # standfast: ignore[dangling-task] restarted every minute\n"
    assert rules_found(body) == ([], 1)


def test_a_comment_may_stand_above_the_line(rules_found):
    body = "    # standfast: ignore[dangling-task] restarted every minute\n    asyncio.create_task(send())\n"
    assert rules_found(body) == ([], 1)


def test_a_comment_may_stand_at_the_end_of_a_statement_of_several_lines(rules_found):
    body = "    asyncio.create_task(\n        send()\n    )  # standfast: ignore[dangling-task] restarted\n"
    assert rules_found(body) == ([], 1)


def test_several_rules_may_be_named(rules_found):
    body = "    asyncio.create_task(send())  # standfast: ignore[future-dropped, dangling-task] restarted\n"
    assert rules_found(body) == ([], 1)


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa: RUF006  # standfast: ignore[dangling-task] restarted every minute",
        "# noqa: RUF006 # type: ignore[x] #standfast: ignore[dangling-task] see #12",
        "# standfast: ignore[dangling-task] restarted every minute  # noqa: RUF006",
        "# standfast: ignore[dangling-task] restarted # standfast: ignore[dangling-task] every minute",
    ],
)
def test_a_comment_may_stand_with_others_on_one_line(rules_found, comment):
    found, ignored = rules_found(f"    asyncio.create_task(send())  {comment}\n")
    assert ("dangling-task" in found, ignored) == (False, 1)
    assert found == ["ignore-unused"] * (comment.count("ignore[dangling-task]") - 1)


def test_a_comment_behind_it_is_no_reason(rules_found):
    body = "    asyncio.create_task(send())  # standfast: ignore[dangling-task]  # noqa: RUF006\n"
    assert rules_found(body) == (["dangling-task", "ignore-without-reason"], 0)


@pytest.mark.parametrize(
    "comment",
    [
        "ignore[dangling-task]",
        "ignore[dangling-task] -",
        "ignore[no-such-rule] because it is fine",
        "ignore because it is fine",
        "ignore[] because it is fine",
    ],
)
def test_a_comment_without_a_rule_or_a_reason_does_not_count_and_is_said(rules_found, comment):
    body = f"    asyncio.create_task(send())  # standfast: {comment}\n"
    assert rules_found(body) == (["dangling-task", "ignore-without-reason"], 0)


def test_a_comment_for_another_rule_does_not_count(rules_found):
    body = "    asyncio.create_task(send())  # standfast: ignore[future-dropped] never fails\n"
    assert rules_found(body) == (["dangling-task", "ignore-unused"], 0)


def test_a_comment_with_nothing_to_ignore_is_said(rules_found):
    assert rules_found("    await send()  # standfast: ignore[dangling-task] old\n") == (["ignore-unused"], 0)


def test_text_in_a_string_is_no_comment(rules_found):
    body = '    asyncio.create_task(send()); print("# standfast: ignore[dangling-task] a text")\n'
    assert rules_found(body) == (["dangling-task"], 0)
