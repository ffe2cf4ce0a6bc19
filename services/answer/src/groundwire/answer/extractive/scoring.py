"""Scores how well an excerpt answers a question, and how likely it is that it does."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import pairwise, permutations

from groundwire.answer.evidence import Markup, Passage
from groundwire.answer.extractive.cues import (
    asks_for_date,
    has_amount,
    is_announcement,
    is_back_matter,
    is_note_of_change,
    is_step,
    is_tip,
    kind_match,
    says_who_or_when_written,
    undoes,
)
from groundwire.answer.extractive.definitions import (
    BELOW_ITS_NAME,
    INTRODUCED_AS_TERM,
    KINDS,
    LABEL,
    PART_OF_SECTION,
    SAYS_WHAT_IS_ABOVE,
    definition_match,
    is_name_of,
)
from groundwire.answer.extractive.excerpt import MIN_WORDS, Excerpt
from groundwire.answer.extractive.weights import (
    ASKED_FOR,
    COMPARED_BY_DATE,
    LABEL_WORDS,
    LEAD_SUPPORT,
    LIKE_HEADING,
    MAX_LEAD,
    NEAR_DUPLICATE,
    RANKING,
    SUPPORT,
    TESTED_PASSAGES,
    UNLIKE_HEADING,
)
from groundwire.answer.question import (
    EXPLAINED,
    Question,
    QuestionKind,
    exact_words,
    is_negated,
    keywords,
    subject_asked_for,
    without_names_of_code,
)
from groundwire.kernel.contradictions import contradiction
from groundwire.kernel.facts import FactKind, lacking, read
from groundwire.kernel.records import SOURCE_PREFIX
from groundwire.kernel.sentences import QUESTION_MARKS, BlockKind
from groundwire.kernel.words import NEGATION, content_stems, stem, words


@dataclass(frozen=True, slots=True)
class Scored:
    """An excerpt with its parts, each in [0, 1], and the score it is ranked by, about 0 to 1.2.

    `similarity` is the cosine to the question, negative ones as 0; `coverage` the share of the question's
    words in it, by rarity, those that only stand around it counted in part; `definition` tells how far it says what the
    subject of the question is, and `headed` how far the heading above it says what the question asks.
    """

    excerpt: Excerpt
    similarity: float
    coverage: float
    score: float
    definition: float = 0.0
    headed: float = 0.0

    def with_similarity(self, similarity: float) -> "Scored":
        """Return the excerpt as it scores with another similarity."""
        score = self.score + RANKING.similarity * (similarity - self.similarity)
        return replace(self, similarity=similarity, score=score)

    def below_heading(self, question: Question, similarity: float) -> "Scored":
        """Return the excerpt as it scores below a heading of this similarity to the question.

        A heading is the author's own statement of what a section answers, and the first sentence mostly gives the
        answer. What something is, another sentence may say better, and who, when or how many stands anywhere.
        """
        headed = min(1.0, max(0.0, (similarity - UNLIKE_HEADING) / (LIKE_HEADING - UNLIKE_HEADING)))
        label = None if self.excerpt.is_whole else LABEL.match(self.excerpt.text)
        if label is not None and is_name_of(label["term"], set(question.subject)):
            headed = 1.0  # the entry of a glossary
        # "Why not a compiler?" says nothing of why there is one.
        is_denied = is_negated(self.excerpt.heading) and not question.is_negated
        # Nor does "-MG <queue> <message>" say what the option is for.
        is_option = question.kind is QuestionKind.PROCEDURE and self.excerpt.heading.startswith("-")
        if is_denied or is_option or (exact_words(question.text) and _is_of_other_code(question, self.excerpt)):
            headed = 0.0
        leads = question.kind is not QuestionKind.DEFINITION and _heads_answers(question, self.excerpt.heading)
        opens = self.excerpt.opens and leads
        return replace(self, headed=headed, score=self.score + headed * (RANKING.headed + RANKING.opens * opens))

    def order(self) -> tuple[float, int, int, int]:
        """Return the key that sorts by falling score, then by rank and place: the same on every run."""
        return (-self.score, self.excerpt.passage.rank, self.excerpt.start, self.excerpt.end)


_FEWEST_NEW_WORDS = 2
"""Words that carry meaning and are not those of the question, below which a sentence explains nothing."""
# A name in capitals: `SIGTERM`.
_CONSTANT = re.compile(r"\b[A-Z]{5,}\b")
# "013" is 13, "0.5" stays as it is.
_DIGITS = re.compile(r"0*(\d+(?:[.,]\d+)*)")
_NUMBERED = re.compile(r"^\d+\. ", re.MULTILINE)
# Nothing that is to be done begins so: "1. The server must be shut down."
_STATES = re.compile(
    r"^\d+\. (?:the|an?|this|these|it|they|there|each|all|most|some|many|no)\b", re.MULTILINE | re.IGNORECASE
)
# Of shells, of R and of Python; "# ", that of root, mostly begins a comment.
_PROMPTS = ("$ ", "> ", ">>> ")
_INLINE_CODE = re.compile(r"`([^`\n]+)`")
# "To replace a key, make a second one": what is done to what end.
_PURPOSE = re.compile(
    r"^(?:(?:in order )?to|if you (?:want|need|wish|would like) to|when you (?:want|need) to)"
    r" (?P<does>[^,.;:]{2,80}?)(?:[,:]| (?=(?:click|select|choose|press|use|run|type|enter|open|go)\b))",
    re.IGNORECASE,
)
_NOUN_PHRASE = re.compile(
    r"(?:(?:this|it) is (?:an?|the)|an?|this (?:type|kind|sort|form) of \w+ [a-z]+s|this \w+ [a-z]*s) ",
    re.IGNORECASE,
)
# What a manual page is about, below its heading "NAME": "git-clean - Remove untracked files from the working tree".
_MANUAL_PAGE = re.compile(r"(?P<name>[\w.+-]+(?:, [\w.+-]+)*) [-\u2013\u2014] (?P<does>\S.*)")
# What an option does, such as "-m, --move: Move a branch, together with its reflog."
_DESCRIBED_OPTION = re.compile(r"--?[A-Za-z][^:\n]{0,60}: (?P<does>[^,.;:]{2,80})")
# "borg compact: Description".
_OF_ABOVE = re.compile(rf"(?P<named>.+): (?:{SAYS_WHAT_IS_ABOVE.pattern})", re.IGNORECASE)
_NOUN_PHRASE_OR_VERB = re.compile(rf"{_NOUN_PHRASE.pattern}|[a-z]+[a-rt-z]s ", re.IGNORECASE)
_CONSTRUCTS = re.compile(r"(?:allocates|constructs|creates|initiali[sz]es|makes) ", re.IGNORECASE)
_DOES = re.compile(r"\bwhat do(?:es)? .* do\W*$", re.IGNORECASE)
_SELF = re.compile(r"\b(?:I|me|my|mine|we|(?-i:us)|our|ours)\b", re.IGNORECASE)
# What stands in front of a cell of a wide row: "Range: -32768 to +32767; Size: 2 bytes".
_COLUMN = re.compile(r"(?:^|; |\()([^:;()]{1,40}): ")
_CELL = re.compile(r"[^;]+")
_SHOWN_BY_WORDS = frozenset({QuestionKind.EXAMPLE, QuestionKind.COMPARISON})
_NAMED_KINDS = frozenset({QuestionKind.PERSON, QuestionKind.PLACE, QuestionKind.TIME})
_ASKS_WHAT_IS_SO = frozenset({QuestionKind.ENUMERATION, QuestionKind.OTHER})
_TOLD_IN_WORDS = frozenset({QuestionKind.DEFINITION, QuestionKind.REASON})
_FACT_KINDS = _NAMED_KINDS | {QuestionKind.QUANTITY}


def _heads_answers(question: Question, heading: str) -> bool:
    """Tell whether what stands below a heading like the question answers it.

    A heading that names somebody does not say who founded what, nor one on hash maps how long one lives, unless it asks
    for that itself.
    """
    asks = heading.endswith(QUESTION_MARKS) and set(question.stems) <= question.stems_of(heading)
    return question.kind not in _FACT_KINDS or asks


def resemble(one: Excerpt, other: Excerpt) -> bool:
    """Tell whether two excerpts have nearly the same words, whatever their order."""
    return len(one.stems & other.stems) >= NEAR_DUPLICATE * max(1, len(one.stems | other.stems))


def scored_text(question: Question, excerpt: Excerpt) -> str:
    """Return what is embedded of an excerpt: its text below the heading that it stands under.

    The name of the document comes first where it has a number that the question has: "PEP 8" means nothing to a model.
    """
    about = excerpt.about.strip()
    if name := _named_as(question, excerpt.passage):
        about = f"{name} {about}"
    if excerpt.kind is BlockKind.CODE and about and about != excerpt.heading:
        # Code says little to a model of sentences; what introduces it says what it shows. A command is short.
        return f"{excerpt.heading}: {excerpt.text}" if excerpt.text.count("\n") <= 1 else about
    is_headed = excerpt.passage.markup is not Markup.NONE or excerpt.field_of
    return f"{about}: {excerpt.text}" if about and is_headed else excerpt.text


def rarities(question: Question, excerpts: Sequence[Excerpt]) -> dict[str, float]:
    """Return the weight of each stem of the question: log(1 + n / (df + 0.5)) over the excerpts.

    The smoothed inverse document frequency of Robertson & Spärck Jones, taken over the retrieved excerpts
    because no other statistics reach this service. What is asked for weighs more: a degree, in "What degree …".
    """
    frequency = Counter(stem for excerpt in excerpts for stem in excerpt.stems)
    asked = question.asked_for
    return {
        stem: math.log(1 + len(excerpts) / (frequency[stem] + 0.5)) * (ASKED_FOR if stem in asked else 1.0)
        for stem in question.stems
    }


def covered(weights: Mapping[str, float], stems: AbstractSet[str], around: AbstractSet[str] = frozenset()) -> float:
    """Return the weighted share of the question's stems among `stems`, those only `around` in part, in [0, 1]."""
    total = sum(weights.values())
    if not total:
        return 0.0
    shares = (1.0 if stem in stems else RANKING.around if stem in around else 0.0 for stem in weights)
    return sum(weight * share for weight, share in zip(weights.values(), shares, strict=True)) / total


