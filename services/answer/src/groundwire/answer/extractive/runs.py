"""Reads chunks that follow one another in their document as one text, and finds its ranges in them again."""

from collections.abc import Sequence
from dataclasses import replace

from groundwire.answer.evidence import Passage
from groundwire.answer.extractive.excerpt import Excerpt, Quoted
from groundwire.answer.plain_text import ends_sentence

_LONGEST_BREAK = 4
"""White space between two chunks that follow one another, in code points."""


def runs_of(passages: Sequence[Passage]) -> list[list[Passage]]:
    """Return the passages in runs of chunks that follow one another in their document; best ranked runs first."""
    runs: list[list[Passage]] = []
    for passage in sorted(passages, key=lambda each: (each.document_id, each.generation, each.span.start)):
        before = runs[-1][-1] if runs else None
        if (
            before is not None
            and (passage.document_id, passage.generation) == (before.document_id, before.generation)
            and 0 <= passage.span.start - before.span.end <= _LONGEST_BREAK
        ):
            runs[-1].append(passage)
        else:
            runs.append([passage])
    ranks = {each.chunk_id: place for place, each in enumerate(passages)}
    return sorted(runs, key=lambda run: min(ranks[each.chunk_id] for each in run))


def one_text_of(run: Sequence[Passage]) -> Passage:
    """Return the first passage of a run with the text of all of them."""
    content = ""
    for passage in run:
        gap = passage.span.start - run[0].span.start - len(content)
        # White space between chunks is a break of lines or of blocks, unless a sentence goes on behind it.
        is_headed = passage.section_heading and passage.content.startswith(passage.section_heading)
        goes_on = gap > 1 and not ends_sentence(content) and passage.content[0].islower() and not is_headed
        content += ("\n" + " " * (gap - 1) if goes_on else "\n" * gap) + passage.content
    return replace(run[0], content=content)


def in_chunks(found: Excerpt, run: Sequence[Passage]) -> Excerpt:
    """Return an excerpt of the text of a run with its places in the chunks that the run consists of."""
    (passage, start, _), *rest = quoted_of(run, found.start, found.end)
    return replace(
        found,
        passage=passage,
        start=start,
        end=start + found.end - found.start,
        header=tuple(
            part
            for each in found.header
            for part in (quoted_of(run, *each[1:]) if each[0] is found.passage else [each])
        ),
        rest=tuple(rest),
    )


def quoted_of(run: Sequence[Passage], start: int, end: int) -> list[Quoted]:
    """Return the ranges of the chunks of a run that a range of its text consists of."""
    origin = run[0].span.start
    parts = []
    for passage in run:
        offset = passage.span.start - origin
        first, last = max(start - offset, 0), min(end - offset, len(passage.content))
        if first < last and passage.content[first:last].strip():
            parts.append((passage, first, last))
    return parts
