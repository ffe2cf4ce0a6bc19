"""Binds the claims of a text to exact spans of stored sources, and estimates their support.

A claim is looked up in three ways, each only if the previous one finds nothing: literally, word for word regardless of
marks and white space, and by meaning. However similar the vectors are, a claim whose numbers, dates, names or negations
are missing from its sources is not supported.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from groundwire.answer.evidence import Markup, OpposingSource, Passage, Source
from groundwire.answer.grounding.claims import ClaimKind, WrittenClaim, line_ranges, split_claims
from groundwire.answer.grounding.sentence_vectors import SentenceVectors
from groundwire.answer.grounding.similarity_scale import AS_IS, SimilarityScale, cosine
from groundwire.answer.plain_text import TABLE_RULE, plain_text, row_cells, row_text
from groundwire.answer.ports import Vector
from groundwire.kernel.budget import Budget
from groundwire.kernel.facts import Discrepancy, FactKind, Reading, discrepancies, read
from groundwire.kernel.markdown import read_markdown
from groundwire.kernel.restructured_text import read_rst
from groundwire.kernel.sentences import BlockKind, split_sentences
from groundwire.kernel.words import content_stems
from groundwire.rpc import request_context
from groundwire.rpc.workers import Workers


class Match(StrEnum):
    """How a claim was found in a source: letter for letter, word for word, or by meaning."""

    EXACT = "EXACT"
    NORMALIZED = "NORMALIZED"
    SEMANTIC = "SEMANTIC"


class Verdict(StrEnum):
    """What the sources say to a claim.

    DISPUTED is supported by one and contradicted by another; NOT_NEEDED claims nothing that needs a source.
    """

    SUPPORTED = "SUPPORTED"
    DISPUTED = "DISPUTED"
    CONTRADICTED = "CONTRADICTED"
    UNSUPPORTED = "UNSUPPORTED"
    NOT_NEEDED = "NOT_NEEDED"


@dataclass(frozen=True, slots=True)
class BoundSource:
    """A source of a claim. `similarity` of the two is in [0, 1], as `SimilarityScale.of` gives it; 1 if literal."""

    source: Source
    match: Match
    similarity: float


@dataclass(frozen=True, slots=True)
class GroundedClaim:
    """A claim with what it rests on.

    `support` is the probability that a careful reader of the sources finds every part of the claim in them, in
    [0, 1]; 0 for what needs none. `sources` are of the best document first, of further documents that support the claim
    too after it; empty unless supported. `closest` is where the claim would have to stand, None without passages.
    `discrepancies` are the facts that its closest sources lack, `opposing` the places that say otherwise, newest first.
    """

    claim: WrittenClaim
    verdict: Verdict
    support: float = 0.0
    sources: tuple[BoundSource, ...] = ()
    closest: BoundSource | None = None
    discrepancies: tuple[Discrepancy, ...] = ()
    opposing: tuple[OpposingSource, ...] = ()


@dataclass(frozen=True, slots=True)
class SupportWeights:
    """Weights of the logistic function that says how likely sources support a claim.

    A logistic regression on every second claim of WiCE dev (Kamoi et al., 2023: 349 claims of Wikipedia with the pages
    they cite; `supported` against the rest). `similarity` is the cosine of claim and closest sentence, `closest` and
    `together` the share of the claim's words, by rarity, in that sentence and in all chosen ones; `missing` counts
    numbers and dates that these lack, `missing_name` names that neither they nor what stands around them has, two at
    most. `benchmarks/quality.py ground` shows how it does on the other half.
    """

    bias: float = -2.36
    similarity: float = 2.23
    closest: float = 0.93
    together: float = 1.17
    missing: float = -0.55
    missing_name: float = -1.07


WEIGHTS = SupportWeights()
MIN_SUPPORT = 0.5
"""Support from which a claim counts as supported."""
LITERAL_SUPPORT = 0.98
"""Support of a claim that stands in a source as it is."""
DISCREPANT_SHARE = 0.4
"""What is left of the support where a fact is missing: less than MIN_SUPPORT, whatever the rest."""
MAX_CANDIDATES = 12
"""Sentences that are compared with a claim by vector, the best by words: embedding them is most of the time."""
MAX_SOURCES = 3
"""Sentences of one document that a claim is put together from."""
MAX_DOCUMENTS = 3
"""Documents that a claim is cited from."""
_LEAST_GAIN = 0.05
# "It binds no name" belongs to the sentence before it, however many others speak of binding.
_NEARBY = 0.1
_SAME_SUBJECT = 0.75
_LEAST_ALIKE = 0.5
_FEWEST_LITERAL_WORDS = 2
_CORROBORATION = 0.5
_MAX_MISSING = 2
_MAX_SENTENCE_CHARS = 900


@dataclass(frozen=True, slots=True)
class _SourceSentence:
    """A sentence, list item, table row or block of code of a passage, `content[start:end]`, as plain text."""

    passage: Passage
    start: int
    end: int
    text: str
    reading: Reading

    def source(self) -> Source:
        return _source(self.passage, self.start, self.end)


def _source(passage: Passage, start: int, end: int) -> Source:
    return Source(passage, passage.span_of(start, end), passage.content[start:end])


class Grounder:
    """Grounds texts; safe for many calls at once."""

    def __init__(self, vectors: SentenceVectors, workers: Workers) -> None:
        self._vectors = vectors
        self._workers = workers

    async def claims_of(self, text: str) -> list[WrittenClaim]:
        """Return the claims of a text in order, cut in a worker: a long one takes as long as a search."""
        return await self._workers.run(request_context.current().budget, split_claims, text)

    async def ground_claims(
        self, claims: Sequence[WrittenClaim], passages: Sequence[Sequence[Passage]]
    ) -> list[GroundedClaim]:
        """Return the claims, each compared with its own passages.

        Raises:
            GroundwireError: as the embedder does, and as the budget of the call says.
        """
        budget = request_context.current().budget
        comparison = await self._workers.run(budget, TextComparison, claims, passages, budget)
        # Between two pieces of work, so that no worker waits for the model.
        vectors, _ = await self._vectors.of(comparison.texts)
        scale = (await self._vectors.scales()).statements if comparison.texts else AS_IS
        rows = dict(zip(comparison.texts, vectors, strict=True))
        return await self._workers.run(budget, comparison.grounded, rows, budget, scale)


class TextComparison:
    """Claims, each to be compared with its own passages; `texts` are the distinct texts whose vectors that needs."""

    def __init__(self, claims: Sequence[WrittenClaim], passages: Sequence[Sequence[Passage]], budget: Budget) -> None:
        self._claims = claims
        library = _Library()
        self._comparisons: list[_Comparison | None] = []
        for claim, own in zip(claims, passages, strict=True):
            budget.check()
            needs_source = claim.kind is ClaimKind.STATEMENT
            self._comparisons.append(_Comparison(claim, library.sentences(own)) if needs_source else None)
        compared = (each for each in self._comparisons if each is not None)
        self.texts = list(dict.fromkeys(text for each in compared for text in each.texts()))

    def grounded(
        self, rows: Mapping[str, Vector], budget: Budget, scale: SimilarityScale = AS_IS
    ) -> list[GroundedClaim]:
        """Return the claims in order, each compared with its own passages, given the vector of each text."""
        grounded = []
        for claim, comparison in zip(self._claims, self._comparisons, strict=True):
            budget.check()
            if comparison is None:
                grounded.append(GroundedClaim(claim, Verdict.NOT_NEEDED))
            else:
                grounded.append(comparison.result(rows, scale))
        return grounded


class _Library:
    """Passages cut into sentences, each only once, because several claims share passages."""

    def __init__(self) -> None:
        self._cut: dict[tuple[str, int, int, int], list[_SourceSentence]] = {}

    def sentences(self, passages: Sequence[Passage]) -> list[_SourceSentence]:
        """Return the sentences of passages in order; one that several passages share comes once."""
        found: dict[tuple[str, int, int, int], _SourceSentence] = {}
        for passage in passages:
            key = (passage.document_id, passage.generation, passage.span.start, passage.span.end)
            if key not in self._cut:
                self._cut[key] = list(_sentences_of(passage))
            for each in self._cut[key]:
                first, last = passage.span.start + each.start, passage.span.start + each.end
                found.setdefault((passage.document_id, passage.generation, first, last), each)
        return list(found.values())


def _sentences_of(passage: Passage) -> Iterator[_SourceSentence]:
    content, markup = passage.content, passage.markup
    if markup is Markup.RST:
        content, items = read_rst(content)
    else:
        content = read_markdown(content) if markup is Markup.MARKDOWN else content
        items = split_sentences(content, passage.content)
    for item in items:
        is_long = item.end - item.start > _MAX_SENTENCE_CHARS
        by_lines = item.kind is BlockKind.TABLE or (item.kind is BlockKind.CODE and is_long)
        ranges = list(line_ranges(content, item.start, item.end)) if by_lines else [(item.start, item.end)]
        columns = list[str]()
        if item.kind is BlockKind.TABLE and len(ranges) > 1 and TABLE_RULE.fullmatch(content[slice(*ranges[1])]):
            columns = row_cells(content[slice(*ranges[0])], markup)
            del ranges[:2]
        for start, end in ranges:
            source = content[start:end]
            # "15 %" says little without the name of its column.
            text = row_text(columns, row_cells(source, markup)) if columns else plain_text(source, markup)
            if any(map(str.isalnum, text)):
                yield _SourceSentence(passage, start, end, text, read(text))


@dataclass(slots=True)
class _Evidence:
    """Sentences of one document that a claim is compared with, the closest first, and the support they give."""

    sentences: list[_SourceSentence]
    similarities: list[float]
    lacking: tuple[Discrepancy, ...] = ()
    support: float = 0.0
    literal: BoundSource | None = None

    def bound(self) -> list[BoundSource]:
        if self.literal is not None:
            return [self.literal]
        pairs = zip(self.sentences, self.similarities, strict=True)
        return [BoundSource(each.source(), Match.SEMANTIC, similarity) for each, similarity in pairs]


class _Comparison:
    """One claim against the sentences that may support it."""

    def __init__(self, claim: WrittenClaim, sentences: Sequence[_SourceSentence]) -> None:
        self._claim = claim
        self._reading = read(claim.text)
        stems = self._reading.stems
        frequency = Counter(stem for each in sentences for stem in each.reading.stems & stems)
        # The inverse document frequency of Robertson & Spärck Jones over these sentences, as in `scoring`.
        self._rarity = {stem: math.log(1 + len(sentences) / (frequency[stem] + 0.5)) for stem in stems}
        covered = [self._covered(each.reading.stems) for each in sentences]
        best = sorted(range(len(sentences)), key=lambda index: (-covered[index], index))[:MAX_CANDIDATES]
        self._candidates = [sentences[index] for index in best]
        self._coverage = {id(sentences[index]): covered[index] for index in best}

    def texts(self) -> list[str]:
        """Return the texts to embed."""
        return [self._claim.text, *(each.text for each in self._candidates)] if self._candidates else []

    def result(self, rows: Mapping[str, Vector], scale: SimilarityScale) -> GroundedClaim:
        """Return the verdict, given the vector of each of `texts`."""
        if not self._candidates:
            return GroundedClaim(self._claim, Verdict.UNSUPPORTED)
        own = rows[self._claim.text]
        similarity = {id(each): scale.of(cosine(rows[each.text], own)) for each in self._candidates}
        documents: dict[tuple[str, int], list[_SourceSentence]] = defaultdict(list)
        for each in self._candidates:
            documents[each.passage.document_id, each.passage.generation].append(each)
        evidence = sorted(
            (self._weigh(sentences, similarity) for sentences in documents.values()), key=lambda each: -each.support
        )
        supporting = [each for each in evidence if each.support >= MIN_SUPPORT][:MAX_DOCUMENTS]
        opposing = self._opposing(supporting, similarity)
        verdict = Verdict.UNSUPPORTED
        if supporting:
            verdict = Verdict.DISPUTED if opposing else Verdict.SUPPORTED
        elif opposing:
            verdict = Verdict.CONTRADICTED
        best = evidence[0]
        support = best.support
        if supporting:
            # What several documents give together, above that of the best alone (requirement S1-106): 1 minus the
            # product of what each leaves open. Further ones count half, because documents copy one another.
            first, *others = (each.support for each in supporting)
            support = 1.0 - (1.0 - first) * math.prod(1.0 - _CORROBORATION * each for each in others)
        return GroundedClaim(
            claim=self._claim,
            verdict=verdict,
            support=support,
            sources=tuple(source for each in supporting for source in each.bound()),
            closest=best.bound()[0],
            discrepancies=best.lacking,
            opposing=opposing,
        )

    def _covered(self, stems: frozenset[str]) -> float:
        """Return the share of the claim's words, by rarity, among the stems."""
        total = sum(self._rarity.values())
        return sum(weight for stem, weight in self._rarity.items() if stem in stems) / total if total else 0.0

    def _weigh(self, sentences: Sequence[_SourceSentence], similarity: Mapping[int, float]) -> _Evidence:
        """Choose the sentences of one document that support the claim best, and estimate how well."""
        literal = self._literal(sentences)
        if literal is not None:
            return literal
        closest = max(sentences, key=lambda each: similarity[id(each)] + self._coverage[id(each)])
        chosen, found = [closest], closest.reading.stems
        while len(chosen) < MAX_SOURCES:
            others = [each for each in sentences if each not in chosen]
            gain = {id(each): self._covered(each.reading.stems - found) for each in others}
            further = max(
                others,
                key=lambda each: (
                    gain[id(each)] + 0.3 * similarity[id(each)] + _NEARBY * (each.passage is closest.passage)
                ),
                default=None,
            )
            if further is None or gain[id(further)] < _LEAST_GAIN:
                break
            chosen.append(further)
            found |= further.reading.stems
        lacking = discrepancies(self._reading, [each.reading for each in chosen], _around(chosen))
        counts = Counter("name" if each.kind is FactKind.NAME else "value" for each in lacking)
        value = (
            WEIGHTS.bias
            + WEIGHTS.similarity * similarity[id(closest)]
            + WEIGHTS.closest * self._coverage[id(closest)]
            + WEIGHTS.together * self._covered(found)
            + WEIGHTS.missing * min(_MAX_MISSING, counts["value"])
            + WEIGHTS.missing_name * min(_MAX_MISSING, counts["name"])
        )
        support = 1.0 / (1.0 + math.exp(-value))
        support *= DISCREPANT_SHARE if lacking else 1.0
        return _Evidence(chosen, [similarity[id(each)] for each in chosen], lacking, support)

    def _literal(self, sentences: Sequence[_SourceSentence]) -> _Evidence | None:
        """Return the place where the claim occurs literally, None if there is none."""
        wanted = _folded_words(self._claim.text)
        if wanted.count(" ") <= _FEWEST_LITERAL_WORDS:  # one more than words
            return None
        for each in sentences:
            if wanted not in _folded_words(each.text):
                continue
            lacking = discrepancies(self._reading, [each.reading], _around([each]))
            if lacking:
                continue
            start, end = _place_of(self._claim.text, each)
            source = _source(each.passage, start, end)
            match = Match.EXACT if source.quote == self._claim.text else Match.NORMALIZED
            return _Evidence([each], [1.0], (), LITERAL_SUPPORT, BoundSource(source, match, 1.0))
        return None

    def _opposing(self, supporting: Sequence[_Evidence], similarity: Mapping[int, float]) -> tuple[OpposingSource, ...]:
        """Return the candidates that contradict the claim, newest first."""
        used = {id(each) for evidence in supporting for each in evidence.sentences}
        found = []
        for each in self._candidates:
            # A long sentence may contain all words of the claim and still be about something else.
            is_alike = id(each) not in used and similarity[id(each)] >= _LEAST_ALIKE
            contrary = opposition(self._reading, each.reading) if is_alike else None
            if contrary is not None:
                rest = self._reading.stems.difference(content_stems(contrary.text))
                if self._covered(rest & each.reading.stems) >= _SAME_SUBJECT * self._covered(rest):
                    found.append(OpposingSource(each.source(), contrary))
        return tuple(sorted(found, key=OpposingSource.order))


