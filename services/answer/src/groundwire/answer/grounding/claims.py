"""Splits a text into claims, and separates those that need a source from those that do not."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from groundwire.answer.evidence import Markup
from groundwire.answer.plain_text import TABLE_RULE, plain_text
from groundwire.kernel.facts import read
from groundwire.kernel.sentences import QUESTION_MARKS, BlockKind, Sentence, split_sentences
from groundwire.kernel.spans import OffsetMap, Span
from groundwire.kernel.words import content_stems, words


class ClaimKind(StrEnum):
    """The kind of a claim; only statements need a source."""

    STATEMENT = "STATEMENT"
    QUESTION = "QUESTION"
    COURTESY = "COURTESY"
    ABSTENTION = "ABSTENTION"
    TRANSITION = "TRANSITION"
    HEADING = "HEADING"


@dataclass(frozen=True, slots=True)
class WrittenClaim:
    """A sentence, list item, table row, block of code or clause, at `span` of the text it was cut from.

    `text` is how it reads without marks and without markers of citations. `antecedent` is the claim before it where it
    opens with a word that points back, such as "it", else empty.
    """

    span: Span
    text: str
    kind: ClaimKind
    antecedent: str = ""


_MARKER = re.compile(r"(?<![ \t])[ \t]*+\[\d{1,3}(?:, ?\d{1,3}){0,20}\]")
_POINTS_BACK = re.compile(
    r"(?:it|its|they|their|them|he|she|his|her|this|that|these|those|such|there|the (?:former|latter))\b", re.IGNORECASE
)
_COURTESY = re.compile(
    r"(?:hi|hello|hey|dear|greetings|good (?:morning|afternoon|evening|question)|great question|thanks?|thank you"
    r"|you(?:'re| are) welcome|sure|certainly|of course|absolutely|glad|happy to|i(?:'d| would) be happy|i hope"
    r"|hope this helps|let me know|please let me|feel free|do not hesitate|don't hesitate|sorry|i apologi[sz]e"
    r"|i(?:'m| am) sorry|best regards|kind regards|if you (?:have|need) (?:any )?(?:more|other|further|additional))\b",
    re.IGNORECASE,
)
_SOURCES = r"(?:documents?|sources?|context|material|passages?|excerpts?|search results?|provided text)"
_ABSTENTION = re.compile(
    r"\b(?:i|we) (?:(?:could|can|did|do|was|were|am|are)(?: not|n't)|cannot|(?:am|are|was|were) unable to)"
    r" (?:be able to )?(?:find|locate|determine|answer|tell|say|know|confirm|verify|have)\b"
    rf"|\b{_SOURCES}(?: that| i| we| you| were| was| provided| given| found| above){{0,4}}"
    r" (?:(?:do|does|did)(?: not|n't)|don't|doesn't|didn't) (?:\w+ )?(?:mention|say|state|specify|cover|contain|include"
    r"|provide|give|discuss|answer|address|describe|explain)\b"
    r"|\bno (?:information|mention|details|answer) (?:\w+ ){0,8}(?:found|given|available|provided)\b"
    r"|\b(?:is|are|was|were)(?: not|n't) (?:mentioned|stated|specified|covered|given|described|found) (?:in|by)"
    rf" (?:\w+ )?{_SOURCES}",
    re.IGNORECASE,
)
_TRANSITION = re.compile(
    r"(?:here(?:'s| is| are)|the following|as follows|in (?:summary|short|conclusion|other words|addition|general)"
    r"|to (?:summari[sz]e|sum up|conclude|answer your question)|overall|based on|according to|let(?:'s| us| me)"
    r"|for (?:example|instance)|next|first|second|third|finally|then|yes|no|note|summary|answer|conclusion|sources?"
    r"|references?|see (?:also|below|above))\b",
    re.IGNORECASE,
)
# What may stand in front of a claim: "Certainly, foxes hibernate", "Yes, backups are encrypted".
_OPENING = re.compile(
    r"(?:(?:hi|hello|hey|greetings|thank you|thanks|sure|certainly|of course|absolutely|sorry|(?:great|good) question)"
    r"\b[^\w(]*|(?:yes|no|in (?:summary|short|conclusion|other words|addition|general)|overall|next|first|second|third"
    r"|finally|then|note|summary|answer|conclusion|for (?:example|instance)|to (?:summari[sz]e|sum up|conclude))"
    r"\s*[,:]\s*)(?:(?:and|but|so|that)\s+)?(?P<claim>.+)",
    re.IGNORECASE | re.DOTALL,
)
# What goes on with a courtesy: "Sure, I can help with that", "Thanks for the detailed question about backups".
_GOES_ON = re.compile(r"\b(?:i|me|my)\b|^(?:for|about|to|if|in|let|happy|glad)\b", re.IGNORECASE)
_FEWEST_STEMS_OF_CLAIM = 3
_CONTENT_OF_TRANSITION = 3
_CONTENT_OF_COURTESY = 6
_FEWEST_WORDS = 2
_CLAUSE_BORDER = re.compile(
    r";\s+|,\s+(?=(?:and|but|while|whereas|although|though|so|yet)\s)|\s[\u2014\u2013]\s|\u2014", re.IGNORECASE
)
_CONJUNCTION = re.compile(r"(?:and|but|while|whereas|although|though|so|yet)\s+", re.IGNORECASE)
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|been|has|have|had|do|does|did|can|could|will|would|may|might|must|shall|should|needs?"
    r"|takes?|gives?|makes?|uses?|runs?|says?|holds?|keeps?|returns?|means?|gets?|became?|becomes?|began|came|went|took"
    r"|gave|made|led|won|lost|held|left|met|ran|said|saw|grew|fell|rose|wrote|built|\w{2,}ed|\w{2,}(?:[b-df-hj-np-rt-z])s)\b",
    re.IGNORECASE,
)
# What is looked at on either side of a border between clauses: all of most sentences.
_CLAUSE_CHARS = 500
_FEWEST_CLAUSE_STEMS = 2
_FEWEST_CLAUSE_WORDS = 4


def split_claims(text: str) -> list[WrittenClaim]:
    """Return the claims of a text in order; what stands between them is white space, marks and markers of citations.

    Markdown is understood. A sentence with several clauses that could each stand alone gives one claim for each. Takes
    time linear in the length of the text.
    """
    offsets = OffsetMap(text)
    claims: list[WrittenClaim] = []
    for sentence in split_sentences(text):
        for start, end in _pieces(text, sentence):
            shown = plain_text(_MARKER.sub("", text[start:end]), Markup.MARKDOWN).strip(" |#")
            if not any(map(str.isalnum, shown)):
                continue
            before = claims[-1].text if claims and _POINTS_BACK.match(shown) else ""
            claims.append(WrittenClaim(offsets.span(start, end), shown, _kind_of(shown, sentence.kind), before))
    return claims


def _pieces(text: str, sentence: Sentence) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the claims of one item: rows of a table, clauses of a sentence, else the whole."""
    match sentence.kind:
        case BlockKind.TABLE:
            rows = list(line_ranges(text, sentence.start, sentence.end))
            has_header = len(rows) > 1 and TABLE_RULE.fullmatch(text[slice(*rows[1])]) is not None
            yield from rows[has_header:]  # the rule below the header has no words
        case BlockKind.PROSE | BlockKind.LIST_ITEM:
            begin = sentence.start
            for border in _CLAUSE_BORDER.finditer(text, sentence.start, sentence.end):
                front = text[max(begin, border.start() - _CLAUSE_CHARS) : border.start()]
                # Not every verb is known by its look; what has no comma is no list either.
                is_clause = "," not in front and len(words(front)) >= _FEWEST_CLAUSE_WORDS
                if (is_clause or _stands_alone(front)) and _stands_alone(
                    text[border.end() : min(sentence.end, border.end() + _CLAUSE_CHARS)]
                ):
                    yield begin, border.start()
                    begin = border.end()
                    conjunction = _CONJUNCTION.match(text, begin, sentence.end)
                    begin = conjunction.end() if conjunction else begin
            yield begin, sentence.end
        case BlockKind.CODE:
            lines = [
                each
                for each in line_ranges(text, sentence.start, sentence.end)
                if not text[slice(*each)].startswith(("```", "~~~"))
            ]
            if lines:
                yield lines[0][0], lines[-1][1]
        case BlockKind.HEADING:
            yield sentence.start, sentence.end
        case BlockKind.MARKUP:
            return


