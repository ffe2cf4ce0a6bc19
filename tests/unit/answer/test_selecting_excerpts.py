"""Which excerpts an answer quotes, and in which order."""

from dataclasses import replace

import pytest

from groundwire.answer.extractive.excerpts import find_excerpts
from groundwire.answer.extractive.scoring import (
    Scored,
    answers_in_full,
    rarities,
    score_excerpts,
)
from groundwire.answer.extractive.selection import (
    completed,
    corroborations,
    of_each_side,
    of_named_document,
    select_excerpts,
    with_code,
    with_context,
    with_list,
)
from groundwire.answer.extractive.summary import summarise
from groundwire.answer.question import read_question
from tests.unit.answer.builders import make_passage, make_scored


def _selected(question: str, scored: list[Scored]) -> list[str]:
    weights = rarities(read_question(question), [item.excerpt for item in scored])
    best = min(scored, key=Scored.order)
    return [item.excerpt.text for item in select_excerpts([best], scored, weights)]


def _compared(question: str, *contents: str) -> list[str]:
    """Return what is quoted of a comparison that the first of the contents leads."""
    scored = make_scored(question, *contents)
    return [each.excerpt.text for each in of_each_side(read_question(question), scored[0], scored)]


def test_a_comparison_speaks_of_both_sides() -> None:
    question = "What is the difference between a fox and an owl?"
    fox, owl = "A fox is a beast that hunts alone.", "An owl is a bird that sees at night."
    assert _compared(question, fox, "Somebody saw an owl.", owl) == [fox, owl]
    assert _compared(question, owl, "Somebody saw an owl.", fox) == [owl, fox]
    contrast = "Unlike a fox, an owl sees at night."
    assert _compared(question, contrast, fox, owl) == [contrast]
    assert _compared(question, fox, "Somebody saw an owl.") == [fox]
    # The one that comes with the sentence before it would repeat the lead.
    joined = _compared(question, f"{fox} It is unlike an owl.")
    assert " ".join(joined).count(fox) == 1


def test_an_item_about_one_side_leaves_the_other_side_open() -> None:
    question = "What is the difference between a fox and an owl?"
    fox, owl = "fox - a beast that hunts mice like an owl.", "owl - a bird that hunts mice by night."
    assert _compared(question, f"- {fox}\n- {owl}\n- hen - a bird for its eggs.") == [fox, owl]


def test_what_other_documents_say_is_no_part_of_an_answer_about_the_one_that_is_named() -> None:
    question = "What does Health Plus cover?"
    contents = {
        "Health_Plus.pdf": "It covers the teeth.",
        "Health_Basic.pdf": "This plan covers no teeth at all.",
        "Changes.pdf": "Since May, Health Plus covers glasses.",
        "Plus.pdf": "It covers the health of pets.",
    }
    passages = [
        make_passage(content, rank=rank, source_uri=name, title=name)
        for rank, (name, content) in enumerate(contents.items(), 1)
    ]
    excerpts = find_excerpts(passages)
    scored = score_excerpts(read_question(question), excerpts, [0.5] * len(excerpts))
    about = of_named_document(read_question(question), scored[0], scored)
    assert [each.excerpt.passage.title for each in about] == ["Health_Plus.pdf", "Changes.pdf"]
    # Where the question names none, all may speak.
    assert of_named_document(read_question("What is covered?"), scored[0], scored) == scored


def _ranked(content: str, *scores: float) -> list[Scored]:
    excerpts = find_excerpts([make_passage(content)])
    assert len(excerpts) == len(scores)
    return [Scored(excerpt, 0.5, 0.5, score) for excerpt, score in zip(excerpts, scores, strict=True)]


FOXES = "What do foxes eat?"


def test_the_best_excerpt_comes_first_and_the_others_in_source_order() -> None:
    content = "Mice are often found near barns. Owls sleep in old trees. Foxes eat small mice. Bears wake in spring."
    chosen = _selected(FOXES, _ranked(content, 0.99, 0.1, 1.0, 0.1))
    assert chosen == ["Foxes eat small mice.", "Mice are often found near barns."]


def test_excerpts_next_to_the_best_stay_in_source_order_around_it() -> None:
    content = "Mice are often found near barns. Foxes eat small mice. Bears wake up in spring."
    chosen = _selected(FOXES, _ranked(content, 0.98, 1.0, 0.99))
    assert chosen == ["Mice are often found near barns.", "Foxes eat small mice.", "Bears wake up in spring."]


