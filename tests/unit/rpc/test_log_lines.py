"""Lines of the log that one thread writes."""

import io
import os
import threading
import time

from groundwire.rpc.logs import LineLogger


def test_ordinary_lines_are_written_together_soon_after() -> None:
    file = io.StringIO()
    logger = LineLogger(file)

    logger.info("one")
    logger.debug("two")

    deadline = time.monotonic() + 10
    while file.getvalue() != "one\ntwo\n" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert file.getvalue() == "one\ntwo\n"


def test_lines_keep_their_order() -> None:
    file = io.StringIO()
    logger = LineLogger(file)

    logger.info("before")
    logger.warning("careful")
    logger.info("after")

    assert logger.flush(10)
    assert file.getvalue() == "before\ncareful\nafter\n"


def test_a_file_that_takes_nothing_any_more_stops_nobody() -> None:
    file = io.StringIO()
    logger = LineLogger(file)
    file.close()

    logger.info("lost")
    logger.warning("lost as well")
    assert logger.flush(10)


def test_a_pipe_that_nobody_reads_holds_nobody_up_and_lost_lines_are_counted() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w", encoding="utf-8") as file, os.fdopen(read_end, "rb") as reader:
        logger = LineLogger(file)
        line = "x" * 1023
        for _ in range(200):  # 200 kB: more than the pipe holds, so that the thread is in the middle of a write
            logger.warning(line)
        assert not logger.flush(0.5), "nobody reads"

        def log() -> None:
            for _ in range(6000):  # 6 MB: more than a pipe holds and the logger keeps
                logger.warning(line)

        thread = threading.Thread(target=log, daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()

        written = b""
        while not written.endswith(b"dropped\n"):
            written += reader.read1(1 << 20)
        assert logger.flush(10)
        *lines, told, end = written.split(b"\n")
        assert end == b""
        assert set(lines) == {line.encode()}
        assert 4000 < len(lines) < 6200
        assert told == f"{6200 - len(lines)} log lines dropped".encode()
