"""Picks from retrieved passages what could stand in an answer: sentences, list items, lists, table rows, code."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, takewhile
from pathlib import PurePosixPath
from textwrap import dedent

from groundwire.answer.evidence import Markup, Passage
from groundwire.answer.extractive.definitions import LABEL, PART_OF_SECTION, REFERENCE, SAYS_WHAT_IS_ABOVE
from groundwire.answer.extractive.excerpt import MAX_CHARS, MIN_WORDS, Excerpt, Quoted
from groundwire.answer.extractive.plain_layout import RULE
from groundwire.answer.extractive.reading import ASKED, FIELD, MIN_FIELDS, NUMBER_WORDS, is_title, read_items
from groundwire.answer.extractive.records import record_excerpts
from groundwire.answer.extractive.runs import in_chunks, one_text_of, quoted_of, runs_of
from groundwire.answer.extractive.weights import LABEL_WORDS
from groundwire.answer.plain_text import TABLE_RULE, emphasis_marks, ends_sentence, plain_text, row_cells, row_text
from groundwire.answer.summaries import without_hearsay
from groundwire.kernel.records import SOURCE_PREFIX
from groundwire.kernel.sentences import QUESTION_MARKS, BlockKind, Sentence, heading_text, split_sentences
from groundwire.kernel.words import words

MAX_ITEM_CHARS = 300
"""Length up to which an item that explains a term is quoted whole."""
MAX_CODE_CHARS = 900
MAX_LIST_ITEMS = 12
MAX_LIST_CHARS = 1200
"""Of longer lists only the names of the items are quoted, and only where something introduces them."""
MAX_NAMED_ITEMS = 30


_NUMBERED = re.compile(r"(?<!\d)(\d+)[.)][ \t]*+\Z")
_LONGEST_MARK = 8
_HEADING_NUMBER = re.compile(
    r"(?:(?i:chapter|appendix|part|section)\s++[A-Z\d]++|[A-Z]?\d++|[A-Z](?=\.\d))(?:\.\d++)*+[.:]?\s++"
)
# "6.2.2. Installing", "A.7. Tails" and "(12) May I?", but not "3.10 New features" of a version.
_SECTION_NUMBER = re.compile(
    r"(?:\d++|[A-Z]\.\d++)(?:\.\d++)*+\.\s++(?=[^\W\d])|(?:\d++(?:\.\d++)++|\(\d++\))\s++(?=[^\n]*\?\Z)"
)
# Of headings only these are quoted: a version with its date.
_RELEASE = re.compile(r"(?<![\w.])v?\d++(?:\.\d++)++\w{0,8}\b[^\n]{0,40}?\b(?:19|20)\d\d\b")
_LINK = re.compile(r"\[[^\[\]]*+\]\([^()]*+\)")
_TO_SECTION = re.compile(r"\[[^\n]{1,200}\]\(#[^()\s]*+\)")
# A link to another page, behind which a colon or dash announces what that is about.
_TO_PAGE = re.compile(
    r"\W{0,4}\[[^\[\]]{1,120}\]\((?!\w+:)[^\s()#]{1,200}(?:#[^\s()]{0,100})?\)\W{0,3}[:\u2013\u2014-]\s"
)
# An address alone, perhaps behind an arrow.
_URL = re.compile(r"\W*+[a-z]+://\S+")
_CAPTION = re.compile(r"(?:Figure|Fig\.|Listing|Table|Filename)\s*[\d:]", re.IGNORECASE)
# A quote with `[1]` in it could not be told from the answer's own markers.
_LIKE_A_MARKER = re.compile(r"\[\d+\]")
_WORD = re.compile(r"\w")
# "Fast, minimalist web framework", and "Create the next state by modifying the current one", have none of these.
_NO_TAGLINE = re.compile(
    r"\b(?:is|are|was|were|be|been|can|could|will|would|should|may|might|must|has|have|had|does?|did|i|you|your|we|our|us"
    r"|please|see|note|this|these|there|here|if|when)\b|https?:",
    re.IGNORECASE,
)
_PAGE_TITLE = re.compile(r"= *[^ =]")
# "### `max_items`", "### class `Owl`": a heading that is code, which names what the section describes.
_CODE_HEADING = re.compile(r"[#\s]*+(?:[a-z]+ ){0,2}(?P<marks>`{1,2})(?P<name>[^`\n]+)(?P=marks)\W*")
# What a function takes, below its name: `(name, *, age=0)`, maybe in several ways.
_CODE_LINES = re.compile(r"(?:`[^`\n]++`\s*+)++")
# What an item of a list is about: "Peer authentication, which …".
_ITEM_NAME = re.compile(r"[^,;:(\u2014.]{2,60}(?=[,;:(\u2014]|\.?$)")
# A term in the line of what explains it, which print sets apart: "job A set of processes".
_RUN_IN = re.compile(r"^(?P<term>[^.:;,()]{2,60}?) (?=(?:An?|The|Any|One) [a-z])")
# A list of fields: `:Exit code 5: No tests were collected`.
_RST_FIELD = re.compile(r"^[ \t]*+:[^:\n]{1,60}:[ \t]++\S[^\n]*+(?:\n(?![ \t]*+:)[^\n]++)*+", re.MULTILINE)
# Nothing ends with these words, not even what ends without a full stop.
_UNFINISHED = re.compile(
    r"\b(?:an?|the|and|or|nor|but|of|to|in|on|at|for|from|with|by|into|as|is|are|was|were|be|that|which|if|because|than"
    r"|its|their|your|our)$",
    re.IGNORECASE,
)
_SPEAKING_WORDS = 11
_NAME_WORDS = 3
_ONLY_INTRODUCES = re.compile(
    r"^here (?:is|are)\b"
    r"|\b(?:like (?:this|so)|this|these|that|those|following|follows|below|here|include[sd]?|including|such as|are|is"
    r"|was|were|by|with|of|as|for|to|in|on|either|use|run|type|enter|steps?|examples?|commands?|output|error|code|contents?|ways?|things?)\W*$",
    re.IGNORECASE,
)
# Above a list, also where it ends with a full stop: "The following levels are recognized."
_FOLLOWING = re.compile(r"\b(?:the following|as follows)\b", re.IGNORECASE)
_SAYS_WHAT = re.compile(r"(?:description|purpose|summary|synopsis):", re.IGNORECASE)
_PAIR = 2
_OF_WRITERS = re.compile(r"(?:author|creator|writer|by|editor)s?:", re.IGNORECASE)
_SHELL = re.compile(r"(?:```|~~~)[ \t]*+(?:bash|sh|shell|console|terminal|powershell|zsh)\b")
_DIRECTIVE = re.compile(r"\{\{[^{}]*+\}\}")
_EDITORIAL = re.compile(
    r"(?:TODO|FIXME|XXX|TBD)\b|(?:answer: )?(?:see|compare|cf\.)\s.{1,80}$"
    r"|(?:for (?:more|further) (?:information|details),? )?(?:please )?(?:read|check ?out|visit|refer to|consult|see)"
    r" (?:(?:the|our) (?:\w+ )?"
    r"(?:docs|documentation|manual|page|guide|tutorial)|(?:section|chapter|appendix) [A-Z\d])\b.{0,100}$"
    r"|(?:see also|read on|back to|next|previous|source|edit this page):?\s*$",
    re.IGNORECASE,
)
# An item of a list of topics: "What a span is", "Examples of operations".
_TOPIC = re.compile(r"(?:what|how|when|where|which|why|who|whether|examples? of)\b", re.IGNORECASE)
_POINTS_ELSEWHERE = re.compile(
    r"\b(?:the following|as follows|(?:see|listed|shown|described|given|explained|mentioned|defined|discussed)"
    r" (?:above|below|earlier|later|here)|on this page|on the (?:next|previous) page"
    r"|in the (?:next|previous|following) (?:chapter|section|example|listing)"
    r"|(?:example|table|list|figure|code) (?:above|below))\b",
    re.IGNORECASE,
)
# At the end of a sentence, which says what it does without it: "…, as described above."
_REMARK = re.compile(
    r"(?:,\s++|(?<!\s)\s++(?:\(\s*+|(?=as\s+\w+(?:ed|wn)\b)))(?:as|see)\s+"
    r"(?:(?:described|shown|explained|mentioned|defined|discussed|noted)\s+)?"
    r"(?:above|below|earlier|in\s+the\s+(?:next|previous)\s+(?:chapter|section))\s*\)?\.\Z",
    re.IGNORECASE,
)
# "13 Here is an example", as footnotes stand in PDFs.
_FOOTNOTE = re.compile(r"\d{1,3} [A-Z][a-z]")
_LEANS = re.compile(
    r"(?:this|that|these|those|it|its|they|their|them|he|she|his|her|such|however|but|and|or|so|also|then|here"
    r"|if (?:so|not)|(?:to do|by doing|in doing|for|with|after|before|because of|from) (?:so|this|that|these|those)"
    r"|therefore|thus|hence|instead|otherwise|similarly|likewise|additionally|furthermore|moreover|nevertheless"
    r"|consequently|in (?:other words|this (?:case|example|way)|that case|the same way|contrast|addition|fact)"
    r"|for (?:example|instance)|as (?:a result|such)|on the other hand|at (?:this|that) point|again|finally|next|now"
    r"|(?:\w+ ){1,3}(?:can|could|may|might|should|must|will|is|are) also"
    r"|(?:the )?default(?: value)? is|defaults to"
    r"|another|both|which|(?:one|some|two) such"
    r"|the (?:latter|former)|one (?:of them|is)|the (?:second|third|other|others|same)"
    r"|the first(?= (?:is|are|was|has|one|of|two|three)\b)"
    r"|(?:an?|any|each|every|the) (?:[\w-]+ ){1,3}(?:on|in|of|to|from|with|through|by) (?:this|that|these|those) [a-z]+"
    r"|(?:an?|the) (?:[\w-]+ ){1,3}(?:is|are|was|were) then)\b",
    re.IGNORECASE,
)
_OF_THESE = re.compile(
    r"\b(?:any|each|either|one|some|all|both|none|many|most|several|few) of (?:these|those)\b"
    r"|^(?:(?! (?:and|or) ).)*\bthe (?:latter|former)(?=[.,;:)]| (?:is|are|was|were|has|have|can|will|case|one)\b)",
    re.IGNORECASE,
)
# "It is possible that ..." and "This chapter ..." lean on nothing.
_LEANS_ON_NOTHING = re.compile(
    r"(?:it (?:is|was|will be|would be|may be|can be|'s) (?:\w+ly )?(?:possible|impossible|necessary|important|easy"
    r"|hard|difficult|common|likely|recommended|an error|not possible|worth|best|better|useful|clear|estimated"
    r"|believed|said|thought|known)\b|this (?:pep|document|page|book|guide|module|function|class|package|chapter"
    r"|handbook|plan|policy|specification)\b|these days\b|here (?:is|are)\b|that said\b|now that\b|so that\b"
    r"|for this (?:pep|document|page|book|guide)\b|and/or\b)",
    re.IGNORECASE,
)


def find_excerpts(passages: Sequence[Passage]) -> list[Excerpt]:
    """Return what the passages offer, in their order; text that several passages share comes once.

    Left out are headings, images and other markup, captions, questions, labels, editorial notes, fragments at the
    border of a chunk, and sentences that only point at what stands elsewhere. A lead-in that ends with a colon comes
    with what it introduces or not at all.
    """
    runs = [(run, one_text_of(run)) for run in runs_of(passages)]
    readers = [None if passage.markup is Markup.RECORDS else _Reader(run, passage) for run, passage in runs]
    headers = [header for reader in readers if reader is not None for header in reader.table_headers()]
    excerpts: dict[tuple[str, int, int, int], Excerpt] = {}
    place = 0
    for (run, passage), reader in zip(runs, readers, strict=True):
        text = (passage, 0, len(passage.content))
        for found in record_excerpts(*text) if reader is None else reader.excerpts(headers):
            excerpt = replace(in_chunks(found, run), place=place)
            span = excerpt.passage.span
            key = excerpt.passage.document_id, excerpt.passage.generation
            excerpts.setdefault((*key, span.start + excerpt.start, span.start + excerpt.end), excerpt)
            place += 1
        place += 1  # what stands elsewhere is not read on from this
    return list(excerpts.values())


def _is_label(text: str) -> bool:
    """Tell whether the text of an item only names what the items below it are about: "Yearly"."""
    return len(words(text)) < LABEL_WORDS and not ends_sentence(text) and not text.endswith((":", "?"))


def _shown_list(intro: str, marks: Sequence[str], items: Sequence[str]) -> str:
    shown = (f"{mark} {item}" for mark, item in zip(marks, items, strict=True))
    return "\n".join([*([intro] if intro else []), *shown])


@dataclass(frozen=True, slots=True)
class _TableHeader:
    """The header of a table: where the chunks have it, and its cells."""

    quoted: tuple[Quoted, ...]
    names: list[str]

    @property
    def start(self) -> int:
        passage, start, _ = self.quoted[0]
        return passage.span.start + start

    def may_be_of(self, passage: Passage) -> bool:
        """Tell whether a table may go on in a passage: in the same section, further down."""
        above, *_ = self.quoted[0]
        is_same = (above.document_id, above.generation) == (passage.document_id, passage.generation)
        return is_same and above.section_heading == passage.section_heading and self.start < passage.span.start


class _Reader:
    """Reads the text of a run of chunks, joined in one passage, from top to bottom."""

    def __init__(self, run: Sequence[Passage], passage: Passage) -> None:
        self.passage, content = passage, passage.content
        self._run = run
        # The titles of the sections of a PDF or plain text, which little but the passages tells from other lines.
        titles = {
            title for each in run for title in (each.section_heading, each.section) if title not in {"", each.title}
        }
        self._titles = {tuple(words(title)) for title in titles} if passage.markup is Markup.NONE else set()
        content, self.items = read_items(passage, self._titles)
        self._is_record = passage.source_uri.startswith(SOURCE_PREFIX)
        if self._is_record:
            # What the assistant said, as a summary has it, is no source for what it says.
            self.items = split_sentences(without_hearsay(content))
        self._content = content
        self._stray_marks = self._marks_across_sentences() if passage.markup is Markup.MARKDOWN else []
        # A text without headings has its title in their place.
        has_heading = passage.markup is not Markup.NONE or passage.section_heading != passage.title
        self._heading = self._without_number(passage.section_heading) if has_heading else ""
        # What stands above the first heading is about the document.
        self._is_opening = passage.span.start == 0 and passage.markup in {Markup.MARKDOWN, Markup.RST}
        if self._is_opening:
            self._heading = passage.document_name
        self._names_code = REFERENCE.fullmatch(self._heading) is not None
        # The last heading that says what its section is about; those of parts, such as "Purpose", come behind it.
        self._above, self._above_level = "", 0
        self._above_span: tuple[Quoted, ...] = ()
        self._heading = self._with_above(self._heading, level=0)
        self._title = self._heading if self._titles else ""
        self._opening: int | None = None
        self._antecedent: Sentence | None = None
        self._lead_in: Sentence | None = None
        # What the last of several records below one heading is about; text below it says more of that.
        self._record = ""

    def table_headers(self) -> Iterator[_TableHeader]:
        """Yield the headers of tables, which a part of a long table that stands in another run lacks."""
        for item in self.items:
            if item.kind is BlockKind.TABLE and (header := self._header(self._table_lines(item))):
                names = row_cells(self._content[slice(*header)], self.passage.markup)
                yield _TableHeader(tuple(quoted_of(self._run, *header)), names)

    def excerpts(self, headers: Sequence[_TableHeader]) -> Iterator[Excerpt]:
        """Yield what the run offers, from top to bottom; `headers` are those of the tables of all runs."""
        self._headers = headers
        index = 0
        opens = self._is_opening
        held: Excerpt | None = None  # a lead-in, which is quoted alone only where what it introduces is not
        while index < len(self.items):
            item = self.items[index]
            following = index + 1
            found: list[Excerpt] = []
            lists_parts = False
            match item.kind:
                case BlockKind.HEADING:
                    yield from self._section(item)
                    opens = True
                case BlockKind.TABLE:
                    found += self._table(item)
                    self._lead_in = None
                case BlockKind.CODE:
                    found += self._code(index)
                    self._antecedent = self._lead_in = None
                case BlockKind.LIST_ITEM:
                    listed = [*takewhile(lambda each: each.kind is BlockKind.LIST_ITEM, self.items[index:])]
                    following = index + len(listed)
                    before_code = self._before_code(following)
                    found += self._list(listed, before_code)
                    lists_parts = opens and self._lists_parts(listed)
                    if lists_parts and (fields := [*self._listed_fields(listed)]):
                        found = [*fields, *(each for each in found if each.is_whole)]
                    self._antecedent, self._lead_in = None, before_code
                case BlockKind.PROSE:
                    found += self._prose(index)
                case BlockKind.MARKUP:
                    self._antecedent = None
            if held is not None and not any(each.is_whole and each.start <= held.start for each in found):
                yield held
            held = None
            for excerpt in found:
                held = self._named(replace(excerpt, heading=self._heading, opens=opens, is_of_code=self._names_code))
                if self._lead_in is not item:
                    yield held
                    held = None
            # What the first sentence introduces opens the section with it.
            lists_parts = lists_parts or all(each.field_of for each in found)
            opens = opens and (self._lead_in is item or lists_parts)
            index = following
        if held is not None:
            yield held

    def _before_code(self, index: int) -> Sentence | None:
        """Return the sentence that code at an index ends: "To leave, the command is", and below it `quit`."""
        if index == len(self.items) or self.items[index].kind is not BlockKind.CODE:
            return None
        said = self._plain(self.items[index - 1].start, self.items[index - 1].end)
        is_open = len(words(said)) >= LABEL_WORDS and not ends_sentence(said)
        return self.items[index - 1] if is_open or said.endswith(":") else None

    def _section(self, item: Sentence) -> Iterator[Excerpt]:
        """Begin the section of a heading, which is quoted only where it has the date of a release."""
        lines = self._source(item).splitlines()
        heading = line = " ".join(filter(_WORD.search, lines)).strip()
        # The title of a page in a dump names its subject only, not what its first section is about.
        is_page = _PAGE_TITLE.match(heading) is not None
        heading = "" if is_page else ASKED.sub("", heading.strip("#= "), count=1)
        is_markdown = self.passage.markup is Markup.MARKDOWN
        self._heading = heading_text(heading) if is_markdown else plain_text(heading, self.passage.markup)
        self._heading = self._without_number(self._heading)
        if code := _CODE_HEADING.fullmatch(line):
            self._heading = code["name"].partition("(")[0].strip() or code["name"]
        if self._title and self._heading.endswith(":"):
            # "Job summary:" has its place below the title of the job.
            self._heading = f"{self._title}: {self._heading[:-1]}"
        elif is_title(heading, self._titles):
            self._title = self._heading
        # The title without the lines above and below it.
        title = next(filter(_WORD.search, lines), "")
        start = self._content.find(title, item.start)
        level = len(line) - len(line.lstrip("#"))
        if PART_OF_SECTION.fullmatch(self._heading):
            self._heading = self._with_above(self._heading, level=level)
        else:
            self._names_code = code is not None or REFERENCE.fullmatch(self._heading) is not None
            self._above, self._above_level = self._heading, level
            self._above_span = ((self.passage, start, start + len(title)),) if self._heading else ()
        self._antecedent, self._lead_in, self._record = None, None, ""
        if _RELEASE.search(self._heading):
            kind, end = BlockKind.LIST_ITEM, start + len(title)
            yield Excerpt(self.passage, kind, start, end, self._heading, "", heading=self._heading)

    def _without_number(self, heading: str) -> str:
        numbers = _HEADING_NUMBER if self.passage.markup is Markup.NONE else _SECTION_NUMBER
        number = numbers.match(heading)
        return heading if number is None else heading[number.end() :]

    def _with_above(self, heading: str, *, level: int) -> str:
        """Return a heading behind the one above it where it says nothing by itself: "/srv: Purpose"."""
        if not PART_OF_SECTION.fullmatch(heading):
            return heading
        # A heading that stands there above this one, of a section and not of all the chapter.
        is_of_section = self._above in map(self._without_number, (each.section for each in self._run))
        chapters = map(self._without_number, (each.chapter for each in self._run))
        is_of_chapter = not is_of_section and self._above in chapters
        is_above = level > self._above_level if level else is_of_section
        if not self._above_span or not is_above or is_of_chapter:
            # What the chunks say of this heading, unless several sections have one.
            of_it = [each for each in self._run if self._without_number(each.section_heading) == heading]
            above = list(dict.fromkeys(self._without_number(each.section) for each in of_it))
            if len(above) == 1 and SAYS_WHAT_IS_ABOVE.fullmatch(heading):
                name = self._without_number(of_it[0].document_name)
                # A long title tells what a text is about, and is no name of one thing as `npm-ci` is.
                of_document = name if len(words(name)) <= _NAME_WORDS else ""
                above += [self._without_number(of_it[0].chapter), of_document]
            elif len(above) > 1:
                above = []
            named = next((each for each in above if each and not PART_OF_SECTION.fullmatch(each)), "")
            self._above_span = self._above_span if named == self._above else ()
            self._above = named
        return f"{self._above}: {heading}" if self._above not in {"", heading} else heading

    def _named(self, excerpt: Excerpt) -> Excerpt:
        """Return what opens the section of an option, a setting or a function, or a README, with the name of that."""
        if excerpt.opens and excerpt.kind is BlockKind.PROSE:
            self._opening = excerpt.start
        is_opening = excerpt.kind is BlockKind.PROSE and excerpt.start == self._opening
        is_tagline = is_opening and _NO_TAGLINE.search(excerpt.text) is None and LABEL.match(excerpt.text) is None
        if is_tagline and self._is_of_document():
            return replace(excerpt, tagline_of=self._heading)
        # "This directory holds …" opens a section on `/srv`.
        is_part = self._heading != self._above and self._above_span != ()
        refers = excerpt.leans or excerpt.text.startswith("This ")
        is_named = self._names_code or (refers and is_part)
        if not is_opening or not is_named or self._above in excerpt.text:
            return excerpt
        return replace(excerpt, text=f"{self._above}: {excerpt.text}", header=self._above_span)

    def _is_of_document(self) -> bool:
        """Tell whether the heading is that of a whole README, or of a page such as `mpmath.rst` named after it."""
        file_name = PurePosixPath(self.passage.source_uri).stem
        is_front = self.passage.is_front_page or words(self._heading) == words(file_name)
        return is_front and self._heading in {self.passage.chapter, self.passage.document_name}

    def _source(self, item: Sentence) -> str:
        return self._content[item.start : item.end]

    def _plain(self, start: int, end: int) -> str:
        text = self._content[start:end]
        first, last = (bisect_left(self._stray_marks, border, key=lambda mark: mark.start) for border in (start, end))
        for mark in reversed(self._stray_marks[first:last]):
            text = text[: mark.start - start] + text[mark.stop - start :]
        return plain_text(text, self.passage.markup)

    def _marks_across_sentences(self) -> list[range]:
        """Return the marks of emphasis that begins in one sentence and ends in another, where each would show one."""
        starts = [item.start for item in self.items]
        return sorted(
            (
                mark
                for pair in emphasis_marks(self._content)
                if bisect_right(starts, pair[0].start) != bisect_right(starts, pair[1].start)
                for mark in pair
            ),
            key=lambda mark: mark.start,
        )

    def _prose(self, index: int) -> Iterator[Excerpt]:
        item = self.items[index]
        text, end = self._sentence(item)
        # The colons that announce code, behind the sentence that says what it shows, and what a function takes.
        if not _WORD.search(text) or _CODE_LINES.fullmatch(self._source(item)):
            return
        if text.endswith(";") and ("=" in text or "|" in text):
            return  # code that a page of HTML has as a paragraph: `PRAGMA cache_size = pages;`
        # Before all else, because the last field of a head may be empty: `Post-History:`.
        if fields := list(self._fields(item)):
            self._antecedent = self._lead_in = None
            yield from fields
            return
        before = self._antecedent
        next_kind = self.items[index + 1].kind if index + 1 < len(self.items) else None
        is_above_list = next_kind is BlockKind.LIST_ITEM and _FOLLOWING.search(text) is not None
        if text.endswith(":") or is_above_list or self._before_code(index + 1) is item:
            self._lead_in = item
            if len(words(text)) < _SPEAKING_WORDS or _ONLY_INTRODUCES.search(text) or self._content[end - 1] != ":":
                return
            # It says something by itself, also where what it introduces cannot be quoted.
            text, end = f"{text[:-1]}.", end - 1
        else:
            self._antecedent = self._lead_in = None
        is_short = len(words(text)) < LABEL_WORDS and not self._is_record  # memories are typed without a full stop
        if not ends_sentence(text) and (is_short or self._repeats_title(item)):
            return  # a heading that nothing marks as one, a cell of a table, a job title
        if not _is_statement(text) or self._is_cut_off(item) or self._is_link(item.start, item.end):
            return
        if self.passage.markup is Markup.NONE and _FOOTNOTE.match(text):
            return
        if self._lead_in is None:
            self._antecedent = item
        start = item.start
        # What goes on behind code says nothing without it.
        goes_on = index > 0 and self.items[index - 1].kind is BlockKind.CODE and self._content[start].islower()
        leans, is_joined = goes_on or _leans(text), False
        if leans and before is not None and not _leans(self._plain(before.start, before.end)):
            joined = f"{self._plain(before.start, before.end)} {text}"
            if len(joined) <= MAX_CHARS and _is_statement(self._plain(before.start, before.end)):
                start, text, leans, is_joined = before.start, joined, False, True
        about = f"{self._heading}{self._record}"
        about = about if before is None else f"{about} {self._plain(before.start, before.end)}"
        yield Excerpt(self.passage, item.kind, start, end, text, about, is_joined=is_joined, leans=leans)

    def _sentence(self, item: Sentence) -> tuple[str, int]:
        """Return the text of a sentence, and where it ends without a remark that sends the reader elsewhere."""
        remark = _REMARK.search(self._source(item))
        end = item.end if remark is None else item.start + remark.start()
        text = self._plain(item.start, end) if remark is None else f"{self._plain(item.start, end)}."
        if self.passage.markup is Markup.NONE and item.begins_block:
            text = _RUN_IN.sub(r"\g<term>: ", text, count=1)
        return text, end

    def _repeats_title(self, item: Sentence) -> bool:
        """Tell whether a line of a PDF says little but the title of its section: "Job title: Manager of Sales"."""
        said, title = words(self._source(item)), words(self._title)
        is_line = item.begins_block and item.ends_block and len(said) <= len(title) + NUMBER_WORDS
        return bool(title) and is_line and set(title) <= set(said)

    def _fields(self, item: Sentence) -> Iterator[Excerpt]:
        """Yield the fields that a paragraph consists of: of the head of a document, of a list of them, or one alone."""
        kind, end = BlockKind.LIST_ITEM, item.end
        fields = [each.span() for each in FIELD.finditer(self._content, item.start, end)]
        is_rst = self.passage.markup is Markup.RST
        listed = [each.span() for each in _RST_FIELD.finditer(self._content, item.start, end)] if is_rst else []
        if len(listed) > max(1, len(fields)):
            for first, last in listed:
                yield Excerpt(self.passage, kind, first, last, self._plain(first + 1, last), self._heading)
        elif len(fields) >= MIN_FIELDS and self._is_repeated(fields[0]):
            self._record = self._plain(*fields[0]).partition(":")[2]
            yield from record_excerpts(self.passage, item.start, end)
        elif len(fields) >= MIN_FIELDS:
            # What the first two say is what the others are about: "PEP: 8", "Title: Style Guide".
            about = " ".join(self._plain(*each) for each in fields[:2])
            for each in fields:
                text = self._plain(*each)
                of = f"{about} wrote written" if _OF_WRITERS.match(text) else about
                yield Excerpt(self.passage, kind, *each, text, about, field_of=of)
        elif item.begins_block and item.ends_block and self._heading:
            text = self._plain(item.start, end)
            if len(words(text)) < LABEL_WORDS:
                yield from self._field_below_name(item, text)

    def _field_below_name(self, item: Sentence, text: str) -> Iterator[Excerpt]:
        """Yield what stands below the name of a setting as `Default: 30`, and says it of that, or nothing."""
        kind, of, header = BlockKind.LIST_ITEM, self._heading, self._above_span
        if LABEL.match(text) and not _EDITORIAL.match(text):
            text = f"{of}: {text}" if header else text
            yield Excerpt(self.passage, kind, item.start, item.end, text, of, field_of=of, header=header)

    def _lists_parts(self, items: Sequence[Sentence]) -> bool:
        """Tell whether a list is of fields or parameters of what the heading names, which opens no section."""
        fronts = [each for each in items if each.begins_block]
        return (
            self._lead_in is None
            and self._names_code
            and all(
                self._content.startswith("`", each.start) or LABEL.match(self._content, each.start, each.end)
                for each in fronts
            )
        )

    def _listed_fields(self, items: Sequence[Sentence]) -> Iterator[Excerpt]:
        """Yield the items of a list that consists of fields of what the heading names: type, default and the like."""
        texts = [self._plain(item.start, item.end) for item in items]
        if not any(map(ends_sentence, texts)):
            fields = [field for each in zip(items, texts, strict=True) for field in self._field_below_name(*each)]
            yield from fields if len(fields) == len(items) else ()

    def _is_repeated(self, field: tuple[int, int]) -> bool:
        """Tell whether other paragraphs begin with a field of this name, as the entries of an address book do."""
        name = self._content[slice(*field)].partition(":")[0]
        return len(re.findall(rf"(?:\A|\n[ \t]*\n){re.escape(name)}:", self._content)) > 1

    def _list(self, items: Sequence[Sentence], before_code: Sentence | None) -> Iterator[Excerpt]:
        if self._is_cut_off(items[-1]):
            items = items[:-1]
        if all(_TO_SECTION.fullmatch(self._content, item.start, item.end) for item in items):
            return  # a table of contents, or nothing
        intro, intro_start = self._introduction(self._lead_in, items[0].start)
        about = f"{self._heading} {intro}"
        entries: list[list[Sentence]] = []
        for item in items:
            if item.begins_block or not entries:
                entries.append([])
            entries[-1].append(item)
        ranges = [self._with_emphasis(entry[0].start, entry[-1].end) for entry in entries]
        texts = [self._plain(start, end) for start, end in ranges]
        paths = self._paths([start for start, _ in ranges])
        numbers = [_NUMBERED.search(self._content[max(0, start - _LONGEST_MARK) : start]) for start, _ in ranges]
        marks = [
            f"{'  ' * len(path)}{number[1]}." if number else f"{'  ' * len(path)}-"
            for path, number in zip(paths, numbers, strict=True)
        ]
        for place, (entry, path) in enumerate(zip(entries, paths, strict=True)):
            above = " ".join([about, *(texts[parent] for parent in path)])
            label = ranges[path[-1]] if path and _is_label(texts[path[-1]]) else None
            yield from self._item(entry, above, before_code, label)
            if not _is_label(texts[place]):
                continue
            after = next((other for other in range(place + 1, len(paths)) if place not in paths[other]), len(paths))
            below = range(place + 1, after)
            if len(below) > 1:
                indent = 2 + 2 * len(path)
                part = _shown_list(
                    f"{texts[place]}:", [marks[each][indent:] for each in below], [texts[each] for each in below]
                )
                if len(below) <= MAX_LIST_ITEMS and len(part) <= MAX_LIST_CHARS:
                    start, end = ranges[place][0], ranges[below[-1]][1]
                    yield Excerpt(self.passage, BlockKind.LIST_ITEM, start, end, part, above, is_whole=True)
        whole = _shown_list(intro, marks, texts)
        if intro and not any(numbers) and (len(entries) > MAX_LIST_ITEMS or len(whole) > MAX_LIST_CHARS):
            # Of a long list, what the items are about.
            names = [_ITEM_NAME.match(text) for text in texts]
            whole = _shown_list(intro, marks, [name[0] for name in names if name]) if all(names) else whole
            is_short = len(entries) <= MAX_NAMED_ITEMS
        else:
            # A number before one item alone says that others are missing.
            is_short = len(entries) <= MAX_LIST_ITEMS if len(entries) > 1 else bool(intro) and numbers == [None]
        # The options of a program are no list of anything without a sentence that says so.
        is_listed = bool(intro) or not all(text.startswith("-") for text in texts)
        if is_short and is_listed and len(whole) <= MAX_LIST_CHARS:
            # What is quoted holds the numbers that are shown, so the first one too.
            first = ranges[0][0] - len(numbers[0][0]) if numbers[0] else items[0].start
            start, end = intro_start if intro else first, items[-1].end
            yield Excerpt(self.passage, BlockKind.LIST_ITEM, start, end, whole, self._heading, is_whole=True)

    def _paths(self, starts: Sequence[int]) -> list[list[int]]:
        """Return for each item of a list the items that it stands below, outermost first, by their places."""
        paths: list[list[int]] = []
        indents: list[int] = []
        for start in starts:
            line = self._content[self._content.rfind("\n", 0, start) + 1 : start]
            indents.append(len(line) - len(line.lstrip("> \t")))
            path = [*paths[-1], len(paths) - 1] if paths else []
            while path and indents[path[-1]] >= indents[-1]:
                path.pop()
            paths.append(path)
        return paths

    def _item(
        self,
        entry: Sequence[Sentence],
        about: str,
        before_code: Sentence | None,
        label: tuple[int, int] | None,
    ) -> Iterator[Excerpt]:
        def introduces(each: Sentence) -> bool:
            return each is before_code or self._plain(each.start, each.end).endswith(":")

        # What introduces something below the item says little without that.
        said = [*dropwhile(introduces, reversed(entry))][::-1]
        if not said:
            return
        start, end = self._with_emphasis(said[0].start, said[-1].end)
        text = self._plain(start, end)
        if (_TOPIC.match(text) and not ends_sentence(text)) or self._is_link(start, end):
            return
        term = LABEL.match(self._content, said[0].start, said[0].end)
        if label is not None and len(said) == 1:
            labelled = f"{self._plain(*label)}: {text}"
            if _is_statement(labelled) and not _EDITORIAL.match(text):
                header = ((self.passage, *label),)
                yield Excerpt(self.passage, BlockKind.LIST_ITEM, start, end, labelled, about, header=header)
            return
        if len(said) > 1 and len(text) > (MAX_ITEM_CHARS if term else MAX_CHARS):
            yield from self._said_of(said, term, about)
        elif _is_statement(text):
            yield Excerpt(self.passage, BlockKind.LIST_ITEM, start, end, text, about, leans=_leans(text))

    def _said_of(self, entry: Sequence[Sentence], term: re.Match[str] | None, about: str) -> Iterator[Excerpt]:
        """Yield the sentences of a long item one by one, each with the term that the item explains."""
        kind = BlockKind.LIST_ITEM
        for each in entry:
            text = self._plain(each.start, each.end)
            if not _is_statement(text):
                continue
            if term is None or each is entry[0]:
                yield Excerpt(self.passage, kind, each.start, each.end, text, about, leans=_leans(text))
                continue
            label = self._plain(*term.span("term"))
            header = ((self.passage, *term.span("term")),)
            shown = f"{label}: {text}"
            yield Excerpt(self.passage, kind, each.start, each.end, shown, f"{about} {label}", header=header)

    def _introduction(self, lead_in: Sentence | None, start: int) -> tuple[str, int]:
        """Return what introduces a list or code at `start`, empty if nothing does, and where that begins.

        One that leans ("These include:") comes with the sentence before it.
        """
        if lead_in is None:
            return "", start
        intro, before = self._plain(lead_in.start, lead_in.end), self._antecedent
        if before is not None and before is not lead_in and _leans(intro):
            joined = self._plain(before.start, lead_in.end)
            if len(joined) <= MAX_CHARS:
                return joined, before.start
        return intro, lead_in.start

    def _with_emphasis(self, start: int, end: int) -> tuple[int, int]:
        """Return the range with the marks of emphasis at its ends that splitting into sentences has left outside."""
        front, back = start, end
        while front and self._content[front - 1] in "*_":
            front -= 1
        while back < len(self._content) and self._content[back] in "*_":
            back += 1
        return front, back

    def _code(self, index: int) -> Iterator[Excerpt]:
        item, before = self.items[index], self.items[index - 1] if index else None
        indent = self._content[self._content.rfind("\n", 0, item.start) + 1 : item.start]
        lines = dedent(f"{indent}{self._source(item)}").splitlines()
        # In reStructuredText `~~~` stands below a heading that the code shows.
        is_rst = self.passage.markup is Markup.RST
        is_fence = [not is_rst and line.strip().startswith(("```", "~~~")) for line in lines]
        if is_fence[-1] and not is_fence[0]:
            return  # the end of code that begins before the passage
        code = "\n".join(line for line, is_mark in zip(lines, is_fence, strict=True) if not is_mark)
        if not code.strip() or len(code) > MAX_CODE_CHARS or _DIRECTIVE.search(code) or _LIKE_A_MARKER.search(code):
            return
        intro, start = self._introduction(self._lead_in or self._antecedent, item.start)
        if len(intro) > MAX_CHARS:
            intro, start = "", item.start
        text = f"{intro}\n{code}" if intro else code
        # Of the tabs for several systems the first one comes with what introduces all.
        is_tab = before is not None and before.kind is BlockKind.CODE and self._is_shell(before) == self._is_shell(item)
        leans = is_tab or (start < item.start and _leans(text))
        yield Excerpt(self.passage, BlockKind.CODE, start, item.end, text, f"{self._heading} {intro}", leans=leans)

    def _is_shell(self, item: Sentence) -> bool:
        """Tell whether code is typed into a shell, as the command that installs what the next code uses."""
        return _SHELL.match(self._content, item.start, item.end) is not None

    def _table(self, item: Sentence) -> Iterator[Excerpt]:
        lines = self._table_lines(item)
        own = self._header(lines)
        header: tuple[Quoted, ...] = ((self.passage, *own),) if own else ()
        names = row_cells(self._content[slice(*own)], self.passage.markup) if own else []
        if own is None and not self._content[: item.start].strip():
            columns = len(row_cells(self._content[slice(*lines[0])], self.passage.markup))
            header, names = self._header_above(columns)
        about = f"{self._heading} {' '.join(names)}"
        rows = [line for line in (lines[1:] if own else lines) if not self._is_rule(line)]
        # One row alone describes what the heading names: "maxSize: type: integer; default: 8k".
        of = [self._heading] if own and len(rows) == 1 and self._above_span and " " not in self._heading else []
        header += self._above_span if of else ()
        first_column = []
        for start, end in rows:
            cells = row_cells(self._content[start:end], self.passage.markup)
            if not any(cells):
                continue
            # "Move: Move" says nothing, nor does "Default: See usage for details".
            is_empty = len(cells) > 1 and set(filter(None, cells)) == {cells[0]}
            if is_empty or (len(cells) == _PAIR and _EDITORIAL.match(cells[1])):
                continue
            if cells[0]:
                first_column.append(cells[0])
            named = cells[0].endswith(":") and len(cells) == _PAIR and not header and self._above_span
            if named:
                yield self._field_in_row(start, end, cells)
                continue
            text = row_text(["", *names], [*of, *cells]) if of else row_text(names, cells)
            if len(words(text)) >= MIN_WORDS and len(text) <= MAX_CHARS and not _LIKE_A_MARKER.search(text):
                yield Excerpt(self.passage, BlockKind.TABLE, start, end, text, about, header=header)
        if own and names[0] and len(first_column) > 1:
            whole = f"{names[0]}: {', '.join(dict.fromkeys(first_column))}."
            if len(whole) <= MAX_CHARS and not _LIKE_A_MARKER.search(whole):
                intro, _ = self._introduction(self._lead_in, item.start)
                above = f"{self._heading} {intro}".rstrip()
                yield Excerpt(self.passage, BlockKind.TABLE, item.start, item.end, whole, above, is_whole=True)

    def _table_lines(self, item: Sentence) -> list[tuple[int, int]]:
        lines = re.finditer(r"\S(?:[^\r\n]*\S)?", self._source(item))
        return [(item.start + line.start(), item.start + line.end()) for line in lines]

    def _header(self, lines: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
        return lines[0] if len(lines) > 1 and self._is_rule(lines[1]) else None

    def _header_above(self, columns: int) -> tuple[tuple[Quoted, ...], list[str]]:
        """Return the header of the table in whose middle the run begins, as another run has it, and its cells."""
        above = [each for each in self._headers if len(each.names) == columns and each.may_be_of(self.passage)]
        nearest = max(above, key=lambda each: each.start, default=None)
        return ((), []) if nearest is None else (nearest.quoted, nearest.names)

    def _is_rule(self, line: tuple[int, int]) -> bool:
        """Tell whether a line of a table is the rule below its header."""
        rule = RULE if self.passage.markup is Markup.NONE else TABLE_RULE
        return rule.fullmatch(self._content[slice(*line)]) is not None

    def _field_in_row(self, start: int, end: int, cells: Sequence[str]) -> Excerpt:
        """Return a row such as `Default: | 5` of a table that describes what the heading names."""
        said, of = cells[1] if _SAYS_WHAT.match(cells[0]) else " ".join(cells), self._heading
        field = Excerpt(self.passage, BlockKind.TABLE, start, end, f"{of}: {said}", of, header=self._above_span)
        return field if said == cells[1] else replace(field, field_of=of)

    def _is_link(self, start: int, end: int) -> bool:
        """Tell whether there is little but links, or a link to another page and what that is about: navigation."""
        source = self._content[start:end]
        is_menu = "](" in source and len(words(_LINK.sub(" ", source))) < MIN_WORDS
        return is_menu or _TO_PAGE.match(source) is not None

    def _is_cut_off(self, item: Sentence) -> bool:
        """Tell whether the chunk's border cuts the sentence in two."""
        first = self._content[item.start]
        at_front = not self._content[: item.start].strip() and (first.islower() or first in ",;)")
        if at_front or self._content[item.end :].strip():
            return at_front
        said = self._source(item)
        if said[-1].isalpha():
            # An item or a line of few words may well end without a full stop, but not in the middle of a paragraph.
            is_long = item.kind is BlockKind.PROSE and len(words(said)) >= _SPEAKING_WORDS
            return is_long or not item.begins_block or _UNFINISHED.search(said) is not None
        return said[-1] in ",;("


def _is_statement(text: str) -> bool:
    is_amount = ends_sentence(text) and any(map(str.isdigit, text)) and not LABEL.match(text)  # "Serves 4."
    if (
        len(text) > MAX_CHARS
        or len(words(text)) < MIN_WORDS - is_amount
        or text.rstrip("\"')\u201d\u2019").endswith(QUESTION_MARKS)
    ):
        return False
    return not (
        "```" in text
        or _CAPTION.match(text)
        or _URL.fullmatch(text)
        or _EDITORIAL.match(text)
        or _LIKE_A_MARKER.search(text)
        or _POINTS_ELSEWHERE.search(text)
    )


def _leans(text: str) -> bool:
    opens = _LEANS.match(text) is not None and _LEANS_ON_NOTHING.match(text) is None
    # A remark, or the end of one.
    is_remark = text.endswith(")") and (text.count("(") < text.count(")") or (text[0] == "(" and text[-2] in ".!?"))
    return opens or is_remark or _OF_THESE.search(text) is not None