def test_the_row_that_answers_best_comes_before_its_neighbours() -> None:
    content = "| Setting | Meaning |\n|---|---|\n| owls | owls eat big mice |\n| foxes | foxes eat small mice |\n"
    chosen = _selected("What do foxes and owls eat?", _ranked(content, 0.98, 1.0, 0.5))
    assert chosen == ["Setting foxes: foxes eat small mice", "Setting owls: owls eat big mice"]


def test_other_passages_follow_document_by_document() -> None:
    contents = ["Red foxes eat small mice.", "Foxes eat red berries. Some foxes eat brown beetles."]
    question = "Which red foxes eat mice, berries and beetles?"
    scored = [
        Scored(item.excerpt, 0.5, 0.5, score)
        for item, score in zip(make_scored(question, *contents), (1.0, 0.98, 0.99), strict=True)
    ]
    assert _selected(question, scored) == [
        "Red foxes eat small mice.",
        "Foxes eat red berries.",
        "Some foxes eat brown beetles.",
    ]


def test_a_further_sentence_shares_the_paragraph_or_has_a_further_word_of_the_question() -> None:
    content = (
        "Mice are fat in autumn. Owls sleep in old trees. Foxes eat small mice.\n\n"
        "Berries of the wood are eaten too.\n\nFoxes live in dens."
    )
    scores = (0.99, 0.1, 1.0, 0.99, 0.99)
    assert _selected(FOXES, _ranked(content, *scores)) == ["Foxes eat small mice.", "Mice are fat in autumn."]
    assert _selected("What do foxes eat, and where do they live?", _ranked(content, *scores)) == [
        "Foxes eat small mice.",
        "Mice are fat in autumn.",
        "Foxes live in dens.",
    ]


def test_a_second_sentence_comes_in_where_either_may_be_the_answer() -> None:
    content = (
        "Foxes eat small mice.\n\nFoxes mostly eat big beetles.\n\nFoxes never eat green berries.\n\n- Foxes eat birds"
    )
    mice, beetles = "Foxes eat small mice.", "Foxes mostly eat big beetles."
    assert _selected(FOXES, _ranked(content, 1.0, 0.97, 0.96, 0.5)) == [mice, beetles]
    assert _selected(FOXES, _ranked(content, 1.0, 0.94, 0.93, 0.98)) == [mice]
    defined = [replace(each, definition=0.7) for each in _ranked(content, 1.0, 0.97, 0.5, 0.5)]
    assert _selected("What are foxes?", defined) == [mice]


def test_the_lowest_scores_let_nothing_else_in() -> None:
    content = "Foxes eat small mice.\n\nBerries of the wood are sweet."
    assert _selected(FOXES, _ranked(content, -0.1, -0.2)) == ["Foxes eat small mice."]


def test_near_duplicates_are_said_once() -> None:
    question = "Do foxes eat mice that sleep?"
    contents = ["Foxes eat small brown mice in spring.", "Sleep, foxes eat small brown mice in spring."]
    scored = [
        Scored(item.excerpt, 0.5, 0.5, score)
        for item, score in zip(make_scored(question, *contents), (1.0, 0.99), strict=True)
    ]
    assert _selected(question, scored) == contents[:1]


def _in_context(question: str, content: str, lead: str, **parts: float) -> list[str]:
    """Return what the sentence `lead` of a text is read with where it leads the answer."""
    excerpts = find_excerpts([make_passage(content)])
    (one,) = (each for each in excerpts if each.text == lead)
    scored = Scored(one, 0.5, 0.5, 1.0, **parts)
    return [each.excerpt.text for each in with_context(read_question(question), scored, excerpts)]


def test_code_is_quoted_with_what_introduces_it_where_a_way_is_asked_for() -> None:
    sentence = "Owls are fed by a command that reads their names from a file"
    content = f"{sentence}:\n\n```\nfeed names\n```"
    assert _in_context("How do I feed owls?", content, f"{sentence}.") == [f"{sentence}:\nfeed names"]
    assert _in_context("Who feeds the owls?", content, f"{sentence}.") == [f"{sentence}."]


def test_code_or_steps_that_follow_a_sentence_come_with_it_where_a_way_is_asked_for() -> None:
    sentence = "Owls are fed by a command."
    content = f"{sentence} It is part of the tools.\n\nTake a file:\n\n```\nfeed names\n```"
    assert _in_context("How do I feed owls?", content, sentence) == [sentence, "Take a file:\nfeed names"]
    assert _in_context("Why are owls fed?", content, sentence) == [sentence]
    far = f"{sentence} {'Mice are caught in the barn by night. ' * 10}\n\n```\nfeed names\n```"
    assert _in_context("How do I feed owls?", far, sentence) == [sentence]
    elsewhere = f"{sentence}\n\n## Foxes\n\nTake a file:\n\n```\nfeed names\n```"
    assert _in_context("How do I feed owls?", elsewhere, sentence) == [sentence]


