"""Splits the reply of a model into statements while it is being written."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from groundwire.answer.evidence import Markup
from groundwire.answer.plain_text import plain_text
from groundwire.kernel.sentences import CJK_STOPS, STOPS, code_spans, split_sentences

_NUMBERS = r"\[\d{1,3}(?:, ?\d{1,3}){0,20}\]"
_MARKER = re.compile(_NUMBERS)
_MARKERS_BEHIND_STOP = re.compile(rf"([{STOPS}{CJK_STOPS}]) ?((?:{_NUMBERS} ?){{1,20}}+)")
_MAY_BE_MARKER = re.compile(rf"(?:{_NUMBERS} ?){{0,20}}+(?:\[[\d, ]{{0,100}})?")
_SPACE_BEFORE_STOP = re.compile(r"(?<=\S) (?=[.,;:!?](?:\s|$))")
# As long as an answer may be. A model in a loop writes no stop, and every piece would be read with all before it.
_MAX_SENTENCE_CHARS = 2000
_FENCE = "```"
_THOUGHT = ("<think>", "</think>")


@dataclass(frozen=True, slots=True)
class WrittenStatement:
    """A sentence of a model, or lines of code, as plain text; `cited` are the numbers that stood in it, in order.

    `separator` is what stands between it and the statement before.
    """

    text: str
    cited: tuple[int, ...]
    separator: str


class StatementReader:
    """Takes the pieces of a reply in order and returns each statement as soon as the next one begins.

    A line break ends a sentence, because models do not break lines within one. Reasoning before the answer, between
    `<think>` and `</think>`, is skipped.
    """

    def __init__(self) -> None:
        self._rest = ""
        self._code: list[str] | None = None
        self._separator = "\n"
        self._has_begun = False

    def feed(self, text: str) -> list[WrittenStatement]:
        """Return the statements that `text` completes."""
        self._rest += text
        if not self._has_begun:
            # The answer begins after the model's reasoning, if there is any.
            opening, closing = _THOUGHT
            begun = self._rest.lstrip()
            if begun.startswith(opening):
                _, end, self._rest = begun.partition(closing)
                if not end:
                    self._rest = begun
                self._has_begun = bool(end)
            else:
                self._has_begun = not opening.startswith(begun)
            if not self._has_begun:
                return []
        *lines, self._rest = self._rest.split("\n")
        found = [statement for line in lines for statement in self._line(line)]
        if self._code is None and not self._rest.lstrip().startswith("`"):
            # Sentences of the unfinished line leave once another one follows them.
            line = _markers_first(self._rest)
            sentences = split_sentences(line)
            last = sentences[-1].start if len(sentences) > 1 else 0
            begun = line[last:]
            # Markers after a stop belong to the sentence before it, and without a letter no new one has surely begun.
            if last and not _MAY_BE_MARKER.fullmatch(begun) and any(map(str.isalnum, begun)):
                self._rest = begun
                found += self._statements(line[:last])
            if len(self._rest) > _MAX_SENTENCE_CHARS:
                rest, self._rest = self._rest, ""
                found += self._statements(_markers_first(rest))
        return found

    def end(self) -> list[WrittenStatement]:
        """Return the remaining statements at the end of the reply."""
        rest, self._rest = self._rest, ""
        if not self._has_begun:
            return []
        found = list(self._line(rest))
        return found if self._code is None else [*found, *self._line(_FENCE)]

    def _line(self, line: str) -> Iterator[WrittenStatement]:
        if line.strip().startswith(_FENCE):
            if self._code is None:
                self._code = []
                return
            code, self._code = "\n".join(self._code), None
            if code.strip():
                yield WrittenStatement(code, (), "\n")
        elif self._code is not None:
            self._code.append(line)
        else:
            yield from self._statements(_markers_first(line))
        self._separator = "\n"

    def _statements(self, text: str) -> Iterator[WrittenStatement]:
        for sentence in split_sentences(text):
            written = text[sentence.start : sentence.end]
            parts, numbers, done = [], [], 0
            for start, end in (*code_spans(written, 0, len(written)), (len(written), len(written))):
                prose = written[done:start]
                numbers += [int(each) for found in _MARKER.findall(prose) for each in found.strip("[]").split(",")]
                parts += [_MARKER.sub("", prose), written[start:end]]
                done = end
            unmarked, cited = "".join(parts), tuple(dict.fromkeys(numbers))
            shown = _SPACE_BEFORE_STOP.sub("", plain_text(unmarked.lstrip("#"), Markup.MARKDOWN))
            if any(map(str.isalnum, shown)):
                yield WrittenStatement(shown, cited, self._separator)
                self._separator = " "


def _markers_first(line: str) -> str:
    """Return the line with each marker moved in front of the preceding stop: `Foxes hunt. [1]` is `Foxes hunt [1].`."""
    return _MARKERS_BEHIND_STOP.sub(lambda found: f" {found[2].rstrip()}{found[1]} ", line)
