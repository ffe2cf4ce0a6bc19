"""Return chunks with what surrounds them: sentences, neighbours, section, chapter (requirements S1-44 to S1-50)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile
from operator import itemgetter

from groundwire.catalog.chunks import Chunks, PassageReader
from groundwire.catalog.filters import is_in_scopes
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import ChunkLocation, StoredChunk
from groundwire.kernel.errors import ChunkNotFoundError, InvalidRequestError, PreconditionError
from groundwire.kernel.identity import Identity
from groundwire.kernel.spans import Span
from groundwire.retrieve.ranking import withheld_because

DEFAULT_RADIUS = 2
DEFAULT_LEVELS_UP = 1
DEFAULT_MAX_CHARS = 100_000
MAX_TOTAL_CHARS = 1_000_000
"""Most code points of all passages of one call together."""


class ExpandMode(StrEnum):
    """What is added to a chunk."""

    WINDOW = "window"
    NEIGHBOURS = "neighbours"
    PARENT = "parent"
    HIERARCHY = "hierarchy"


@dataclass(frozen=True, slots=True)
class Expansion:
    """How far to go: `radius` sentences or chunks on each side (None: the default), or `levels_up` in the hierarchy.

    Passages are cut to at most `max_chars` code points at chunk borders; the chunk itself stays whole.
    """

    mode: ExpandMode
    radius: int | None = None
    levels_up: int = DEFAULT_LEVELS_UP
    max_chars: int = DEFAULT_MAX_CHARS


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a text, in code points and bytes."""

    char: int
    byte: int


@dataclass(frozen=True, slots=True)
class Extent:
    """A range of a text: the chunks `first` to `last`, by sequence number, and whom it was made for.

    `requested` are sequence numbers. `start` and `end` can lie outside of the chunks, for a whole document, or inside
    of the first, when the text before it is in another extent.
    """

    first: int
    last: int
    start: Place
    end: Place
    requested: tuple[int, ...]
    truncated: bool = False

    @property
    def chars(self) -> int:
        """Return the length in code points."""
        return self.end.char - self.start.char