@pytest.mark.parametrize(
    ("question", "score", "coverage", "heading", "is_shown"),
    [
        ("How do I feed owls?", 0.85, 1.0, "Tools", True),
        ("Who feeds the owls?", 0.85, 1.0, "Tools", False),
        ("How do I feed owls?", 0.74, 1.0, "Tools", False),
        ("How do I feed owls?", 0.85, 0.5, "Tools", False),
        ("How do I feed owls?", 0.85, 0.5, "Food", True),
    ],
)
def test_code_shows_how_something_is_done_where_the_answer_has_none(
    question: str, score: float, coverage: float, heading: str, is_shown: bool
) -> None:
    content = f"## Food\n\nOwls are fed in the evening.\n\n## {heading}\n\n```\nfeed owls\n```\n\n```\nfeed foxes\n```"
    prose, code, other = find_excerpts([make_passage(content)])
    lead, shown = Scored(prose, 0.5, 1.0, 1.0), Scored(code, 0.5, coverage, score)
    scored = [lead, shown, Scored(other, 0.5, coverage, score - 0.01)]
    assert with_code(read_question(question), [lead], scored) == [lead, *[shown] * is_shown]
    assert with_code(read_question(question), [lead, shown], scored) == [lead, shown]
    # Code that goes on from something else shows nothing by itself.
    leaning = replace(shown, excerpt=replace(code, leans=True))
    assert with_code(read_question(question), [lead], [lead, leaning]) == [lead]


def test_a_sentence_that_only_speaks_of_what_there_is_comes_with_the_list_of_it() -> None:
    question, sentence = "Which owls does the forest have?", "The forest has owls of many a kind."
    listed = "- barn owls\n- eagle owls"
    scored = make_scored(question, f"{sentence}\n\n{listed}")
    lead = next(each for each in scored if each.excerpt.text == sentence)
    whole = next(each for each in scored if each.excerpt.is_whole)
    assert with_list(read_question(question), [lead], scored) == [lead, whole]
    assert with_list(read_question("Why does the forest have owls?"), [lead], scored) == [lead]
    assert with_list(read_question(question), [whole], scored) == [whole]
    above = make_scored(question, f"{listed}\n\n{sentence}")
    last = next(each for each in above if each.excerpt.text == sentence)
    assert with_list(read_question(question), [last], above) == [last]
    twice = make_scored(question, f"{listed}\n\nThere are others.\n\n- tawny owls\n- snowy owls")
    first = next(each for each in twice if each.excerpt.is_whole)
    assert with_list(read_question(question), [first], twice) == [first]
    far = replace(whole, score=lead.score - 1)
    assert with_list(read_question(question), [lead], [lead, far]) == [lead]
    later = make_scored(question, f"{sentence}\n\n{'Snow fell on it all winter. ' * 12}\n\n{listed}")
    assert with_list(read_question(question), later[:1], later) == later[:1]
    named = "The forest has three owls: barn, eagle and tawny owls."
    told = make_scored(question, f"{sentence}\n\n{'Snow fell on it all winter. ' * 12}\n\n{named}")
    lead = next(each for each in told if each.excerpt.text == sentence)
    assert [each.excerpt.text for each in with_list(read_question(question), [lead], told)] == [sentence, named]
    of_others = make_scored(question, f"{sentence}\n\nIt has three birds: barn, eagle and tawny ones.")
    assert with_list(read_question(question), of_others[:1], of_others) == of_others[:1]
    other = make_scored(question, f"{sentence}\n\n## Foxes\n\n{listed}")
    assert with_list(read_question(question), other[:1], other) == other[:1]


def test_a_sentence_that_announces_a_list_comes_with_it() -> None:
    sentence = "Besides mice there are animals that owls do not eat."
    content = f"{sentence} These are:\n\n- foxes of any age\n- bears of the wood"
    whole = f"{sentence} These are:\n- foxes of any age\n- bears of the wood"
    assert _in_context("What do owls not eat?", content, sentence) == [whole]


