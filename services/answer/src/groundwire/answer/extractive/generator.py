"""The Generator that quotes: the best excerpts of the passages, or nothing."""

import re
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from groundwire.answer.evidence import Closest, OpposingSource, Passage, Source, Statement
from groundwire.answer.extractive.cues import is_address_unasked
from groundwire.answer.extractive.definitions import LABEL, sets_off
from groundwire.answer.extractive.excerpt import Excerpt
from groundwire.answer.extractive.excerpts import find_excerpts
from groundwire.answer.extractive.scoring import (
    Scored,
    Support,
    answers_as_field,
    answers_in_full,
    rarities,
    scored_text,
    shortlist,
    without_superseded,
)
from groundwire.answer.extractive.selection import (
    completed,
    contradicting,
    corroborations,
    of_each_side,
    of_named_document,
    select_excerpts,
    with_code,
    with_context,
    with_list,
)
from groundwire.answer.extractive.similarity import estimate_similarities
from groundwire.answer.extractive.summary import summarise
from groundwire.answer.extractive.weights import (
    CLOSEST_SUPPORT,
    CONTEXT_CHARS,
    MAX_CANDIDATES,
    MAX_EXCERPTS,
    MIN_SET_OFF,
    MIN_SUPPORT,
    SPELLED_SHARE,
)
from groundwire.answer.grounding.sentence_vectors import SentenceVectors
from groundwire.answer.grounding.similarity_scale import AS_IS, SimilarityScale, cosine
from groundwire.answer.intent import document_asked_for, named_place
from groundwire.answer.question import Question, QuestionKind, read_question
from groundwire.kernel.sentences import BlockKind
from groundwire.kernel.words import FUNCTION_WORDS, content_stems, words
from groundwire.rpc import request_context
from groundwire.rpc.workers import Workers

_URL = re.compile(r"[a-z]{1,10}://[^\s<>\"')\]]+")
_WORD = re.compile(r"[^\W_]+")


class ExtractiveGenerator:
    """Deterministic and offline; each statement has the place it was taken from as its first source.

    Further sources are the header of a table row, and places in other documents that say the same.
    """

    name = "extractive"

    def __init__(
        self,
        *,
        vectors: SentenceVectors,
        workers: Workers,
        min_support: float | None = None,
        max_excerpts: int = MAX_EXCERPTS,
    ) -> None:
        self._vectors = vectors
        self._workers = workers
        self._min_support = MIN_SUPPORT if min_support is None else min_support
        self._max_excerpts = max_excerpts

    async def draft(
        self, question: str, passages: Sequence[Passage], strictness: float | None = None, context: str = ""
    ) -> AsyncGenerator[Sequence[Statement] | Closest, None]:
        """Yield one batch, or what came closest when the support is weak; see `groundwire.answer.ports.Generator`.

        Excerpts are compared with the question alone and behind its context, whichever they are more similar to:
        "When was the song released?" asks for what was said about one song.
        """
        budget = request_context.current().budget
        least = self._min_support if strictness is None else strictness
        name = document_asked_for(question)
        is_found = name is not None and (not name or named_place(name, passages) is not None)
        if is_found and len({passage.document_id for passage in passages}) == 1:
            drafted: Sequence[Statement] | Closest | None = await self._workers.run(budget, _summary, passages)
        elif name == "":
            return  # "this document", and which one is not known
        else:
            scale = (await self._vectors.scales()).questions
            asked, quotable, excerpts = await self._workers.run(budget, candidates, question, passages, scale)
            if not excerpts:
                return
            scored, places = await self._workers.run(budget, estimate_similarities, asked, excerpts)
            # Between two pieces of work, so that no worker waits for the model.
            texts = [scored_text(asked, excerpts[place]) for place in places]
            headings = list(dict.fromkeys(filter(None, (each.heading for each in excerpts))))
            readings = [asked.text, f"{context}: {asked.text}"] if context else [asked.text]
            vectors, of_question = await self._vectors.of([*texts, *headings], readings)
            similarities = [scale.of(max(cosine(each, vector) for each in of_question)) for vector in vectors]
            for place, similarity in zip(places, similarities, strict=False):
                scored[place] = scored[place].with_similarity(similarity)
            of_headings = dict(zip(headings, similarities[len(texts) :], strict=True))
            scored = [each.below_heading(asked, of_headings.get(each.excerpt.heading, 0.0)) for each in scored]
            drafted = await self._workers.run(budget, self._write, asked, scored, quotable, least)
        if drafted:
            yield drafted

    def _write(
        self, question: Question, every: Sequence[Scored], quotable: Sequence[Excerpt], strictness: float
    ) -> list[Statement] | Closest | None:
        scored = without_superseded(every)
        support = Support(question, scored)
        lead, confidence = support.lead()
        if confidence < strictness:
            # Code, a row or a list is long, and says little to who does not know what it belongs to.
            is_readable = lead.excerpt.kind is BlockKind.PROSE and len(lead.excerpt.text) <= CONTEXT_CHARS
            if confidence < CLOSEST_SUPPORT or not is_readable:
                return None
            return Closest(*_statements([(lead.excerpt, [(lead.excerpt, confidence)])]))
        limit = 1 if answers_in_full(question, lead) else self._max_excerpts
        weights = rarities(question, [each.excerpt for each in every])
        leads = of_each_side(question, lead, scored) if question.sides else with_context(question, lead, quotable)
        leads = with_list(question, with_code(question, leads, scored), scored)
        chosen = select_excerpts(leads[:limit], of_named_document(question, lead, scored), weights, limit)
        if len(chosen) == 1:
            chosen = [completed(question, chosen[0], quotable)]
        statements = _statements(
            [
                (
                    item.excerpt,
                    [(each.excerpt, support.of(each)) for each in (item, *corroborations(item.excerpt, scored))],
                )
                for item in chosen
            ]
        )
        # Among all: what a newer document supersedes contradicts it too.
        return [
            replace(statement, opposing=_opposing(item, every, support))
            for statement, item in zip(statements, chosen, strict=True)
        ]