def shortlist(question: Question, excerpts: Sequence[Excerpt], limit: int) -> list[Excerpt]:
    """Return the `limit` excerpts that score best without similarity, in the order given."""
    if len(excerpts) <= limit:
        return list(excerpts)
    weights, titles = rarities(question, excerpts), _asked_titles(question, excerpts)
    value = [
        _score(_parts(question, weights, titles, excerpt, _coverage(question, weights, excerpt)))
        for excerpt in excerpts
    ]
    best = sorted(range(len(excerpts)), key=lambda index: (-value[index], index))[:limit]
    return [excerpts[index] for index in sorted(best)]


def _coverage(question: Question, weights: Mapping[str, float], excerpt: Excerpt) -> float:
    name = content_stems(_document_name(excerpt.passage))
    # All of "PEP 8" speaks of it, whether a sentence repeats the number or not.
    said = excerpt.stems.union(each for each in content_stems(_named_as(question, excerpt.passage)) if each.isdigit())
    return covered(weights, said, frozenset((*content_stems(excerpt.about), *exact_words(excerpt.about), *name)))


def _document_name(passage: Passage) -> str:
    """Return the words of title and source, numbers without leading zeros: `docs pep 8 rst` of `docs/pep-0008.rst`."""
    return _as_name(f"{passage.title} {passage.source_uri}")