def opposition(statement: Reading, other: Reading) -> Discrepancy | None:
    """Return how a sentence on the same subject differs in a number, date, name or negation, None if it does not."""
    found = discrepancies(statement, [other])
    return next((each for each in found if each.instead and each.kind is not FactKind.WORD), None)


def _around(chosen: Sequence[_SourceSentence]) -> list[str]:
    passages = {id(each.passage): each.passage for each in chosen}.values()
    return [part for each in passages for part in (each.title, each.chapter, each.section_heading, each.content)]


_WORD = re.compile(r"[^\W_]+")


def _folded_words(text: str) -> str:
    """Return the case-folded words of a text, each surrounded by spaces."""
    return f" {' '.join(word.casefold() for word in _WORD.findall(text))} "


def _place_of(text: str, sentence: _SourceSentence) -> tuple[int, int]:
    """Return where the words of a text stand in the content of a sentence; the whole sentence where marks are between.

    A text that stands there as it is is found with its last stop.
    """
    content = sentence.passage.content
    start = content.find(text, sentence.start, sentence.end)
    if start >= 0:
        return start, start + len(text)
    wanted = [word.casefold() for word in _WORD.findall(text)]
    tokens = list(_WORD.finditer(content, sentence.start, sentence.end))
    for index in range(len(tokens) - len(wanted) + 1):
        if all(tokens[index + offset][0].casefold() == word for offset, word in enumerate(wanted)):
            return tokens[index].start(), tokens[index + len(wanted) - 1].end()
    return sentence.start, sentence.end