@pytest.mark.parametrize(
    ("question", "definition", "is_completed"),
    [
        ("How do adapters work?", 0.0, True),
        ("Who wrote the adapters?", 0.0, False),
        ("What are adapters?", 0.7, True),
        ("What are adapters?", 1.0, False),
    ],
)
def test_a_sentence_that_leans_on_the_whole_answer_completes_it(
    question: str, definition: float, is_completed: bool
) -> None:
    adapters = "Adapters are methods of iterators that do not consume the iterator."
    for following, follows in (
        ("Instead, they make another adapter.", True),
        ("They are lazy.", False),
        ("However, the last of the adapters consumes it.", False),
    ):
        excerpts = find_excerpts([make_passage(f"{adapters} {following} Iterators are lazy.")])
        lead = Scored(excerpts[0], 0.5, 0.5, 1.0, definition)
        whole = f"{adapters} {following}" if is_completed and follows else adapters
        assert completed(read_question(question), lead, excerpts).excerpt.text == whole


def test_the_first_sentence_of_a_section_comes_first_where_its_heading_says_what_was_asked() -> None:
    opening, lead = "Unions accept values of several types.", "One writes Union with the types in brackets."
    content = f"## Union types\n\n{opening} Few need them.\n\n{lead}"
    question = "How do I declare a union type?"
    assert _in_context(question, content, lead, headed=1.0) == [opening, lead]
    assert _in_context(question, content, lead, headed=0.5) == [lead]
    assert _in_context(question, content, lead, headed=1.0, definition=0.7) == [lead]
    vague = content.replace(opening, "We know how important it is to be free.")
    assert _in_context(question, vague, lead, headed=1.0) == [lead]
    announced = content.replace(opening, "In this section, we describe the types of values.")
    assert _in_context(question, announced, lead, headed=1.0) == [lead]


@pytest.mark.parametrize(
    ("said", "count"),
    [
        ("Managers must approve an invoice.", 1),
        ("Managers may approve the invoice.", 0),
        ("Parcels under 5 kg are free.", 1),
        ("Parcels over 5 kg are free.", 0),
    ],
)
def test_another_document_supports_a_claim_only_if_it_says_the_same(said: str, count: int) -> None:
    claims = make_scored("q", "Managers must approve the invoices. Parcels under 5 kg are free.", said)
    assert sum(len(corroborations(each.excerpt, claims[2:])) for each in claims[:2]) == count


def test_far_worse_excerpts_stay_out() -> None:
    scored = make_scored(FOXES, "Foxes eat small mice. The weather was fine that day.")
    assert _selected(FOXES, scored) == ["Foxes eat small mice."]


@pytest.mark.parametrize(
    ("question", "text", "in_full"),
    [
        ("When was the tower built?", "The tower was built in 1840.", True),
        ("When was the tower built?", "The tower was built by owls.", False),
        ("When was the high tower built?", "The tower was built in 1840.", False),
        ("Why was the tower built?", "The tower was built for owls.", False),
    ],
)
def test_a_fact_with_all_words_of_the_question_is_the_whole_answer(question: str, text: str, in_full: bool) -> None:
    (item,) = make_scored(question, text)
    assert answers_in_full(read_question(question), item) is in_full


def test_each_part_of_a_question_is_answered() -> None:
    question = "What do foxes eat and where do owls sleep?"
    foxes, owls = "Foxes eat small mice.", "Owls sleep in old trees."
    scored = [
        Scored(item.excerpt, 0.5, 0.5, score)
        for item, score in zip(make_scored(question, foxes, owls), (1.0, 0.85), strict=True)
    ]
    assert _selected(question, scored) == [foxes, owls]
    assert _selected(FOXES, scored) == [foxes]


def test_a_whole_list_stands_alone() -> None:
    content = "Foxes eat:\n\n- small mice of the woods\n- red berries of the woods\n\nFoxes eat at night."
    excerpts = find_excerpts([make_passage(content)])
    scored = [Scored(excerpt, 0.5, 0.5, 1.0 if excerpt.is_whole else 0.99) for excerpt in excerpts]
    assert _selected(FOXES, scored) == ["Foxes eat:\n- small mice of the woods\n- red berries of the woods"]


def test_a_summary_holds_no_fields() -> None:
    fields = "RFC: Foxes, foxes of the north\nTitle: Foxes of the north\nAuthor: Ada Lovelace\nStatus: Final\n\n"
    chosen, _ = summarise([make_passage(f"{fields}The foxes of the north eat mice. Foxes hunt alone.")])
    assert chosen
    assert not any(each.field_of for each in chosen)