def _as_name(text: str) -> str:
    return " ".join(dict.fromkeys(word.lstrip("0") or word for word in words(text)))


def _is_own(question: Question, excerpt: Excerpt) -> bool:
    """Tell whether "Where do I live?" meets what somebody said of themselves, as records hold it."""
    is_record = excerpt.passage.source_uri.startswith(SOURCE_PREFIX)
    asks_of_self = question.kind is not QuestionKind.PROCEDURE and _SELF.search(question.text)
    return bool(is_record and asks_of_self and _SELF.search(excerpt.text))


def _named_as(question: Question, passage: Passage) -> str:
    """Return the words of title or source, whichever has a number that the question has too, behind the same word.

    A number alone names nothing: "5 failures" does not ask for `05-setup.md`.
    """
    asked = set(_numbered(question.text))
    named = (text for text in (passage.title, passage.source_uri) if not asked.isdisjoint(_numbered(text)))
    return _as_name(next(named, ""))


def _numbered(text: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a word and the number behind it: `pep` and `8` of `pep-0008.rst`."""
    return ((word, number.lstrip("0")) for word, number in pairwise(words(text)) if number.isdigit())


def _score(parts: Mapping[str, float]) -> float:
    total: float = sum(getattr(RANKING, name) * share for name, share in parts.items())
    return total


def _titles(excerpt: Excerpt) -> set[str]:
    passage = excerpt.passage
    title, _, _ = excerpt.heading.partition(": ")
    # Any short line of a PDF may be the heading.
    section = passage.section_heading if passage.markup is Markup.NONE else ""
    return {excerpt.heading, title, section, passage.section, passage.chapter}


def _asked_titles(question: Question, excerpts: Sequence[Excerpt]) -> set[str]:
    """Return the titles of sections that the question names, the longest: "Senior Manager of Sales".

    One that has all of the words of the question, and no others, is named in any order, unless another has them in
    that of the question.
    """
    asked = f" {' '.join(words(question.text))} "
    titles = {title: f" {' '.join(words(title))} " for title in set().union(*map(_titles, excerpts))}
    named = {
        title: said
        for title, said in titles.items()
        if len(stems := set(content_stems(title))) > 1 and (said in asked or stems == set(question.stems))
    }
    in_order = {title: said for title, said in named.items() if content_stems(title) == list(question.stems)}
    named = in_order or named
    return {
        title for title, said in named.items() if not any(said != other and said in other for other in named.values())
    }


def _parts(
    question: Question,
    weights: Mapping[str, float],
    asked_titles: AbstractSet[str],
    excerpt: Excerpt,
    coverage: float,
) -> dict[str, float]:
    """Return what the score of an excerpt is made of besides the model's part of it, by the name of its weight."""
    passage = excerpt.passage
    source = passage.content[excerpt.start : excerpt.end]
    path = f"{passage.title}. {passage.chapter}. {passage.section}. {excerpt.heading}"
    is_below_name = _is_below_name(question, excerpt)
    definition = _definition(question, excerpt, source, path, is_below_name=is_below_name)
    is_how = question.kind is QuestionKind.PROCEDURE
    ways = _ways(question, weights, excerpt, source) if is_how else {}
    # What one of two things is sets it apart from the other as well as "unlike" does.
    is_contrast = bool(question.sides) and definition >= INTRODUCED_AS_TERM
    match = 1.0 if is_contrast or ways else kind_match(question, excerpt.text)
    if excerpt.kind is BlockKind.CODE and question.kind in _NAMED_KINDS:
        match = -1.0  # the names and dates of an example say nothing of the world
    # Of what is shown, a list or code, one part may undo it.
    told = excerpt.text if excerpt.kind is BlockKind.PROSE else ""
    form, share = _form(question, excerpt, covered(weights, question.stems_of(path)), coverage)
    return {
        "coverage": coverage,
        "length": math.log(max(MIN_WORDS, len(words(excerpt.text)))),
        "relevance": question.scale.of(passage.relevance),
        "rank": 1 / passage.rank,
        "kind_match": match,
        "reason": match * (question.kind is QuestionKind.REASON),
        "definition": definition,
        "leaning": float(excerpt.leans and not is_below_name),
        "joined": float(excerpt.is_joined),
        "announcement": float(is_announcement(excerpt.text) and not (excerpt.is_whole or _named_as(question, passage))),
        "note_of_change": float(is_note_of_change(question, excerpt.heading, passage.section_heading, passage.chapter)),
        "back_matter": float(is_back_matter(question, excerpt.heading, passage.chapter)),
        "tip": float(question.kind in _ASKS_WHAT_IS_SO and is_tip(excerpt.text)),
        "empty": float(definition < 1 and _is_empty(question, excerpt)),
        "undoing": float(is_how and undoes(question, excerpt.heading, told)),
        "unmet_negation": _unmet_negation(question, excerpt),
        "example": float(question.kind in _SHOWN_BY_WORDS and match > 0),
        "amount": float(has_amount(question, excerpt.text)),
        "own": float(_is_own(question, excerpt)),
        "titled": float(question.kind is not QuestionKind.DEFINITION and not asked_titles.isdisjoint(_titles(excerpt))),
        **ways,
        **({form: share} if form else {}),
    }


def _is_empty(question: Question, excerpt: Excerpt) -> bool:
    """Tell whether a sentence explains nothing: "Ownership scales." has one word that the question does not have."""
    is_label = LABEL.match(excerpt.text) is not None
    if question.kind not in _TOLD_IN_WORDS or excerpt.kind is not BlockKind.PROSE or is_label:
        return False
    return len(excerpt.stems.difference(question.stems)) < _FEWEST_NEW_WORDS


def _is_of_other_code(question: Question, excerpt: Excerpt) -> bool:
    """Tell whether an excerpt stands below the name of a setting or function that the question does not ask about.

    All words of a name count: `message_after_copy` is not `message_before_copy`, and decorators are not `getDecorator`.
    """
    asked = set(map(stem, words(subject_asked_for(question.text) or question.text)))
    names = [name for name in excerpt.heading.partition("(")[0].split() if exact_words(name)]
    named = (words(part) for name in names for part in (name, name.rpartition(".")[2]))
    return excerpt.is_of_code and bool(names) and not any(asked.issuperset(map(stem, each)) for each in named)


def _is_below_name(question: Question, excerpt: Excerpt) -> bool:
    """Tell whether an excerpt opens a section named after the subject with what that is: below "# Mpmath", "A …"."""
    part = _OF_ABOVE.fullmatch(excerpt.heading)
    if part is None and PART_OF_SECTION.fullmatch(excerpt.heading.rpartition(": ")[2]):
        return False  # below "pam_deny: Options" stands what options it has
    named = part["named"] if part else excerpt.heading
    label = LABEL.match(named)  # "/srv: Data for services"
    subject = set(question.subject)
    is_named = is_name_of(named, subject) or (label and is_name_of(label["term"], subject))
    if not excerpt.opens or not is_named or _is_of_other_code(question, excerpt):
        return False
    asks_for_deeds = _DOES.search(question.text) is not None
    if excerpt.is_of_code and named in excerpt.text and _CONSTRUCTS.match(excerpt.text) and not asks_for_deeds:
        return False  # "Constructs a new Scanner …", of the constructor of a class that is described elsewhere
    # The reference of a setting or function says of it what it is without repeating the name: "Writes the record …".
    said = excerpt.text.removeprefix(f"{named}: ")
    # But neither an example nor a label such as "Stability: 1 - Experimental".
    is_reference = excerpt.is_of_code and excerpt.kind is BlockKind.PROSE and LABEL.match(said) is None
    says_what = _NOUN_PHRASE_OR_VERB if asks_for_deeds else _NOUN_PHRASE
    return bool(excerpt.tagline_of) or is_reference or says_what.match(said) is not None


def _definition(question: Question, excerpt: Excerpt, source: str, path: str, *, is_below_name: bool) -> float:
    """Return how far an excerpt, with the headings above it, says what the subject of the question is, in [0, 1]."""
    page = _manual_page(excerpt)
    if page and is_name_of(page["name"], set(question.subject)):
        return 1.0
    if excerpt.header and _is_of_other_code(question, excerpt):
        return 0.0  # "MAX_SIZE: Like MIN_SIZE …"
    # What follows the first sentence of an item says more about its term, not what that is.
    text = source if excerpt.kind is BlockKind.LIST_ITEM and excerpt.header else excerpt.text
    is_code = excerpt.kind is BlockKind.CODE
    # Quotes in a list of steps are mostly what to click.
    marked = "" if question.is_set_off or excerpt.is_whole else source
    defined = 0.0 if is_code else definition_match(question, text, marked)
    if is_below_name:
        return max(defined, BELOW_ITS_NAME)
    # "Normal: Normal mode is …", in a section on layer modes, says what that one is.
    is_of_another = excerpt.kind is BlockKind.LIST_ITEM and LABEL.match(excerpt.text) is not None
    if len(question.subject) > 1 and set(question.subject) <= question.stems_of(path) and not is_of_another:
        # "Partitioning refers to …", in a section on table partitioning.
        of_head = definition_match(replace(question, subject=question.subject[-1:]), excerpt.text, "")
        return max(defined, min(of_head, BELOW_ITS_NAME))
    return defined


def _manual_page(excerpt: Excerpt) -> re.Match[str] | None:
    return _MANUAL_PAGE.fullmatch(excerpt.text) if excerpt.heading.casefold() == "name" else None


def _ways(question: Question, weights: Mapping[str, float], excerpt: Excerpt, source: str) -> dict[str, float]:
    """Return how far an excerpt shows how to do what is asked, empty where it shows nothing of the kind."""
    does = _manual_page(excerpt) or _DESCRIBED_OPTION.match(excerpt.text) or _PURPOSE.match(excerpt.text)
    purposes = [does["does"]] if does else []
    if excerpt.kind is BlockKind.TABLE and not excerpt.is_whole:
        # "Key g: Function: reply; Description: answer all recipients".
        purposes += _CELL.findall(excerpt.text.partition(": ")[2])
    is_code = excerpt.kind is BlockKind.CODE
    commands = _commands(source, is_code=is_code)
    is_steps = _is_numbered(excerpt)
    if not (purposes or is_code or commands or is_steps):
        return {}
    # "To list all files of no installed package, …" does not say how to list the installed packages.
    met = [each for each in purposes if question.is_negated or not NEGATION.search(each)]
    return {
        "purpose": max((covered(weights, question.stems_of(each)) for each in met), default=0.0),
        "command": max((covered(weights, question.stems_of(each)) for each in commands), default=0.0),
    }


def _commands(source: str, *, is_code: bool) -> list[str]:
    """Return what is to be typed: what stands behind a prompt in code, and code of several words inside a sentence."""
    if is_code:
        return [line for line in source.splitlines() if line.lstrip().startswith(_PROMPTS)]
    return [code for code in _INLINE_CODE.findall(source) if " " in code.strip()]


def _unmet_negation(question: Question, excerpt: Excerpt) -> float:
    """Return how far a question for what is not so meets text that denies nothing: less where its passage does."""
    if not question.is_negated or NEGATION.search(f"{excerpt.heading} {excerpt.text}"):
        return 0.0
    return 0.4 if NEGATION.search(excerpt.passage.content) else 1.0


def _form(question: Question, excerpt: Excerpt, headed: float, coverage: float) -> tuple[str, float]:
    """Return the weight of the form of an excerpt, empty for a plain sentence, and how far it counts."""
    match excerpt.kind:
        case BlockKind.CODE if question.wants_code:
            return "code", 1.0
        case BlockKind.CODE:
            # A whole sentence before it says something by itself.
            is_told = len(words(excerpt.text.partition("\n")[0])) > LABEL_WORDS
            if is_told or question.kind is not QuestionKind.DEFINITION:
                shown = headed if question.kind is QuestionKind.PROCEDURE else 0.0
                return ("told_code" if is_told else "unasked_code"), 1 - shown
            return "unasked_code", 2.0  # an example alone says least of all what something is
        case BlockKind.LIST_ITEM | BlockKind.TABLE if excerpt.is_whole and question.kind is QuestionKind.ENUMERATION:
            return "whole_list", max(headed, coverage)
        case BlockKind.TABLE if excerpt.is_whole:
            return "unasked_column", 1.0
        case BlockKind.TABLE:
            return "asked_cell", float(_has_asked_cell(question, excerpt.text))
        case BlockKind.LIST_ITEM if excerpt.is_whole:
            is_asked = question.kind is QuestionKind.OCCASION or (
                question.kind is QuestionKind.PROCEDURE and _lists_steps(excerpt)
            )
            # "What has to be done monthly?", and below "Monthly:" stands what.
            introduction = question.stems_of(excerpt.text.partition("\n")[0])
            if question.kind is QuestionKind.OTHER and set(question.stems) <= introduction:
                return "whole_list", 1.0
            return ("whole_list", headed) if is_asked else ("unasked_list", 1.0)
        case BlockKind.LIST_ITEM if question.kind in EXPLAINED and not excerpt.field_of:
            is_short = len(words(excerpt.text)) < LABEL_WORDS and not excerpt.text.endswith(".")
            is_label = is_short and not has_amount(question, excerpt.text)  # "Default: 10" for "What is the default …?"
            return "unasked_label", float(is_label)
    return "", 0.0


def _lists_steps(excerpt: Excerpt) -> bool:
    """Tell whether a list is numbered, or opens its section with things to do rather than what something offers."""
    items = [line.removeprefix("- ") for line in excerpt.text.splitlines() if line.startswith("- ")]
    return _is_numbered(excerpt) or (excerpt.opens and sum(map(is_step, items)) * 2 >= len(items))


def _is_numbered(excerpt: Excerpt) -> bool:
    """Tell whether an excerpt is a numbered list of what to do, rather than of what is so."""
    numbered = len(_NUMBERED.findall(excerpt.text))
    return excerpt.is_whole and numbered > 0 and 2 * len(_STATES.findall(excerpt.text)) < numbered


def _has_asked_cell(question: Question, row: str) -> bool:
    """Tell whether a row answers by one of its cells: `smallint: Range: -32768 to +32767` for the range of smallint."""
    named, _, cells = row.partition(": ")
    asked = set(question.stems).difference(content_stems(named))
    columns = (content_stems(column) for column in _COLUMN.findall(cells))
    return 0 < len(asked) < len(question.stems) and any(asked <= set(column) for column in columns)


def _answers_as_row(question: Question, row: str) -> bool:
    """Tell whether a row has the column asked for, or one cell with all that is asked about and the kind of answer."""
    name, _, cells = row.partition(": ")
    is_about = any(set(question.stems) <= set(content_stems(each)) for each in (name, *_CELL.findall(cells)))
    return _has_asked_cell(question, row) or (is_about and kind_match(question, row) > 0)


def _has_number(text: str, number: str) -> bool:
    """Tell whether a text has a number: "Python 3.0" has that of "Python 3"."""
    return any(each == number or each.startswith(f"{number}.") for each in _DIGITS.findall(text))


def score_excerpts(question: Question, excerpts: Sequence[Excerpt], similarities: Sequence[float]) -> list[Scored]:
    """Return the excerpts with their scores, in the order given.

    Args:
        question: the question.
        excerpts: what could be quoted.
        similarities: for each excerpt, the cosine of its `scored_text` to the question, in [0, 1].
    """
    weights, titles = rarities(question, excerpts), _asked_titles(question, excerpts)
    scored = []
    for excerpt, similarity in zip(excerpts, similarities, strict=True):
        coverage = _coverage(question, weights, excerpt)
        parts = {"similarity": similarity, **_parts(question, weights, titles, excerpt, coverage)}
        scored.append(Scored(excerpt, similarity, coverage, _score(parts), parts["definition"]))
    return scored


def without_superseded(scored: Sequence[Scored]) -> list[Scored]:
    """Return the excerpts without those that a newer document contradicts, in the order given.

    Compared are the best excerpts of dated documents. What supersedes another has as many words of the question, so
    that what differs is what was asked for.
    """
    best = sorted((each for each in scored if each.excerpt.passage.date_created), key=Scored.order)[:COMPARED_BY_DATE]
    superseded = set[int]()
    for old, new in permutations(best, 2):
        before, after = old.excerpt.passage, new.excerpt.passage
        is_newer = before.date_created and after.date_created and before.date_created < after.date_created
        competes = before.document_id != after.document_id and old.coverage <= new.coverage
        if is_newer and competes and contradiction(old.excerpt.text, new.excerpt.text) is not None:
            superseded.add(id(old))
    return [each for each in scored if id(each) not in superseded]


def answers_as_field(question: Question, excerpt: Excerpt) -> bool:
    """Tell whether a field such as `Created: 01-Mar-2019` is what is asked of the thing that the head names."""
    if question.kind in {QuestionKind.REASON, QuestionKind.PROCEDURE}:
        return False
    asked = set(question.stems)
    name, _, value = excerpt.text.removeprefix(f"{excerpt.heading}: ").partition(":")
    name_stems = content_stems(name)
    named = set(name_stems)
    # `Python-Version` is not the OpenSSL version.
    is_of_another = len(named) > 1 and any(
        fact.kind is FactKind.NAME
        and named.isdisjoint(map(stem, fact.values))
        and not named.isdisjoint(content_stems(question.text[fact.end :])[:1])
        for fact in read(question.text).facts
    )
    # `'session'` is news about SESSION_COOKIE_NAME.
    said = content_stems(without_names_of_code(question.text))
    told = content_stems(value)
    tells_more = not told or not set(said).issuperset(told)  # `[]` has no words
    # `Python-Version` tells a version. `Author` and `Created` tell who wrote a text, and when, not who did what.
    # `Default value` tells the default.
    head = [each for each in name_stems if each not in KINDS] or name_stems
    is_asked = bool(named) and (head[-1] in asked or says_who_or_when_written(question, name))
    # "What is the list type?" asks for no `Type`, as "What is the type of list?" does.
    is_kind = len(question.subject) > 1 and question.subject[-1] in KINDS & named
    is_asked = is_asked and not is_kind and not is_of_another
    return tells_more and is_asked and {word for word in asked if word.isdigit()} <= excerpt.stems


def answers_in_full(question: Question, item: Scored) -> bool:
    """Tell whether an excerpt has all words of a question for a name, time, place or number, and one of these."""
    return question.kind in _FACT_KINDS and item.coverage == 1.0 and kind_match(question, item.excerpt.text) > 0


class Support:
    """How likely excerpts answer a question: the probability of a logistic function, in [0, 1].

    It is made of similarity, relevance, coverage, what the question has and the passage lacks, and how far the excerpt
    leads those of other passages; how it was fitted stands at `groundwire.answer.extractive.weights.SupportWeights`.
    """

    def __init__(self, question: Question, scored: Sequence[Scored]) -> None:
        self._question = question
        self._weights = rarities(question, [each.excerpt for each in scored])
        self._asked_titles = _asked_titles(question, [each.excerpt for each in scored])
        self._reading = read(question.text)
        # "PEP 8" and "Python 2.0" are one thing each; the first word of "List 5 reasons" is no name.
        self._named_by = {
            digits[1]
            for name, number in pairwise(self._reading.facts)
            if (name.kind, number.kind) == (FactKind.NAME, FactKind.NUMBER)
            and number.start - name.end <= 1
            and (digits := _DIGITS.search(number.text)) is not None
            and (name.start > 0 or name.text.isupper())
        }
        self._dates = {
            fact.values for fact in self._reading.facts if fact.kind is FactKind.DATE and any(fact.values[1:])
        }
        self._asked_for = question.asked_for
        self._exact = frozenset(exact_words(question.text))
        self._constants = [] if question.text.isupper() else _CONSTANT.findall(question.text)
        self._words_of_documents = defaultdict[str, set[str]](set)
        self._headings_of_documents = defaultdict[str, set[str]](set)
        for passage in {each.excerpt.passage.chunk_number: each.excerpt.passage for each in scored}.values():
            self._words_of_documents[passage.document_id].update(words(passage.content))
            self._headings_of_documents[passage.document_id].update((passage.chapter, passage.section_heading))
        best: dict[int, Scored] = {}
        for item in sorted(scored, key=Scored.order):
            best.setdefault(item.excerpt.passage.chunk_number, item)
        self.tested = list(best.values())[:TESTED_PASSAGES]
        """The best excerpt of each of the best passages, best first."""
        self._is_undefined = question.is_term and all(each.definition < INTRODUCED_AS_TERM for each in self.tested)

    def lead(self) -> tuple[Scored, float]:
        """Return the excerpt that answers best, of the best of each of the best passages, and its support."""
        tested = ((item, self.of(item)) for item in self.tested)
        return max(tested, key=lambda pair: pair[0].score + LEAD_SUPPORT * pair[1])

    def of(self, item: Scored) -> float:
        """Return the support of an excerpt."""
        value = SUPPORT.bias + sum(getattr(SUPPORT, name) * share for name, share in self.parts(item).items())
        return 1.0 / (1.0 + math.exp(-value))

    @staticmethod
    def _agree(one: Scored, other: Scored) -> bool:
        """Tell whether two excerpts stand in one passage or say the same, so that neither makes the other doubtful."""
        if one.excerpt.passage.chunk_number == other.excerpt.passage.chunk_number:
            return True
        is_negated = NEGATION.search(one.excerpt.text) is not None, NEGATION.search(other.excerpt.text) is not None
        return is_negated[0] == is_negated[1] and resemble(one.excerpt, other.excerpt)

    def parts(self, item: Scored) -> dict[str, float]:
        """Return what the support of an excerpt is made of, by the name of its weight."""
        question, passage, text = self._question, item.excerpt.passage, item.excerpt.text
        # As it is written as well: dates, versions and identifiers are none any more in single words.
        name = f"{passage.source_uri} {passage.title} {_document_name(passage)}"
        place = f"{name} {passage.chapter} {passage.section_heading}"
        # A field says nothing of what else its passage names.
        field_of = item.excerpt.field_of
        # What goes on in the next chunk is not all in the passage.
        content = f"{passage.content} {text}" if item.excerpt.rest else passage.content
        around = f"{place} {field_of} {text}" if field_of else f"{place} {item.excerpt.about} {content}"
        # Who, when or how many is said of what stands right there.
        near = f"{place} {item.excerpt.about} {text}" if question.kind in _FACT_KINDS else around
        said = words(around)
        # "Two conditions" asks for no passage that counts them: only numbers in digits are names of things, and "v4"
        # is version 4.
        # Reading a passage takes longer than all else here, and most questions state no fact that it could lack.
        evidence = [read(around)] if self._reading.facts else []
        missing = [
            fact
            for fact in lacking(self._reading, evidence, self._headings_of_documents[passage.document_id])
            if fact.kind is not FactKind.NUMBER or (any(map(str.isdigit, fact.text)) and f"v{fact.text}" not in said)
        ]
        named = {stem(word) for word in said}
        said_around = frozenset((*content_stems(around), *exact_words(around), *keywords(around)))
        lacks_identifier = not self._exact <= said_around or any(
            name.casefold() not in around.casefold() for name in self._constants
        )
        has_identifiers = self._exact <= item.excerpt.stems and all(name in text for name in self._constants)
        # Texts shorten long names: "Valkyria Chronicles" after the first "Valkyria Chronicles III".
        in_full = self._words_of_documents[passage.document_id]
        unnamed = any(
            2 * len(named & set(map(stem, fact.values))) <= len(fact.values) or not in_full.issuperset(fact.values)
            for fact in missing
            if fact.kind is FactKind.NAME
        )
        coverage = covered(self._weights, said_around)
        # The steps of a recipe stand below "Preparation", in a chapter that the question names.
        is_steps = _is_numbered(item.excerpt) and question.kind is QuestionKind.PROCEDURE
        headed = 1.0 if is_steps and not self._asked_titles.isdisjoint(_titles(item.excerpt)) else item.headed
        lacks_kind, is_prose = kind_match(question, text) < 0, item.excerpt.kind is BlockKind.PROSE
        rivals = [each.score for each in self.tested if not self._agree(each, item)]
        return {
            "similarity": item.similarity,
            "relevance": question.scale.of(passage.relevance),
            "coverage_around": coverage,
            "named": coverage * bool(_named_as(question, passage)),
            "headed": headed * (0.5 + 0.5 * coverage) * _heads_answers(question, item.excerpt.heading),
            "identified": float(has_identifiers and bool(self._constants or self._exact)),
            "own": float(coverage == 1.0 and _is_own(question, item.excerpt)),
            "defines": float(bool(question.subject) and item.definition >= INTRODUCED_AS_TERM),
            "undefined": float(self._is_undefined),
            "missing_number": float(any(fact.kind is not FactKind.NAME for fact in missing)),
            "other_number": float(not all(_has_number(near, each) for each in self._named_by)),
            "dated": float(bool(self._dates) and self._dates <= {fact.values for fact in read(text).facts}),
            "missing_name": float(lacks_identifier or unnamed),
            "missing_negation": float(question.is_negated and not NEGATION.search(around)),
            "missing_kind": float(lacks_kind and question.kind in _NAMED_KINDS),
            "missing_date": float(lacks_kind and asks_for_date(question)),
            "amount": float(has_amount(question, text)),
            "missing_quantity": float(lacks_kind and question.kind is QuestionKind.QUANTITY),
            "missing_reason": float(lacks_kind and question.kind is QuestionKind.REASON),
            "missing_asked": float(bool(self._asked_for) and self._asked_for.isdisjoint(said_around)),
            "missing_step": float(lacks_kind and question.kind is QuestionKind.PROCEDURE and is_prose),
            "asked_field": float(
                item.coverage == 1.0
                and (
                    answers_as_field(question, item.excerpt)
                    if field_of
                    else item.excerpt.kind is BlockKind.TABLE and _answers_as_row(question, text)
                )
            ),
            "lead": min(MAX_LEAD, item.score - max(rivals, default=item.score)),
        }