class DocumentMap:
    """The chunks of one generation: those of text in order, and those that stand for a section, chapter or document.

    `places` has all chunks by rising sequence number; those of text come first, without gaps, from 0.
    """

    def __init__(self, places: Sequence[ChunkLocation], end: Place) -> None:
        self.leaves = [place for place in places if not place.upper]
        self.uppers = {place.sequence_num: place for place in places if place.upper}
        self.end = end

    def expand(self, sequence_num: int, rule: Expansion) -> Extent:
        """Return what surrounds one chunk.

        Raises:
            PreconditionError: a window is asked for around a chunk that is no sentence.
        """
        first, last = self._bounds(sequence_num)
        match rule.mode:
            case ExpandMode.PARENT:
                whole = self._extent(0, len(self.leaves) - 1, sequence_num)
                found = replace(whole, start=Place(0, 0), end=self.end)
            case ExpandMode.NEIGHBOURS:
                radius = DEFAULT_RADIUS if rule.radius is None else rule.radius
                found = self._extent(max(0, first - radius), min(len(self.leaves) - 1, last + radius), sequence_num)
            case ExpandMode.WINDOW:
                leaf = self.leaves[first]
                if leaf.sentence_index is None:
                    raise PreconditionError(
                        "the chunk is not a sentence, so it has no window of sentences; use NEIGHBOURS", mode="WINDOW"
                    )
                own = DEFAULT_RADIUS if leaf.window_size is None else leaf.window_size
                radius = own if rule.radius is None else rule.radius
                low, high = leaf.sentence_index - radius, leaf.sentence_index + radius
                inside = [
                    place.sequence_num
                    for place in self.leaves
                    if place.sentence_index is not None and low <= place.sentence_index <= high
                ]
                found = self._extent(inside[0], inside[-1], sequence_num)
            case ExpandMode.HIERARCHY:
                found = self._extent(*self._above(sequence_num, rule.levels_up), sequence_num)
        if found.chars <= rule.max_chars:
            return found
        # Too long: grows from what was asked for to both sides in turn, until the next chunk would be too much.
        kept = self._extent(first, last, found.requested[0])
        if kept.chars > rule.max_chars:
            kept = self._extent(first, first, found.requested[0])
        steps = [-1, 1]
        while steps:
            step = steps.pop(0)
            number = kept.first - 1 if step < 0 else kept.last + 1
            if not found.first <= number <= found.last:
                continue
            span = self.leaves[number].span
            # A chunk may reach further than the one after it.
            end = max(kept.end, Place(span.end, span.end_byte), key=lambda place: place.char)
            if step < 0:
                grown = replace(kept, first=number, start=Place(span.start, span.start_byte), end=end)
            else:
                grown = replace(kept, last=number, end=end)
            if grown.chars <= rule.max_chars:
                kept = grown
                steps.append(step)
        return replace(kept, truncated=True)

    def merge(self, extents: Sequence[Extent], max_chars: int) -> list[Extent]:
        """Return extents that share no text, in the order of the text.

        Those that touch or overlap become one when it is no longer than `max_chars`. Otherwise the later one begins
        where the earlier ends, and what was asked for in both counts as the earlier one's.
        """
        merged: list[Extent] = []
        # Of those that begin together the longest first, so that the others merge into it.
        for extent in sorted(extents, key=lambda extent: (extent.first, -extent.last)):
            before = merged[-1] if merged else None
            if before is None or (extent.first > before.last + 1 and extent.start.char > before.end.char):
                merged.append(extent)
            elif max(before.end.char, extent.end.char) - before.start.char <= max(max_chars, before.chars):
                # The start of the first one counts: text before it may belong to another chunk.
                merged[-1] = Extent(
                    first=before.first,
                    last=max(before.last, extent.last),
                    start=before.start,
                    end=max(before.end, extent.end, key=lambda place: place.char),
                    requested=(*before.requested, *extent.requested),
                    truncated=before.truncated or extent.truncated,
                )
            else:
                first = max(before.last + 1, extent.first)
                _, held_to = self._bounds(extent.requested[0])
                if held_to < first:
                    # Nothing of the second one's own chunks is left.
                    requested = (*before.requested, *extent.requested)
                    merged[-1] = replace(before, requested=requested, truncated=True)
                    continue
                begin = self.leaves[first].span
                start = max(Place(begin.start, begin.start_byte), before.end, key=lambda place: place.char)
                merged.append(Extent(first, extent.last, start, extent.end, extent.requested, truncated=True))
        # A chunk whose extent began in the text of an earlier one, and was joined to the rest of that, is back there.
        homes: dict[int, list[int]] = {}
        for at, extent in enumerate(merged):
            for number in extent.requested:
                _, last = self._bounds(number)
                home = next(place for place in range(at, -1, -1) if place == 0 or merged[place].first <= last)
                homes.setdefault(home, []).append(number)
        return [replace(extent, requested=tuple(homes.get(at, ()))) for at, extent in enumerate(merged)]

    def path_of(self, extent: Extent) -> tuple[str, ...]:
        """Return the headings that all chunks of an extent have in common, outermost first."""
        paths = [self.headings(number) for number in range(extent.first, extent.last + 1)]
        common = paths[0]
        for path in paths[1:]:
            pairs = zip(common, path, strict=False)
            common = common[: sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))]
        return common

    def headings(self, sequence_num: int) -> tuple[str, ...]:
        """Return the headings above a chunk of text; where levels have chunks, the last part names the chunk itself."""
        place = self.leaves[sequence_num]
        return place.hierarchy_path if place.parent is None else place.hierarchy_path[:-1]

    def _bounds(self, sequence_num: int) -> tuple[int, int]:
        """Return the first and last chunk of text that a chunk holds."""
        upper = self.uppers.get(sequence_num)
        return (sequence_num, sequence_num) if upper is None else self._below(upper)

    def _below(self, upper: ChunkLocation) -> tuple[int, int]:
        held = [
            leaf.sequence_num
            for leaf in self.leaves
            if leaf.span.start >= upper.span.start and leaf.span.end <= upper.span.end
        ]
        return (held[0], held[-1]) if held else (0, len(self.leaves) - 1)

    def _above(self, sequence_num: int, levels_up: int) -> tuple[int, int]:
        place = self.uppers.get(sequence_num) or self.leaves[sequence_num]
        if place.parent is None and not place.upper:
            # Without chunks for the levels a section is a run of chunks below the same headings.
            path = self.leaves[sequence_num].hierarchy_path
            prefix = path[: max(0, len(path) - levels_up + 1)]
            first = last = sequence_num
            while first > 0 and self.leaves[first - 1].hierarchy_path[: len(prefix)] == prefix:
                first -= 1
            while last + 1 < len(self.leaves) and self.leaves[last + 1].hierarchy_path[: len(prefix)] == prefix:
                last += 1
            return first, last
        for _ in range(levels_up):
            if place.parent is None:
                return 0, len(self.leaves) - 1
            place = self.uppers[place.parent]
        return self._below(place)

    def _extent(self, first: int, last: int, requested: int) -> Extent:
        """Return the extent from the first to the last chunk; a chunk may reach further than those after it."""
        start = self.leaves[first].span
        end = max((leaf.span for leaf in self.leaves[first : last + 1]), key=lambda span: span.end)
        return Extent(
            first, last, Place(start.start, start.start_byte), Place(end.end, end.end_byte), requested=(requested,)
        )


