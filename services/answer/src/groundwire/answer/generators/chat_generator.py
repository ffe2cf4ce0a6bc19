"""The Generator that lets a chat model write and binds each of its sentences to sources."""

import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace

from groundwire.answer.answers import GenerationFailure
from groundwire.answer.evidence import Passage, Source, Statement
from groundwire.answer.generators.chat_endpoint import ChatEndpoint
from groundwire.answer.generators.orders import without_orders
from groundwire.answer.generators.prompt import ABSTENTION, Prompt, fitting_prompt
from groundwire.answer.generators.sentences import StatementReader, WrittenStatement
from groundwire.answer.grounding.claims import WrittenClaim, split_claims
from groundwire.answer.grounding.grounder import GroundedClaim, Grounder, Verdict
from groundwire.answer.ports import GenerationFailedError
from groundwire.answer.summaries import without_hearsay
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import OverloadedError
from groundwire.kernel.records import SOURCE_PREFIX
from groundwire.rpc import request_context

_SHARE = 0.8
"""Of the time that a call has left, so that there is some for the answer that is given instead."""
TEMPLATE_TOKENS = 64
"""What the template of a model may add to the messages."""
_MAX_REPLY_CHARS = 20_000
_SOURCES_PER_CLAIM = 3
# Small models shuffle the words of their sources, which gives each word a source and no sentence one. On every third
# claim of WiCE dev, 68 % of what passes is supported in full, 65 % without it.
_LEAST_SIMILARITY = 0.62
_MAX_REPEATS = 3
"""Sentences that a model may say again, each of which is dropped; small ones end in a loop."""
# Says what the model does or is about to do. A source that asked for it would seem to support it.
ANNOUNCEMENT = re.compile(
    r"(?:\w{1,20}[,!.]? )?(?:here|below)(?:'s| is| are)\b"
    r"|(?:sure|certainly|of course|absolutely|ok|okay|understood|as (?:requested|instructed|asked))[,.!:]",
    re.IGNORECASE,
)


class ChatGenerator:
    """Streams the reply of a model as statements, each with the places in the passages that support it.

    The numbers that a model puts behind its sentences only say where to look first: sources are found by comparing the
    sentence with the passages, so no number can name anything that was not retrieved.

    Prompt and reply have `context_tokens` together, the reply `max_tokens`; a draft takes at most `timeout_s`. More
    than `max_drafts` at a time are refused, not queued: nobody holds anything while they wait, and callers learn at
    once to come back later.
    """

    def __init__(
        self,
        name: str,
        endpoint: ChatEndpoint,
        grounder: Grounder,
        *,
        context_tokens: int,
        max_tokens: int,
        timeout_s: float,
        max_drafts: int,
    ) -> None:
        self.name = name
        self._endpoint = endpoint
        self._grounder = grounder
        self._prompt_tokens = context_tokens - max_tokens - TEMPLATE_TOKENS
        self._max_tokens = max_tokens
        self._timeout_s = timeout_s
        self._max_drafts = max_drafts
        self._drafts = 0

    async def draft(
        self,
        question: str,
        passages: Sequence[Passage],
        strictness: float | None = None,  # noqa: ARG002 - a model says itself when it does not know
    ) -> AsyncGenerator[Sequence[Statement], None]:
        """Yield the statements of the model as they come; see `groundwire.answer.ports.Generator`."""
        remaining_s = request_context.current().budget.remaining_s()
        limit = Budget(self._timeout_s if remaining_s is None else min(self._timeout_s, _SHARE * remaining_s))
        readable = [_readable(each) for each in passages]
        with self._counted():
            prompt = await fitting_prompt(
                question,
                readable,
                max_tokens=self._prompt_tokens,
                count_tokens=lambda text: self._endpoint.count_tokens(text, limit),
            )
            if prompt is None:
                raise GenerationFailedError(GenerationFailure.REJECTED, "the question does not fit into the context")
            said: set[str] = set()
            repeats = 0
            async with aclosing(self._statements(prompt, limit)) as written:
                async for batch in written:
                    if not said and batch[0].text.strip(" .").upper() == ABSTENTION:
                        return
                    fresh = list({each.text: each for each in batch if each.text not in said}.values())
                    said.update(each.text for each in fresh)
                    repeats += len(batch) - len(fresh)
                    if fresh:
                        yield await self._bound(fresh, passages, readable)
                    if repeats > _MAX_REPEATS:
                        raise GenerationFailedError(GenerationFailure.INTERRUPTED, "the model repeats itself")
            if not said:
                raise GenerationFailedError(GenerationFailure.INVALID_REPLY, "the reply is empty")

    @contextmanager
    def _counted(self) -> Iterator[None]:
        if self._drafts >= self._max_drafts:
            message = f"the model writes {self._max_drafts} answers already"
            raise OverloadedError(message, limit=self._max_drafts, work="generation")
        self._drafts += 1
        try:
            yield
        finally:
            self._drafts -= 1

    async def _bound(
        self, written: Sequence[WrittenStatement], passages: Sequence[Passage], readable: Sequence[Passage]
    ) -> list[Statement]:
        """Return the statements with what supports them, in the passages that they name or else in any."""
        claims = [split_claims(each.text) for each in written]
        named = [[readable[number - 1] for number in each.cited if 0 < number <= len(readable)] for each in written]
        grounded = await self._grounded(claims, [own or readable for own in named])
        open_ = [index for index, found in enumerate(grounded) if named[index] and not all(map(holds, found))]
        again = await self._grounded([claims[index] for index in open_], [readable] * len(open_))
        for index, found in zip(open_, again, strict=True):
            grounded[index] = found
        originals = dict(zip(map(id, readable), passages, strict=True))
        return [_statement(each, found, originals) for each, found in zip(written, grounded, strict=True)]

    async def _grounded(
        self, claims: Sequence[Sequence[WrittenClaim]], passages: Sequence[Sequence[Passage]]
    ) -> list[list[GroundedClaim]]:
        """Return the claims of each statement, compared with the passages of the statement."""
        flat = [(claim, own) for group, own in zip(claims, passages, strict=True) for claim in group]
        found = iter(await self._grounder.ground_claims([claim for claim, _ in flat], [own for _, own in flat]))
        return [[next(found) for _ in group] for group in claims]

    async def _statements(self, prompt: Prompt, limit: Budget) -> AsyncGenerator[Sequence[WrittenStatement], None]:
        """Yield the statements of the reply, at least one in each batch."""
        reader, chars = StatementReader(), 0
        async with aclosing(self._endpoint.complete(prompt.messages, self._max_tokens, limit)) as pieces:
            async for piece in pieces:
                chars += len(piece.text)
                if found := _without_boundary(reader.feed(piece.text), prompt.boundary):
                    yield found
                if piece.is_cut or chars > _MAX_REPLY_CHARS:
                    raise GenerationFailedError(GenerationFailure.INTERRUPTED, "the reply is longer than it may be")
        if found := _without_boundary(reader.end(), prompt.boundary):
            yield found


