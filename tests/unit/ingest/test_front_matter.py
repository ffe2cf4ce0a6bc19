"""Front matter: what is read from it, and where it ends."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.ingest.parsing.source_text import SourceProperties, filled_from_source, following_source
from groundwire.ingest.parsing.text_readers import FrontMatter, read_front_matter
from groundwire.ingest.wire.fields import parse_fields
from groundwire.kernel.document import DocumentFields
from groundwire.rpc.messages import to_fields_message

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
KEYS = ("title", "author", "subjects", "description", "date", "lang", "category", "tags", "project")
TAGS = tuple(f"t{number}" for number in range(64))


def fields_of(text: str) -> DocumentFields:
    return read_front_matter(text).properties.fields


def test_fields_are_read() -> None:
    found = read_front_matter(BLOCK + "# Tides\n")
    assert found == FrontMatter(
        len(BLOCK),
        SourceProperties(
            DocumentFields(
                title="On: Tides",
                creators=("Ada", "Grace"),
                tags=("moon", "sea"),
                date_created=datetime(2024, 5, 1, tzinfo=UTC),
                language="en",
            )
        ),
    )


def test_the_end_is_right_with_returns() -> None:
    text = BLOCK.replace("\n", "\r\n") + "# Tides\r\n"
    assert text[read_front_matter(text).end :] == "# Tides\r\n"
    assert fields_of(text).title == "On: Tides"


def test_a_rule_at_the_top_is_no_front_matter() -> None:
    assert read_front_matter("---\n\nSome text.\n\n---\n\nMore.\n") == FrontMatter()


def test_a_block_that_does_not_end_is_no_front_matter() -> None:
    assert read_front_matter("---\ntitle: x\n# Heading\n") == FrontMatter()


def test_unreadable_values_are_left_out_and_counted() -> None:
    found = read_front_matter("---\ntitle:\ndate: yesterday\nlang: english\ntags: [a, ' ']\n---\n").properties
    assert found == SourceProperties(DocumentFields(tags=("a",)), ignored=2)


@pytest.mark.parametrize(
    ("line", "fields", "ignored"),
    [
        ("language: xx", DocumentFields(), 1),
        ("language: de-AT", DocumentFields(language="de"), 0),
        (f"title: {'t' * 5000}", DocumentFields(title="t" * 1024), 1),
        (f"description: {'d' * 9000}", DocumentFields(description="d" * 8192), 1),
        ("title: bell \x07 rings", DocumentFields(), 1),
        (f"tags: [{', '.join(f't{number}' for number in range(70))}]", DocumentFields(tags=TAGS), 6),
        ("date: 0001-01-01T00:00:00+14:00", DocumentFields(), 1),
        ("date: 9999-12-31T23:59:59-14:00", DocumentFields(), 1),
        ("date: 0001-01-01", DocumentFields(date_created=datetime(1, 1, 1, tzinfo=UTC)), 0),
    ],
)
def test_values_keep_the_rules_for_values_in_requests(line: str, fields: DocumentFields, ignored: int) -> None:
    found = read_front_matter(f"---\n{line}\n---\nText.\n").properties
    assert found == SourceProperties(fields, ignored)
    assert sum(found.warnings.values()) == ignored


@pytest.mark.parametrize(
    ("lines", "fields", "ignored"),
    [
        ("description: >-\n  Rise\n  and fall", DocumentFields(description="Rise and fall"), 0),
        ("description: |\n  Rise\n  and fall", DocumentFields(description="Rise and fall"), 0),
        ('title: "The \\"tide\\""', DocumentFields(title='The "tide"'), 0),
        ("title: 'The moon''s'", DocumentFields(title="The moon's"), 0),
        ("title: Tides  # a draft", DocumentFields(title="Tides"), 0),
        ("tags:\n- 1.10\n- no\n- 2024-05-01", DocumentFields(tags=("1.10", "no", "2024-05-01")), 0),
        ('authors: ["Lin, Ada", Grace]', DocumentFields(creators=("Lin, Ada", "Grace")), 0),
        ("authors:\n- name: Ada\n  email: a@x.org\n- Grace", DocumentFields(creators=("Ada", "Grace")), 0),
        ("authors:\n- email: a@x.org\n- Grace", DocumentFields(creators=("Grace",)), 1),
        ("authors:\n- name: [Ada]\n- Grace", DocumentFields(creators=("Grace",)), 1),
        ("title: {of: tides}", DocumentFields(), 1),
        ("unknown: {of: [tides]}", DocumentFields(), 0),
    ],
)
def test_values_are_those_of_yaml(lines: str, fields: DocumentFields, ignored: int) -> None:
    assert read_front_matter(f"---\n{lines}\n---\n").properties == SourceProperties(fields, ignored)


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("title: Tides: a study", "Tides: a study"),
        ("title: [Draft] Tides", "[Draft] Tides"),
        ("title: @tides", "@tides"),
        ("title: *Tides*", "*Tides*"),
        (r'title: "\U00110000"', r'"\U00110000"'),
        ("title: " + "[" * 20_000, "[" * 1024),
    ],
)
def test_an_entry_that_is_no_yaml_is_the_rest_of_its_line_and_costs_no_other(line: str, title: str) -> None:
    found = fields_of(f"---\ncategory: essay\n{line}\ntags: [moon]\n---\n")
    assert (found.title, found.category, found.tags) == (title, "essay", ("moon",))


@pytest.mark.parametrize("lines", ["a: b\n" * 12_000, "title: x\n" * 6_000, "tags: [" + "[], " * 15_000 + "]\n"])
def test_a_hostile_block_takes_little_time(lines: str) -> None:
    started = time.process_time()
    assert read_front_matter(f"---\n{lines}---\n").end > len(lines)
    assert time.process_time() - started < 5


LONG = "<long>"  # in place of what it stands for, which is too long for hypothesis to show
VALUES = st.text(max_size=40) | st.datetimes().map(str) | st.just(LONG)


@given(st.lists(st.tuples(st.sampled_from(KEYS), VALUES), max_size=12))
def test_whatever_front_matter_says_a_request_could_have_said(pairs: list[tuple[str, str]]) -> None:
    block = "\n".join(f"{key}: {'x' * 9000 if value == LONG else value}" for key, value in pairs)
    fields = fields_of(f"---\nkey: value\n{block}\n---\n")
    assert parse_fields(to_fields_message(fields)) == fields


def test_what_the_caller_states_wins() -> None:
    fields = filled_from_source(DocumentFields(title="Mine"), fields_of(BLOCK))
    assert (fields.title, fields.creators, fields.tags) == ("Mine", ("Ada", "Grace"), ("moon", "sea"))


def test_stored_fields_follow_the_front_matter_they_came_from() -> None:
    before = fields_of(BLOCK)
    stored = filled_from_source(DocumentFields(category="essay", creators=("Lin",)), before)
    now = fields_of(BLOCK.replace("Tides", "Moons").replace("2024-05-01", ""))
    kept = following_source(stored, before, now)
    assert (kept.title, kept.date_created, kept.category, kept.creators) == ("On: Moons", None, "essay", ("Lin",))