def _opposing(claim: Scored, scored: Sequence[Scored], support: Support) -> tuple[OpposingSource, ...]:
    sources = (
        OpposingSource(_source_of(each.excerpt, support.of(each)), discrepancy)
        for each, discrepancy in contradicting(claim, scored)
    )
    return tuple(sorted(sources, key=OpposingSource.order))


def _summary(passages: Sequence[Passage]) -> list[Statement]:
    chosen, share = summarise(passages)
    return _statements([(excerpt, [(excerpt, share)]) for excerpt in chosen])


def _statements(chosen: Sequence[tuple[Excerpt, Sequence[tuple[Excerpt, float]]]]) -> list[Statement]:
    """Return a statement for each excerpt, with the excerpts that it is cited from and their support.

    Sentences follow each other on one line, all else begins a new one. A row is cited with the header of its table, a
    sentence that goes on in the next chunk with that. What has the name of its section in front has it once, and so do
    the sentences of an item that explains a term.
    """
    statements: list[Statement] = []
    previous: Excerpt | None = None
    for excerpt, evidence in chosen:
        sources: list[Source] = []
        is_item = excerpt.kind is BlockKind.LIST_ITEM
        label = LABEL.match(excerpt.text) if is_item else None
        name = label[0] if label else f"{excerpt.heading}: "
        goes_on = (
            previous is not None
            and excerpt.header != ()
            # The first sentence of an item begins with its term.
            and (previous.header == excerpt.header or excerpt.header[0][:2] == (previous.passage, previous.start))
            and previous.text.startswith(name)
            and excerpt.text.startswith(name)
        )
        for each, support in evidence:
            sources.append(_source_of(each, support))
            sources += (replace(_source(*part, support), goes_on=True) for part in each.rest)
            if each is excerpt and not (excerpt.is_whole or goes_on):
                sources += (_source(*part, support) for part in excerpt.header)
        is_prose = excerpt.kind is BlockKind.PROSE and (previous is None or previous.kind is BlockKind.PROSE)
        text = excerpt.text.removeprefix(name) if goes_on else excerpt.text
        statements.append(Statement(text, tuple(sources), " " if is_prose or (is_item and goes_on) else "\n"))
        previous = excerpt
    return statements


def candidates(
    question_text: str, passages: Sequence[Passage], scale: SimilarityScale = AS_IS
) -> tuple[Question, list[Excerpt], list[Excerpt]]:
    """Return the question as it is read beside the passages, the excerpts that an answer may quote, and the best ones.

    Only the best, by words, are compared for the answer; the others may stand beside what is chosen.
    """
    quotable = find_excerpts(passages)
    vocabulary = frozenset(content_stems(" ".join(f"{each.about} {each.text}" for each in quotable)))
    question = read_question(_as_spelled(question_text, passages), vocabulary)
    question = replace(question, scale=scale, is_set_off=_is_set_off(set(question.subject), quotable))
    # `Status: Rejected` tells that it was rejected, and never why.
    quotable = [each for each in quotable if not each.field_of or answers_as_field(question, each)]
    if question.kind is QuestionKind.DEFINITION:
        quotable = [each for each in quotable if not is_address_unasked(question, each.text)]
    return question, quotable, shortlist(question, quotable, MAX_CANDIDATES)


def _is_set_off(subject: AbstractSet[str], excerpts: Sequence[Excerpt]) -> bool:
    """Tell whether a subject is set off by emphasis or quotes in most of the excerpts that have it."""
    speaking = [each.passage.content[each.start : each.end] for each in excerpts if subject and subject <= each.stems]
    marked = sum(sets_off(subject, source) for source in speaking)
    return marked >= MIN_SET_OFF and 2 * marked > len(speaking)


def _as_spelled(question: str, passages: Sequence[Passage]) -> str:
    """Return the question with names as the passages often spell them: FreedomBox, which is two words, for freedombox.

    So it does not matter whether somebody types capitals.
    """
    asked = set(_WORD.findall(question.casefold())) - FUNCTION_WORDS
    texts = (f"{each.title} {each.section_heading} {each.content}" for each in passages)
    # Addresses spell every name in small letters.
    spellings = (word for text in texts for word in _WORD.findall(_URL.sub(" ", text)))
    found = Counter(word for word in spellings if word.casefold() in asked)
    spelled = Counter[str]()
    for word, count in found.items():
        spelled[word.casefold()] += count
    # Only those in several words change what a name is read as. Code has names in small letters; of several spellings
    # the most frequent comes last and stays.
    names = dict[str, str]()
    for word, count in reversed(found.most_common()):
        name = word.casefold()
        if len(words(word)) > 1 and count >= SPELLED_SHARE * spelled[name]:
            names[name] = word
    return _WORD.sub(lambda word: names.get(word[0].casefold(), word[0]), question)


def _source_of(excerpt: Excerpt, support: float) -> Source:
    """Return where an excerpt stands, of one that goes on in the next chunk the first part."""
    return _source(excerpt.passage, excerpt.start, min(excerpt.end, len(excerpt.passage.content)), support)


def _source(passage: Passage, start: int, end: int, support: float) -> Source:
    return Source(passage, passage.span_of(start, end), passage.content[start:end], assessed=support)