def _without_boundary(written: Sequence[WrittenStatement], boundary: str) -> list[WrittenStatement]:
    """Return what is left of statements: small models copy lines of the prompt."""
    secret = boundary.strip("- ")
    return [each for each in written if secret not in each.text]


def _readable(passage: Passage) -> Passage:
    """Return a passage without orders, and one of a summary without what is no source."""
    if passage.source_uri.startswith(SOURCE_PREFIX):
        passage = replace(passage, content=without_hearsay(passage.content))
    return without_orders(passage)


def holds(claim: GroundedClaim) -> bool:
    """Tell whether a claim of a model may stand."""
    if claim.verdict is Verdict.NOT_NEEDED:
        return True
    is_supported = claim.verdict in {Verdict.SUPPORTED, Verdict.DISPUTED}
    return is_supported and any(each.similarity >= _LEAST_SIMILARITY for each in claim.sources)


def _statement(
    written: WrittenStatement, claims: Sequence[GroundedClaim], originals: Mapping[int, Passage]
) -> Statement:
    """Return a statement with the sources of all of its claims, none unless each of them holds."""
    if ANNOUNCEMENT.match(written.text):
        return Statement(written.text, (), written.separator, needs_source=False)
    needs_source = any(each.verdict is not Verdict.NOT_NEEDED for each in claims)
    sources: dict[Source, None] = {}
    if all(map(holds, claims)):
        for claim in claims:
            for place, bound in enumerate(claim.sources[:_SOURCES_PER_CLAIM]):
                # The closest carries the claim; further ones add to it as far as they resemble it.
                support = min(claim.support, bound.similarity) if place else claim.support
                # In the passage as it is stored, which has the same code points but for orders.
                passage, span = originals[id(bound.source.passage)], bound.source.span
                start, end = span.start - passage.span.start, span.end - passage.span.start
                quoted = Source(passage, passage.span_of(start, end), passage.content[start:end], assessed=support)
                sources[quoted] = None
    return Statement(written.text, tuple(sources), written.separator, needs_source=needs_source)
