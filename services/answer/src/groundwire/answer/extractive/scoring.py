"""Scores how well a sentence answers a question, and how well the material supports answering at all."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from groundwire.answer.evidence import Passage
from groundwire.answer.extractive.question import Question, QuestionKind
from groundwire.answer.extractive.statements import Candidate
from groundwire.answer.extractive.thresholds import RANKING, SUPPORT
from groundwire.answer.words import FUNCTION_WORDS, NEGATION, content_stems, stem, words
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.sentences import BlockKind

_NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-Z][^\W\d_]+")
_NUMBER_WORDS = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundred|"
    r"thousand|million|billion|dozen|half|third|quarter)\b",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"\b1\d{3}\b|\b20\d\d\b|\bcentur|\b(?:January|February|March|April|May|June|July|August|September|October|November|"
    r"December)\b|\b\d+s\b|\d+ (?:seconds?|minutes?|hours?|days?|weeks?|months?|years?)\b|\b(?:when|once|after|until)\b"
)
_REASON = re.compile(
    r"\b(?:because|since|due to|so that|in order|therefore|as a result|cause|reason|why|to avoid|enables?)\b",
    re.IGNORECASE,
)
_STEP = re.compile(
    r"^(?:to|you can|run|use|call|create|add|open|first|type|write|set)\b"
    r"|\b(?:you can|we can|we use|by \w+ing|using|use the|with the)\b",
    re.IGNORECASE,
)
_EVIDENCE = {
    QuestionKind.QUANTITY: _NUMBER_WORDS,
    QuestionKind.TIME: _TIME,
    QuestionKind.REASON: _REASON,
    QuestionKind.PROCEDURE: _STEP,
}
_DANGLING = re.compile(
    r"(?:this|that|these|those|it|they|he|she|such|however|but|and|or|so|also|then|here|therefore|thus|instead"
    r"|otherwise|similarly|likewise|additionally|furthermore|in other words|for example|for instance"
    r"|in this (?:case|example)|as a result|on the other hand|at this point|again|finally|next|now|note|as such|rather"
    r"|be warned|another (?:reason|method|way)|in the same way|in contrast|recall|remember)\b",
    re.IGNORECASE,
)
_ANNOUNCEMENT = re.compile(
    r"\bin (?:this|the next|the previous|a later|the following) (?:chapter|section|part)|\bchapter \d"
    r"|\b(?:we|you)['\u2019]ll (?:see|learn|look|discuss|cover|talk|explore|use|write|build|create)"
    r"|\blet['\u2019]s\b|\bas we (?:saw|discussed)|\b(?:listing|figure) \d|\bwe (?:discussed|covered|mentioned)",
    re.IGNORECASE,
)
_DEFINING_VERB = re.compile(
    r"\b(?:(?P<copula>is|are|was|were)(?= (?:an?|the|one|any|part|code|data|how|what|when|where|\w+ that)\b)"
    r"|(?P<verb>means?|refers? to|describes?|lets?|allows?|enables?|provides?|defines?)|is|are|was|were)\b"
)
_ASIDE = re.compile(r"^\w+ly,? |, on the other hand,|, however,|\([^)]{1,40}\)|, or [^,]{1,30},")
_MARK = r"(?:\*\*|__|\*|_|\u201c|\u201d|\")"
_TERM = re.compile(rf"(?<!\w){_MARK}(?P<term>[^*_\"\u201d]{{2,60}}){_MARK}(?!\w)")
_OPENING_WORDS = 4


def names_in(text: str) -> list[str]:
    """Return the capitalised words that do not open a sentence, in order."""
    return _NAME.findall(text)


def kind_match(question: Question, text: str) -> float:
    """Return 1 if the sentence has what the kind of question asks for, -1 if not, 0 if the kind asks for nothing."""
    if question.kind in {QuestionKind.PERSON, QuestionKind.PLACE}:
        asked = set(words(question.text))
        return 1.0 if any(name.casefold() not in asked for name in names_in(text)) else -1.0
    pattern = _EVIDENCE.get(question.kind)
    if pattern is None:
        return 0.0
    return 1.0 if pattern.search(text) else -1.0


def definition_match(question: Question, text: str) -> float:
    """Return how far the sentence defines the question's subject.

    1 if the subject is its own and it says what that is (`Ownership is a set of rules`), 0.7 if it only says something
    of it (`Ownership is new to many`), 0.6 if it sets it off as a term (`… is called _ownership_`), 0.3 if it opens
    with it, else 0.
    """
    subject = set(question.subject)
    if not subject:
        return 0.0
    verb = _DEFINING_VERB.search(text)
    if verb is not None and _stems(_ASIDE.sub(" ", text[: verb.start()])) == subject:
        return 1.0 if verb["copula"] or verb["verb"] else 0.7
    if any(subject == _stems(match["term"]) for match in _TERM.finditer(text)):
        return 0.6
    opening = {stem(word) for word in words(text)[: 3 * len(subject) + _OPENING_WORDS]}
    return 0.3 if subject <= opening else 0.0


def _stems(text: str) -> set[str]:
    return {stem(word) for word in words(text) if word not in FUNCTION_WORDS}


def is_dangling(text: str) -> bool:
    """Tell whether the sentence opens with something that only the sentence before explains."""
    return _DANGLING.match(text) is not None


def is_announcement(text: str) -> bool:
    """Tell whether the sentence speaks about the document (`In this chapter, we'll see`) rather than its subject."""
    return _ANNOUNCEMENT.search(text) is not None


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate with its parts, each in [0, 1], and the score it is ranked by, about 0 to 1.2.

    `similarity` is the cosine to the question, negative ones as 0; `coverage` the share of the question's
    words in it, by rarity.
    """

    candidate: Candidate
    similarity: float
    coverage: float
    score: float

    def order(self) -> tuple[float, int, int]:
        """Return the key that sorts by falling score, then by rank and place: the same on every run."""
        return (-self.score, self.candidate.passage.rank, self.candidate.sentence.start)