def line_ranges(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield where the lines within start..end that are not blank lie, without white space at their ends."""
    for line in text[start:end].splitlines(keepends=True):
        if line.strip():
            yield start + len(line) - len(line.lstrip()), start + len(line.rstrip())
        start += len(line)


def _stands_alone(clause: str) -> bool:
    return len(content_stems(clause)) >= _FEWEST_CLAUSE_STEMS and _VERB.search(clause) is not None


def _claims(text: str) -> bool:
    """Tell whether what stands behind a courtesy or a transition asserts something by itself."""
    is_long = len(content_stems(text)) >= _FEWEST_STEMS_OF_CLAIM
    return _GOES_ON.search(text) is None and (is_long or _stands_alone(text))


def _kind_of(text: str, block: BlockKind) -> ClaimKind:
    """Return the kind of a claim. What states a number, a date or a name is never taken for courtesy or transition."""
    if block is BlockKind.HEADING:
        return ClaimKind.HEADING
    if block in {BlockKind.CODE, BlockKind.TABLE}:
        return ClaimKind.STATEMENT
    if text.rstrip("\"'\u201d\u2019)*_ ").endswith(QUESTION_MARKS):
        return ClaimKind.QUESTION
    if _ABSTENTION.search(text):
        return ClaimKind.ABSTENTION
    if any(not fact.weak for fact in read(text).facts):
        return ClaimKind.STATEMENT
    if (opening := _OPENING.match(text)) and _claims(opening["claim"]):
        return ClaimKind.STATEMENT
    stems = content_stems(text)
    if _COURTESY.match(text) and len(stems) <= _CONTENT_OF_COURTESY:
        return ClaimKind.COURTESY
    is_label = len(words(text)) < _FEWEST_WORDS or (text.endswith(":") and len(stems) <= 2 * _CONTENT_OF_TRANSITION)
    if is_label or not stems or (_TRANSITION.match(text) and len(stems) <= _CONTENT_OF_TRANSITION):
        return ClaimKind.TRANSITION
    return ClaimKind.STATEMENT