@dataclass(frozen=True, slots=True)
class Passage:
    """A range of a document around one or more chunks, verbatim; `path` holds the headings all of it stands below."""

    requested: tuple[StoredChunk, ...]
    span: Span
    content: str
    chunks: Sequence[StoredChunk]
    path: tuple[str, ...]
    truncated: bool


@dataclass(frozen=True, slots=True)
class ExpandChunks:
    """Expands chunks of one collection on one snapshot of the catalog."""

    chunks: Chunks
    approved_prefixes: tuple[str, ...] = ()

    def expand(
        self, caller: Identity, collection: str, references: Sequence[str | int], rule: Expansion, budget: Budget
    ) -> list[Passage]:
        """Return the passages in the order of the references; those of one document share no text.

        Raises:
            CollectionNotFoundError: no such collection.
            ChunkNotFoundError: a chunk does not exist, its source is not approved, or it is of another's scope.
            PreconditionError: a window is asked for around a chunk that is no sentence.
            InvalidRequestError: the passages are longer together than one response may be.
        """
        with self.chunks.passages(caller.tenant, collection) as reader:
            approved = (self.approved_prefixes, reader.collection.settings.approved_source_prefixes)
            requested = {}
            for reference in references:
                stored = reader.find(reference)
                source, own = stored.document.source_uri, stored.chunk
                # A chunk that no search would return does not exist for callers here either.
                is_withheld = withheld_because(source, own.section_title, own.chapter, approved) is not None
                if is_withheld or not is_in_scopes(stored.document, caller.scopes):
                    raise ChunkNotFoundError(str(reference))
                requested[stored.chunk_number] = stored
            return _passages(reader, list(requested.values()), rule, budget)

    def expand_found(
        self, caller: Identity, collection: str, numbers: Sequence[int], rule: Expansion, budget: Budget
    ) -> list[Passage]:
        """Return the passages around chunks that a search has just found, in that order.

        What was deleted or replaced since is left out. Errors are otherwise those of `expand`.
        """
        with self.chunks.passages(caller.tenant, collection) as reader:
            return _passages(reader, reader.live(numbers), rule, budget)


def _passages(
    reader: PassageReader, requested: Sequence[StoredChunk], rule: Expansion, budget: Budget
) -> list[Passage]:
    by_document: dict[str, list[StoredChunk]] = {}
    for chunk in requested:
        by_document.setdefault(chunk.document.document_id, []).append(chunk)
    extents = []
    for wanted in by_document.values():
        budget.check()
        document = wanted[0].document
        of_document = DocumentMap(
            reader.places(document.document_id), Place(document.total_chars, document.total_bytes)
        )
        chunks = {chunk.chunk.sequence_num: chunk for chunk in wanted}
        single = [of_document.expand(number, rule) for number in chunks]
        extents += [(of_document, chunks, extent) for extent in of_document.merge(single, rule.max_chars)]
    total = sum(extent.chars for _, _, extent in extents)
    if total > MAX_TOTAL_CHARS:
        too_much = f"the passages hold {total} characters together, above {MAX_TOTAL_CHARS}"
        raise InvalidRequestError.of("max_chars", f"{too_much}; ask for shorter or fewer")
    order = {chunk.chunk_number: position for position, chunk in enumerate(requested)}
    made = []
    for of_document, chunks, extent in extents:
        held = tuple(chunks[number] for number in sorted(set(extent.requested)))
        document_id = held[0].document.document_id
        passage = Passage(
            requested=held,
            span=Span(extent.start.char, extent.end.char, extent.start.byte, extent.end.byte),
            content=reader.text(document_id, extent.start.char, extent.end.char),
            chunks=reader.chunks(document_id, extent.first, extent.last),
            path=of_document.path_of(extent),
            truncated=extent.truncated,
        )
        made.append((min(order[chunk.chunk_number] for chunk in held), passage))
    return [passage for _, passage in sorted(made, key=itemgetter(0))]