_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_IDENTIFIER = re.compile(r"\b[^\W_]+_\w+\b")
_REFERENCE_MARKS = re.compile(r"<!--|\]\[|\]\(")
_FACT_KINDS = frozenset({QuestionKind.PERSON, QuestionKind.PLACE, QuestionKind.TIME, QuestionKind.QUANTITY})
_CLOSING = "\"'*_`)]\u201d\u2019"


def rarities(question: Question, candidates: Sequence[Candidate]) -> dict[str, float]:
    """Return the weight of each stem of the question: log(1 + n / (df + 0.5)) over the candidates.

    The smoothed inverse document frequency of Robertson & Spärck Jones, taken over the retrieved sentences
    because no other statistics reach this service.
    """
    frequency = Counter(stem for candidate in candidates for stem in candidate.stems)
    return {stem: math.log(1 + len(candidates) / (frequency[stem] + 0.5)) for stem in question.stems}


def covered(stems: frozenset[str], weights: Mapping[str, float]) -> float:
    """Return the weighted share of the question's stems that are among `stems`, in [0, 1]; 0 without any."""
    total = sum(weights.values())
    return sum(weight for stem, weight in weights.items() if stem in stems) / total if total else 0.0


def shortlist(question: Question, candidates: Sequence[Candidate], limit: int) -> list[Candidate]:
    """Return the `limit` candidates that share most with the question, those of better passages first, in order."""
    if len(candidates) <= limit:
        return list(candidates)
    weights = rarities(question, candidates)
    value = [covered(candidate.stems, weights) + candidate.passage.relevance for candidate in candidates]
    kept = sorted(range(len(candidates)), key=lambda index: (-value[index], index))[:limit]
    return [candidates[index] for index in sorted(kept)]


def score_candidates(
    question: Question, candidates: Sequence[Candidate], query_vector: Vectors, vectors: Vectors
) -> list[Scored]:
    """Return the candidates with their scores, in the order given.

    Args:
        question: the question.
        candidates: the sentences.
        query_vector: float32, shape (d,), L2-normalised.
        vectors: float32, shape (len(candidates), d), rows L2-normalised, one per candidate.
    """
    weights = rarities(question, candidates)
    similarities = np.clip(vectors @ query_vector, 0.0, 1.0)
    return [
        _scored(question, candidate, float(similarity), covered(candidate.stems, weights))
        for candidate, similarity in zip(candidates, similarities, strict=True)
    ]


def _scored(question: Question, candidate: Candidate, similarity: float, coverage: float) -> Scored:
    score = (
        RANKING.similarity * similarity
        + RANKING.coverage * coverage
        + RANKING.relevance * candidate.passage.relevance
        + RANKING.kind_match * kind_match(question, candidate.text)
        + RANKING.definition * definition_match(question, candidate.text)
        + _form_bonus(question, candidate)
    )
    return Scored(candidate, similarity, coverage, score)


def _form_bonus(question: Question, candidate: Candidate) -> float:
    text, kind = candidate.text, candidate.sentence.kind
    bonus = 0.0
    if is_dangling(text):
        bonus += RANKING.dangling_start
    if is_announcement(text):
        bonus += RANKING.announcement
    if _REFERENCE_MARKS.search(text):
        bonus += RANKING.reference_marks
    if text.endswith("!"):
        bonus += RANKING.exclamation
    if kind is BlockKind.TABLE:
        bonus += RANKING.table_row
    elif kind is not BlockKind.CODE and not text.rstrip(_CLOSING).endswith((".", "!", "\u3002")):
        bonus += RANKING.no_full_stop
    if question.subject and set(question.subject) == set(content_stems(candidate.passage.section_heading)):
        bonus += RANKING.heading_is_subject
    return bonus


def support(question: Question, best: Scored, passages: Sequence[Passage]) -> float:
    """Return how well the best sentence and its passage support an answer, about -0.2 to 1, higher is better."""
    passage = best.candidate.passage
    around = f"{passage.title} {passage.chapter} {passage.section_heading} {passage.content}"
    pool = frozenset(content_stems(" ".join(p.content for p in passages)))
    here = frozenset(content_stems(around))
    weights = dict.fromkeys(question.stems, 1.0) | dict.fromkeys(set(question.stems) - pool, 2.0)
    value = (
        SUPPORT.similarity * best.similarity
        + SUPPORT.relevance * passage.relevance
        + SUPPORT.coverage * covered(here, weights)
    )
    return value + _contradictions(question, best.candidate.text, around, here)


def _lacks_identifier(question: str, around: str) -> bool:
    """Tell whether the question has a name of code (`pin_project`) that the passage does not have."""
    return any(name.casefold() not in around.casefold() for name in _IDENTIFIER.findall(question))


def _contradictions(question: Question, sentence: str, around: str, here: frozenset[str]) -> float:
    """Return the sum of the penalties for what the question has and the passage lacks, at most 0."""
    numbers, names = set(_NUMBER.findall(question.text)), set(content_stems(" ".join(names_in(question.text))))
    negated = NEGATION.search(question.text) and not NEGATION.search(sentence)
    return (
        SUPPORT.missing_number * bool(numbers - set(_NUMBER.findall(around)))
        + SUPPORT.missing_name * (bool(names - here) or _lacks_identifier(question.text, around))
        + SUPPORT.missing_negation * bool(negated)
        + SUPPORT.missing_kind * (question.kind in _FACT_KINDS and kind_match(question, sentence) < 0)
    )
