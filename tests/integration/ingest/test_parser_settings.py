"""What a document may cost, as the settings of ingest say it."""

import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from groundwire.kernel.document_errors import DocumentLimitError
from tests.conformance.processes import freeze
from tests.integration.ingest.harness import Harness
from tests.unit.ingest.made_files import make_docx, make_pdf

Start = Callable[..., Harness]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running = []

    def started(**settings: Any) -> Harness:
        running.append(Harness(tmp_path, **settings).start())
        running[0].create("sea")
        return running[0]

    yield started
    for each in running:
        each.close()


def limit_of(harness: Harness, source_uri: str, content: str | bytes) -> dict[str, str]:
    """Return what is said of the limit at which a document is refused."""
    with pytest.raises(DocumentLimitError) as refused:
        harness.ingest("sea", source_uri, content)
    return dict(refused.value.metadata)


def test_the_time_of_a_document_is_that_of_its_settings(start: Start) -> None:
    # Two megabytes that take seconds: either default alone would be enough for them.
    slow = ("[" * 40 + "\n") * 50_000
    harness = start(parser_base_s=0.2, parser_s_per_mib=0.1)
    assert limit_of(harness, "slow.md", slow) == {"resource": "time_s", "limit": "0"}


def test_the_memory_of_a_document_is_that_of_its_settings(start: Start) -> None:
    # Four bytes a character, as soon as it is text.
    large = ("\U0001f30a" + "The moon pulls the sea. " * 700_000).encode()
    harness = start(parser_memory_base_mib=64, parser_memory_per_byte=1)
    limit = (64 << 20) + len(large)
    assert limit_of(harness, "large.txt", large) == {"resource": "memory_bytes", "limit": str(limit)}


def test_the_memory_of_a_parser_process_is_that_of_its_setting(start: Start) -> None:
    harness = start(parser_memory_mib=1000)
    harness.ingest("sea", "small.md", "# Small\n\nText.")
    (parser,) = harness.service.parser.process_ids
    limits = Path(f"/proc/{parser}/limits").read_text("ascii").splitlines()
    (hard,) = (line.split()[-2] for line in limits if line.startswith("Max address space"))
    assert hard == str(1000 << 20)


def test_a_parser_that_hangs_is_replaced_after_the_time_of_its_setting(start: Start) -> None:
    harness = start(parser_stall_s=0.3)
    harness.ingest("sea", "one.md", "# One\n\nText.")
    freeze(*harness.service.parser.process_ids)
    began = time.monotonic()
    harness.ingest("sea", "two.md", "# Two\n\nText.")
    assert time.monotonic() - began < 9, "by default it may hang for ten seconds"


@cache
def _large_docx() -> bytes:
    return make_docx("Text. " * 200_000)


@pytest.mark.parametrize(
    ("setting", "value", "make_content", "resource", "limit"),
    [  # made by the test: each worker collects all tests, and the large ones take a second
        ("parser_zip_entries", 2, lambda: make_docx("Text."), "zip_entries", 2),
        ("parser_inflated_mib", 1, _large_docx, "inflated_bytes", 1 << 20),
        ("parser_zip_ratio", 7, _large_docx, "zip_ratio", 7),
        ("parser_pages", 1, lambda: make_pdf(["One.", "Two."]), "pages", 1),
    ],
    ids=["zip_entries", "inflated_mib", "zip_ratio", "pages"],
)
def test_what_a_file_may_hold_is_that_of_its_settings(
    start: Start, setting: str, value: int, make_content: Callable[[], bytes], resource: str, limit: int
) -> None:
    harness = start(**{setting: value})
    assert limit_of(harness, "file", make_content()) == {"resource": resource, "limit": str(limit)}
