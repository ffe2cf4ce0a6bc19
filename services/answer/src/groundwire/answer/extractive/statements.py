"""Picks from retrieved passages the sentences that could stand in an answer."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from groundwire.answer.evidence import Passage
from groundwire.answer.extractive.question import Question
from groundwire.answer.extractive.thresholds import MAX_CODE_CHARS, MAX_SENTENCE_CHARS, MIN_SENTENCE_WORDS
from groundwire.answer.words import content_stems, words
from groundwire.kernel.sentences import BlockKind, Sentence, split_sentences


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence of a passage; `position` is its place among the sentences of the passage, from 0."""

    passage: Passage
    sentence: Sentence
    position: int
    text: str
    stems: frozenset[str]


_CAPTION = re.compile(r"(?:Figure|Fig\.|Listing|Table|Filename)\s*[\d:]", re.IGNORECASE)
_TABLE_RULE = re.compile(r"[\s|:+=-]*")
_LINK = re.compile(r"\[[^\[\]]*+\]\([^()]*+\)")
# A quote with `[1]` in it could not be told from the answer's own markers.
_LIKE_A_MARKER = re.compile(r"\[\d+\]")
_DIRECTIVE = re.compile(r"\{\{[^{}]*+\}\}")


def find_candidates(passages: Sequence[Passage], question: Question) -> list[Candidate]:
    """Return the statements of the passages in order; text that several passages share counts once.

    Left out are headings, markup, captions, questions, labels, fragments at the border of a chunk and,
    unless the question asks for code, code.
    """
    found: dict[tuple[str, int, int], Candidate] = {}
    for passage in passages:
        for candidate in _candidates_of(passage, question):
            place = passage.span.start + candidate.sentence.start
            found.setdefault((passage.document_id, passage.generation, place), candidate)
    return list(found.values())


def _candidates_of(passage: Passage, question: Question) -> Iterator[Candidate]:
    content = passage.content
    for position, sentence in enumerate(_with_table_rows(content)):
        text = content[sentence.start : sentence.end]
        if _is_statement(text, sentence, question) and not _is_fragment(content, sentence):
            yield Candidate(passage, sentence, position, text, frozenset(content_stems(text)))


def _with_table_rows(content: str) -> Iterator[Sentence]:
    for sentence in split_sentences(content):
        if sentence.kind is not BlockKind.TABLE:
            yield sentence
            continue
        for row in re.finditer(r"[^\r\n]+", content[sentence.start : sentence.end]):
            if not _TABLE_RULE.fullmatch(row.group()):
                yield Sentence(BlockKind.TABLE, sentence.start + row.start(), sentence.start + row.end())


def _is_statement(text: str, sentence: Sentence, question: Question) -> bool:
    if sentence.kind in {BlockKind.HEADING, BlockKind.MARKUP} or _LIKE_A_MARKER.search(text):
        return False
    if sentence.kind is BlockKind.CODE:
        return question.wants_code and len(text) <= MAX_CODE_CHARS and not _DIRECTIVE.search(text)
    if len(text) > MAX_SENTENCE_CHARS or _CAPTION.match(text):
        return False
    own_words = words(_LINK.sub(" ", text)) if sentence.kind is BlockKind.LIST_ITEM or "](" in text else words(text)
    return len(own_words) >= MIN_SENTENCE_WORDS and not text.rstrip("\"'*_)\u201d\u2019").endswith("?")


def _is_fragment(content: str, sentence: Sentence) -> bool:
    """Tell whether the chunk's border cuts the sentence in two."""
    at_front = not content[: sentence.start].strip() and content[sentence.start].islower()
    at_back = not content[sentence.end :].strip() and content[sentence.end - 1].isalpha()
    return at_front or (at_back and sentence.kind is BlockKind.PROSE and not sentence.begins_block)
