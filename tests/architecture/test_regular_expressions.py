"""No regular expression of ours takes more than linear time, unless the texts it meets are bounded.

Patterns that are put together at run time are not seen here; their texts are bounded where they are used.
"""

import ast
import importlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby, permutations
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined] # the parser of the library itself
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

import groundwire
from tests.growth import LINEAR, growth

_PHRASE = "queries are read as phrases up to MAX_PHRASED_CHARS, titles in them up to 80 characters"
BOUNDED: dict[str, dict[str, str]] = {
    "ingest.chunking.cuts": {"_BLANK_LINE_END.search": "looks at the last 64 characters before a place"},
    "ingest.chunking.splitter": {"_SEAMS.split": "is the `split` of a splitter; seams are matched"},
    "retrieve.queries": dict.fromkeys(("_CODE.fullmatch", "_TITLED.search", "_TAIL.sub"), _PHRASE),
}
"""Patterns that take quadratic time for some texts, by module, and what bounds the texts that they meet."""

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "split")
_CHARACTERS = {codes.CATEGORY_DIGIT: "7", codes.CATEGORY_SPACE: " ", codes.CATEGORY_NOT_WORD: "-"}
_SIZE = 2400
_SUSPICIOUS_S = 0.0015
"""Less than a quadratic search of the size takes, more than a linear one does."""


@dataclass(frozen=True)
class Use:
    """A pattern and one way in which its module applies it."""

    pattern: re.Pattern[Any]
    method: str

    def __call__(self, text: str) -> None:
        subject: Any = text if isinstance(self.pattern.pattern, str) else text.encode()
        if self.method in {"match", "fullmatch"}:
            getattr(self.pattern, self.method)(subject)
        else:
            for _ in self.pattern.finditer(subject):
                pass


def modules() -> list[str]:
    """Return the names of our modules that have regular expressions, without importing them."""
    files = [(root, file) for root in groundwire.__path__ for file in Path(root).rglob("*.py")]
    return sorted(
        {
            ".".join(file.relative_to(root).with_suffix("").parts)
            for root, file in files
            if "api" not in file.parts and re.search(r"^import re$", file.read_text(), re.MULTILINE)
        }
    )


def uses(module: str) -> dict[str, Use]:
    """Return the uses of all patterns of a module, by name and method; of an unknown one, `search` is the worst."""
    found: dict[str, Use] = {}
    imported = importlib.import_module(f"groundwire.{module}")
    source = Path(str(imported.__file__)).read_text()
    patterns = [(name, each) for name, value in vars(imported).items() for each in _patterns_in(value)]
    for name, pattern in [*patterns, *_written_in_calls(source)]:
        if any(use.pattern is pattern for use in found.values()):
            continue  # in a table too
        # Those of a table are applied through a variable.
        for method in _methods(re.escape(name), source) or _methods(r"(?!re\.)[a-z]\w*", source) or ["search"]:
            # It takes as long in whichever way it looks through a text, and is measured once.
            found[f"{name}.{method}"] = Use(pattern, method if "match" in method else "finditer")
    return found


@cache
def _methods(name: str, source: str) -> list[str]:
    return [method for method in _METHODS if re.search(rf"\b{name}\.{method}\(", source)]


def _patterns_in(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _patterns_in(each)
    elif isinstance(value, dict):
        yield from _patterns_in(tuple(value.values()))


def _written_in_calls(source: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method), args=[ast.Constant(value=str(pattern)), *_]
            ) if method != "compile":
                yield f"line {node.lineno}", re.compile(pattern, re.DOTALL)


def pieces(node: Any) -> Iterator[str]:
    """Yield the characters that a parsed pattern speaks of, and the runs of them that it spells out."""
    match node:
        case (codes.LITERAL, code) | (codes.RANGE, (code, _)):
            yield chr(code)
        case (codes.CATEGORY, category):
            yield _CHARACTERS.get(category, "a")
        case list() | tuple() | parser.SubPattern():
            for each in node:
                yield from pieces(each)
            if isinstance(node, parser.SubPattern):
                for is_run, run in groupby(node, key=lambda each: each[0] is codes.LITERAL):
                    if is_run:
                        yield "".join(chr(code) for _, code in run)


def hostile_texts(pattern: re.Pattern[Any]) -> Iterator[Callable[[int], str]]:
    """Yield makers of long texts: one piece again and again, two in turn, and many of one before many of another."""
    spelt = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    found = sorted({*pieces(parser.parse(spelt, pattern.flags & ~re.UNICODE)), "a", " ", "\n"}, key=_strangest_first)
    words, letters = [each for each in found if each.isalnum()], [each for each in found if not each.isalnum()]
    chosen = [*letters[:9], *words[:4]]
    yield from (partial(_repeated, one) for one in chosen)
    for one, other in permutations(chosen, 2):
        yield partial(_repeated, one + other)
        yield partial(_behind, one, other)


def _strangest_first(piece: str) -> tuple[int, str]:
    return (-len(piece), piece)


def _repeated(piece: str, size: int) -> str:
    return piece * (size // len(piece)) + "\0"


def _behind(one: str, other: str, size: int) -> str:
    return one * (size // 2 // len(one)) + _repeated(other, size // 2)


def _seconds(use: Use, text: str) -> float:
    started = time.thread_time()
    use(text)
    return time.thread_time() - started


def test_patterns_are_found_wherever_they_are_written() -> None:
    assert {"kernel.sentences", "answer.question", "kernel.identifiers"} <= {*modules()}
    assert "_STOP.finditer" in uses("kernel.sentences")
    assert "_PATTERNS.search" in uses("answer.question")
    assert any(name.startswith("line ") for name in uses("kernel.identifiers"))


@pytest.mark.parametrize("module", modules())
def test_patterns_take_linear_time(module: str) -> None:
    bounded = BOUNDED.get(module, {})
    found = uses(module)
    assert bounded.keys() <= found.keys()
    slow = {name: _slow_text(use) for name, use in found.items() if name not in bounded}
    assert {name: text for name, text in slow.items() if text} == {}


@cache
def _slow_text(use: Use, size: int = _SIZE) -> str:
    """Return how a text begins for which a pattern takes more than linear time, empty if there seems to be none."""
    for make in hostile_texts(use.pattern):
        seconds = _seconds(use, make(size))
        is_suspicious = seconds > _SUSPICIOUS_S and _seconds(use, make(4 * size)) > LINEAR * seconds
        if is_suspicious and growth(make, use, size) > LINEAR:
            return make(40)
    return ""


@pytest.mark.parametrize("spelt", [r"(`+)(?!`).+?(?<!`)\1(?!`)", r"[.!?]+(?:<!--.*?-->)*(?=\s)", r"\s+$"])
def test_a_pattern_that_takes_quadratic_time_is_recognised(spelt: str) -> None:
    # By texts of half the size already: the whole ones take the worst of these patterns ten seconds.
    assert _slow_text(Use(re.compile(spelt, re.DOTALL), "search"), _SIZE // 2)
