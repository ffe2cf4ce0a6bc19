"""The parser processes: what they refuse, how they die, who waits, and that the next document goes on."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from groundwire.embedders.hashing import HashingEmbedder
from groundwire.ingest.parsing import parser_pool
from groundwire.ingest.parsing.parsed_document import Original, ParseRules, rules_from_message
from groundwire.ingest.parsing.parser_pool import QUICK_BYTES, ParserLimits, ParserPool, ParserProcess
from groundwire.ingest.parsing.parser_worker import parse_document
from groundwire.ingest.parsing.source_text import ReadingLimits
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import PROFILES, ProfileName
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import DocumentEncodingError, EmptyDocumentError
from groundwire.kernel.errors import (
    CallCancelledError,
    DeadlineError,
    InvalidRequestError,
    UnavailableError,
)
from tests.conformance.processes import freeze, is_running

TOKENIZER = HashingEmbedder(8).tokenizer
RULES = ParseRules(DocumentFormat.MARKDOWN, PROFILES[ProfileName.DOCUMENTS].chunking, "Title", "file.md", "content")
TEXT = "# Tides\n\n" + "The moon pulls the sea. \U0001f30a " * 2000
SLOW = ("[" * 40 + "\n") * 200_000


def original(text: str | bytes) -> Original:
    data = text.encode() if isinstance(text, str) else text
    return Original(len(data), data)


@pytest.fixture(scope="module")
def parser() -> Iterator[ParserProcess]:
    running = ParserProcess(TOKENIZER.definition, ParserLimits())
    yield running
    running.close()


def test_it_finds_what_the_rules_find_here(parser: ParserProcess, tmp_path: Path) -> None:
    here = parse_document(TEXT.encode(), RULES, ReadingLimits(), TOKENIZER)
    assert here.text == TEXT
    assert len(here.chunks) > 10
    assert parser.parse(original(TEXT), RULES, Budget()) == here
    (tmp_path / "file").write_bytes(TEXT.encode())
    spooled = Original(len(TEXT.encode()), path=tmp_path / "file")
    assert parser.parse(spooled, RULES, Budget()) == here


def test_rules_survive_the_journey() -> None:
    assert rules_from_message(asdict(RULES)) == RULES


def test_refusals_keep_their_type_field_and_facts(parser: ParserProcess) -> None:
    with pytest.raises(EmptyDocumentError):
        parser.parse(original(b""), RULES, Budget())
    with pytest.raises(DocumentEncodingError) as caught:
        parser.parse(original(b"tr\xe8s"), RULES, Budget())
    assert caught.value.metadata == {"offset": "2"}
    assert caught.value.violations[0].field == "content"


def test_a_document_that_takes_too_long_is_refused_and_the_next_one_goes_on() -> None:
    parser = ParserProcess(TOKENIZER.definition, ParserLimits(base_s=0.6, s_per_mib=0.0))
    try:
        parser.parse(original("# Small\n\nText."), RULES, Budget())
        with pytest.raises(InvalidRequestError) as caught:
            parser.parse(original(SLOW), RULES, Budget())
        assert caught.value.violations[0].field == "content"
    finally:
        parser.close()
    parser = ParserProcess(TOKENIZER.definition, ParserLimits())
    assert parser.parse(original("# Small\n\nText."), RULES, Budget()).chunks
    parser.close()


def test_a_document_that_takes_too_much_memory_is_refused_and_the_next_one_goes_on() -> None:
    parser = ParserProcess(TOKENIZER.definition, ParserLimits(memory_bytes=200 << 20))
    try:
        with pytest.raises(InvalidRequestError) as caught:
            parser.parse(original("- a\n\n" * 200_000), RULES, Budget())
        assert caught.value.violations[0].field == "content"
        assert parser.parse(original("# Small\n\nText."), RULES, Budget()).chunks
    finally:
        parser.close()


def test_a_parser_that_was_killed_is_started_again(parser: ParserProcess) -> None:
    parser.parse(original("# Small\n\nText."), RULES, Budget())
    assert parser.process_id is not None
    os.kill(parser.process_id, signal.SIGKILL)
    assert parser.parse(original("# Small\n\nText."), RULES, Budget()).chunks


def test_a_parser_killed_in_the_middle_gets_the_document_again(parser: ParserProcess) -> None:
    parser.parse(original("# Small\n\nText."), RULES, Budget())
    first = parser.process_id
    assert first is not None
    threading.Timer(0.3, os.kill, (first, signal.SIGKILL)).start()
    parsed = parser.parse(original("word " * 400_000), RULES, Budget())
    assert parser.process_id != first
    assert len(parsed.chunks) > 400


@pytest.mark.parametrize("error", [CallCancelledError, DeadlineError])
def test_a_caller_that_leaves_does_not_wait(parser: ParserProcess, error: type[Exception]) -> None:
    budget = Budget(0.3 if error is DeadlineError else None)
    if error is CallCancelledError:
        threading.Timer(0.3, budget.cancel).start()
    started = time.monotonic()
    with pytest.raises(error):
        parser.parse(original(SLOW), RULES, budget)
    assert time.monotonic() - started < 20
    assert parser.parse(original("# Small\n\nText."), RULES, Budget()).chunks


@pytest.mark.parametrize("text", [SLOW, SLOW[: QUICK_BYTES - 1]], ids=["large", "small and slow"])
def test_an_ordinary_document_does_not_wait_for_costly_ones(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser_pool, "QUICK_CPU_S", 0.3)  # a tenth of what the slow ones take
    pool = ParserPool(TOKENIZER.definition, ParserLimits(), processes=3)
    budget = Budget()
    ends: list[type[Exception]] = []

    def parse_slow() -> None:
        try:
            pool.parse(original(text), RULES, budget)
        except CallCancelledError as error:
            ends.append(type(error))

    slow = [threading.Thread(target=parse_slow) for _ in range(6)]
    for thread in slow:
        thread.start()
    try:
        time.sleep(1.0)
        assert pool.parse(original("# Small\n\nText."), RULES, Budget()).chunks
        # A small document that is slow keeps a process for a moment only before it has to wait its turn.
        assert sum(thread.is_alive() for thread in slow) >= 4
    finally:
        budget.cancel()
        for thread in slow:
            thread.join()
        pool.close()
    assert ends


def test_documents_wait_for_a_process_no_longer_than_their_budget() -> None:
    pool = ParserPool(TOKENIZER.definition, ParserLimits(), processes=2)
    budget = Budget()

    def parse_slow() -> None:
        with contextlib.suppress(CallCancelledError):
            pool.parse(original(SLOW), RULES, budget)

    slow = threading.Thread(target=parse_slow)
    slow.start()
    try:
        time.sleep(0.5)
        with pytest.raises(DeadlineError):
            pool.parse(original(SLOW), RULES, Budget(0.3))
        assert len(pool.process_ids) == 1  # the other one is left for small documents
    finally:
        budget.cancel()
        slow.join()
        pool.close()


def test_a_closed_pool_ends_those_who_wait() -> None:
    pool = ParserPool(TOKENIZER.definition, ParserLimits(), processes=2)
    ends: list[Exception] = []

    def parse_slow() -> None:
        try:
            pool.parse(original(SLOW), RULES, Budget())
        except UnavailableError as error:
            ends.append(error)

    slow = [threading.Thread(target=parse_slow) for _ in range(4)]
    for thread in slow:
        thread.start()
    time.sleep(0.5)
    pool.close()
    for thread in slow:
        thread.join(60)
    assert len(ends) == 4
    assert pool.process_ids == []


@pytest.mark.parametrize("script", ["raise SystemExit(3)", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_parser_that_does_not_start_is_not_blamed_on_the_document(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str
) -> None:
    (tmp_path / "broken_parser.py").write_text(script)
    parser = ParserProcess(TOKENIZER.definition, ParserLimits())
    try:
        with monkeypatch.context() as broken:
            broken.syspath_prepend(tmp_path)
            broken.setattr(parser_pool, "_MODULE", "broken_parser")
            with pytest.raises(UnavailableError, match="cannot be started"):
                parser.parse(original("# Small\n\nText."), RULES, Budget())
        assert parser.parse(original("# Small\n\nText."), RULES, Budget()).chunks
    finally:
        parser.close()


def test_a_parser_that_cannot_be_forked_is_not_blamed_on_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = ParserProcess(TOKENIZER.definition, ParserLimits())
    try:
        with monkeypatch.context() as broken:
            broken.setattr(sys, "executable", "/nowhere/python")
            parser.start()
            with pytest.raises(UnavailableError, match="cannot be started"):
                parser.parse(original("# Small\n\nText."), RULES, Budget())
        assert parser.parse(original("# Small\n\nText."), RULES, Budget()).chunks
    finally:
        parser.close()


def test_a_parser_that_hangs_is_replaced_and_the_document_read() -> None:
    parser = ParserProcess(TOKENIZER.definition, ParserLimits(stall_s=0.5))
    try:
        parser.parse(original("# Small\n\nText."), RULES, Budget())
        first = parser.process_id
        assert first is not None
        freeze(first)
        assert parser.parse(original("# Small\n\nText."), RULES, Budget()).chunks
        assert parser.process_id not in {first, None}
    finally:
        parser.close()


def test_parsers_that_hang_each_time_are_not_blamed_on_the_document() -> None:
    parser = ParserProcess(TOKENIZER.definition, ParserLimits(stall_s=0.5))
    stop = threading.Event()

    def stop_them() -> None:
        while not stop.wait(0.05):
            if parser._is_ready and parser.process_id is not None:  # one that never starts is another fault
                with contextlib.suppress(ProcessLookupError):
                    freeze(parser.process_id)

    parser.parse(original("# Small\n\nText."), RULES, Budget())
    attacker = threading.Thread(target=stop_them)
    attacker.start()
    try:
        with pytest.raises((UnavailableError, DeadlineError)):
            parser.parse(original("word " * 400_000), RULES, Budget(20))
    finally:
        stop.set()
        attacker.join()
        parser.close()


def test_a_closed_parser_says_so() -> None:
    parser = ParserProcess(TOKENIZER.definition, ParserLimits())
    parser.start()
    parser.close()
    assert parser.process_id is None
    with pytest.raises(UnavailableError):
        parser.parse(original("# Small\n\nText."), RULES, Budget())


def test_the_process_ends_with_its_parent(tmp_path: Path) -> None:
    script = (
        "import sys, time\n"
        f"sys.path[:] = {sys.path!r}\n"
        "from groundwire.embedders.hashing import HashingEmbedder\n"
        "from groundwire.ingest.parsing.parser_pool import ParserLimits, ParserProcess\n"
        "parser = ParserProcess(HashingEmbedder(8).tokenizer.definition, ParserLimits())\n"
        "parser.start()\n"
        "print(parser.process_id, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(child)


def test_the_process_loads_neither_models_nor_the_transport() -> None:
    script = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "import groundwire.ingest.parsing.parser_worker\n"
        "print(sorted({name.split('.')[0] for name in sys.modules}))\n"
    )
    loaded = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True).stdout
    for heavy in ("torch", "grpc", "google", "sqlalchemy", "transformers", "pydantic", "structlog"):
        assert f"'{heavy}'" not in loaded


def test_a_start_does_not_wait_for_the_process_to_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "slow_parser.py").write_text("import time; time.sleep(60)")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(parser_pool, "_MODULE", "slow_parser")
    # Longer than what a socket takes while nobody reads.
    definition = replace(TOKENIZER.definition, content="x" * (8 << 20))
    parser = ParserProcess(definition, ParserLimits())
    starting = threading.Thread(target=parser.start, daemon=True)
    starting.start()
    starting.join(20)
    is_waiting = starting.is_alive()
    parser.close()
    assert not is_waiting
