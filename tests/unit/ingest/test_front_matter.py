"""Front matter: what is read from it, and where it ends."""

from datetime import UTC, datetime

from groundwire.ingest.domain.document_fields import kept_fields, stated_fields
from groundwire.ingest.domain.front_matter import FrontMatter, fields_of, read_front_matter
from groundwire.kernel.document import DocumentFields

BLOCK = """---
title: "On: Tides"
author: [Ada, 'Grace']
tags:
  - moon
  - sea
  - moon
date: 2024-05-01
lang: EN
unknown:
  nested: value
---
"""


def test_fields_are_read() -> None:
    found = read_front_matter(BLOCK + "# Tides\n")
    assert found == FrontMatter(
        end=len(BLOCK),
        title="On: Tides",
        creators=("Ada", "Grace"),
        tags=("moon", "sea"),
        date_created=datetime(2024, 5, 1, tzinfo=UTC),
        language="en",
    )


def test_the_end_is_right_with_returns() -> None:
    text = BLOCK.replace("\n", "\r\n") + "# Tides\r\n"
    assert text[read_front_matter(text).end :] == "# Tides\r\n"
    assert read_front_matter(text).title == "On: Tides"


def test_a_rule_at_the_top_is_no_front_matter() -> None:
    assert read_front_matter("---\n\nSome text.\n\n---\n\nMore.\n") == FrontMatter()


def test_a_block_that_does_not_end_is_no_front_matter() -> None:
    assert read_front_matter("---\ntitle: x\n# Heading\n") == FrontMatter()


def test_unreadable_values_are_left_out() -> None:
    found = read_front_matter("---\ntitle:\ndate: yesterday\nlang: english\ntags: [a, ' ']\n---\n")
    assert (found.title, found.date_created, found.language, found.tags) == (None, None, None, ("a",))


def test_what_the_caller_states_wins() -> None:
    fields = stated_fields(DocumentFields(title="Mine"), fields_of(read_front_matter(BLOCK)))
    assert (fields.title, fields.creators, fields.tags) == ("Mine", ("Ada", "Grace"), ("moon", "sea"))


def test_stored_fields_follow_the_front_matter_they_came_from() -> None:
    before = fields_of(read_front_matter(BLOCK))
    stored = stated_fields(DocumentFields(category="essay", creators=("Lin",)), before)
    now = fields_of(read_front_matter(BLOCK.replace("Tides", "Moons").replace("2024-05-01", "")))
    kept = kept_fields(stored, before, now)
    assert (kept.title, kept.date_created, kept.category, kept.creators) == ("On: Moons", None, "essay", ("Lin",))
