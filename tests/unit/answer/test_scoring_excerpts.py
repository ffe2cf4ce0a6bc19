"""How excerpts are scored: what counts, what only announces, what leans on something else."""

import pytest

from groundwire.answer.evidence import Markup
from groundwire.answer.extractive.cues import has_amount, is_announcement, kind_match, undoes
from groundwire.answer.extractive.excerpt import Excerpt
from groundwire.answer.extractive.excerpts import find_excerpts
from groundwire.answer.extractive.generator import candidates
from groundwire.answer.extractive.scoring import (
    Scored,
    Support,
    _has_asked_cell,
    answers_as_field,
    covered,
    rarities,
    score_excerpts,
    scored_text,
    shortlist,
)
from groundwire.answer.extractive.weights import RANKING
from groundwire.answer.question import read_question
from groundwire.kernel.words import stem
from tests.unit.answer.builders import consecutive_passages, make_passage, make_scored


def _texts(excerpts: list[Excerpt]) -> list[str]:
    return [excerpt.text for excerpt in excerpts]


def _best(question: str, *contents: str) -> str:
    return min(make_scored(question, *contents), key=Scored.order).excerpt.text


def test_options_are_words_of_a_question() -> None:
    assert read_question("What does --clear do?").stems == ("clear", "--clear")
    entries = (
        "I use clear to mean that it is done.\n\n`--clear-all`: Clear all of them.\n\n`--clear`: Clear the screen.\n"
    )
    assert _best("What does --clear do?", entries) == "--clear: Clear the screen."


def test_operators_are_words_of_a_question() -> None:
    assert read_question("What does the @ operator do?").stems == ("operator", "@")
    assert read_question("How does ~= differ from $in?").stems == ("~=", "$in")
    assert read_question("Foxes - and owls | mice: who eats?").stems == ("fox", "owl", stem("mouse"), "eat")
    rows = "| Operator | Meaning |\n|---|---|\n| `!` | turns a value round |\n| `@` | binds a value |\n"
    assert _best("What does the @ operator do?", rows) == "Operator @: binds a value"
    rows = "<table><tr><th>Sign</th><th>Meaning</th></tr><tr><td>-&gt;</td><td>leads to a value</td></tr></table>\n"
    (row,) = find_excerpts([make_passage(rows)])
    assert "->" in row.stems


@pytest.mark.parametrize(
    "platitude",
    [
        "Data security is of the utmost importance for the requirements here.",
        "We take the requirements for data security here very seriously.",
        "The company is fully committed to the requirements for data security.",
        "The team strives to know the requirements for data security.",
        "We understand that requirements for data security can be a burden.",
        "We hope that this has been helpful for the requirements of data security.",
        "We are very proud of the requirements for data security.",
        "Thank you for the requirements for data security.",
    ],
)
def test_that_something_matters_answers_nothing(platitude: str) -> None:
    content = f"{platitude} Requirements for data security: all data of customers must be encrypted with a key."
    assert _best("What are the requirements for data security?", content).startswith("Requirements")


@pytest.mark.parametrize("often", ["annually", "quarterly", "every month", "yearly"])
def test_how_often_something_happens_says_when(often: str) -> None:
    assert kind_match(read_question("When do reviews happen?"), f"Reviews are held {often}.") > 0
    assert kind_match(read_question("When do reviews happen?"), "Every review is held.") < 0


def test_what_one_can_also_do_leans_on_what_comes_before() -> None:
    passages = [make_passage("A member may call. You can also write. People also write.")]
    assert _texts(find_excerpts(passages)) == [
        "A member may call.",
        "A member may call. You can also write.",
        "People also write.",
    ]


@pytest.mark.parametrize(
    "leaning", ["To do this, call the owl.", "By doing so you wake it.", "For this you need a lamp."]
)
def test_what_is_done_to_that_end_leans_on_what_comes_before(leaning: str) -> None:
    passages = [make_passage(f"A member may wake an owl. {leaning} For this book, read on.")]
    first, second, third = find_excerpts(passages)
    assert (second.text, second.is_joined) == (f"{first.text} {leaning}", True)
    assert not third.leans
    assert not third.is_joined


def test_code_leans_where_its_introduction_does() -> None:
    code = "\n\n```\nfeed owl\n```"
    for introduction, leans in (("Otherwise, feed the owl:", True), ("Feed the owl:", False), ("", False)):
        (excerpt,) = find_excerpts([make_passage(f"{introduction}{code}")])
        assert excerpt.leans == leans, introduction


def test_what_is_to_be_imagined_explains_nothing() -> None:
    content = "Imagine a copay as a coin. Each copay keeps its value."
    assert _best("What does a copay do?", content) == "Each copay keeps its value."


def test_a_sentence_that_points_at_a_table_leans_on_it() -> None:
    passages = [make_passage("Use any of these kinds of owls. Owls hunt at night.")]
    assert [(each.text, each.leans) for each in find_excerpts(passages)] == [
        ("Use any of these kinds of owls.", True),
        ("Owls hunt at night.", False),
    ]


@pytest.mark.parametrize(
    ("question", "field", "is_answer"),
    [
        ("Who wrote the report on owls?", "Author: Ada Lovelace", True),
        ("Who counted the owls?", "Author: Ada Lovelace", False),
        ("When was the report on owls published?", "Created: 2021-05-01", True),
        ("When did the owls leave?", "Created: 2021-05-01", False),
        ("Which owl version is it?", "Owl-Version: 3.0", True),
        ("Where does the owl live?", "Owl-Version: 3.0", False),
        ("What is the owl type?", "Type: a bird", False),
        ("What is the type of the owl?", "Type: a bird", True),
    ],
)
def test_the_head_of_a_text_answers_what_is_asked_of_the_text(question: str, field: str, is_answer: bool) -> None:
    head = f"Title: Owls\nStatus: Final\n{field}\nPost-History:\n\nOwls eat mice."
    found = find_excerpts([make_passage(head)])
    (asked,) = (each for each in found if each.text == field)
    assert answers_as_field(read_question(question), asked) is is_answer


def test_the_number_of_a_version_is_no_date() -> None:
    question = read_question("When was Owl 2.0 released?")
    for text, match in (
        ("Owl 2.0 must be built with all methods.", -1.0),
        ("Owl 2.0 needs Owl 12.1.", -1.0),
        ("Owl 2.0 came out on 2003-11-19.", 1.0),
        ("Owl 2.0 came out in 1066.", 1.0),
        ("Owl 2.0 came out on the 5th.", 1.0),
    ):
        assert kind_match(question, text) == match, text


def test_only_what_has_the_number_names_a_document() -> None:
    long = "Support for reading owls in the dark"
    passage = make_passage("# Rationale\n\nThis text proposes owls.", title=long, source_uri="pep-0680.rst")
    (excerpt,) = find_excerpts([passage])
    assert scored_text(read_question("What does PEP 680 propose?"), excerpt).startswith("pep 680 rst ")
    assert long not in scored_text(read_question("What does PEP 680 propose?"), excerpt)
    titled = make_passage("# Rationale\n\nThis text proposes owls.", title="Owl 2 for all", source_uri="a.rst")
    (excerpt,) = find_excerpts([titled])
    assert scored_text(read_question("What does Owl 2 propose?"), excerpt).startswith("owl 2 for all ")


def test_what_something_is_good_for_is_no_cause() -> None:
    good_for = "The watch is meant to keep the owls warm."
    question = read_question("What is the purpose of the watch?")
    assert kind_match(question, "The watch is reserved for owls.") == 1.0
    assert (kind_match(question, good_for), kind_match(question, "The watch is old.")) == (1.0, -1.0)
    assert question.stems == ("watch",)
    assert kind_match(read_question("Why do owls watch?"), good_for) == -1.0


def test_a_section_of_thanks_answers_only_who_is_thanked() -> None:
    thanks = "# 7. Acknowledgements\n\nThanks to Ada who counted owls in the wood."
    content = f"# Owls\n\nOwls were counted in the wood.\n\n{thanks}"
    assert _best("Who counted owls in the wood?", content) == "Owls were counted in the wood."
    assert _best("Who gets thanks for owls in the wood?", content).startswith("Thanks to Ada")


def test_what_was_considered_and_an_index_answer_only_what_asks_for_them() -> None:
    passages = [
        make_passage(f"# {heading}\n\n{text}", rank=rank, chapter=chapter)
        for rank, (chapter, heading, text) in enumerate(
            [
                ("1. Rejected Ideas", "Owls by day", "Lazy owls of the wood would work by day."),
                ("Index", "O", "Lazy owls of the wood, work by day of"),
                ("Specification", "Owls", "Lazy owls of the wood work by night."),
            ],
            1,
        )
    ]
    excerpts = find_excerpts(passages)

    def best(question: str) -> str:
        scored = score_excerpts(read_question(question), excerpts, [1.0] * len(excerpts))
        return min(scored, key=Scored.order).excerpt.text

    assert best("How do lazy owls of the wood work?") == "Lazy owls of the wood work by night."
    for question in (
        "Why do lazy owls of the wood work?",
        "Do lazy owls of the wood work?",
        "Which lazy owls of the wood were rejected?",
        "How do lazy owls of the wood not work?",
    ):
        assert best(question) == "Lazy owls of the wood would work by day.", question


def test_a_heading_that_denies_says_nothing_of_what_is_so() -> None:
    question = read_question("Why is there an owl?")
    headings = {"Why an owl?": 1.0, "Why not an owl?": 0.0, "Owl or not owl": 1.0}
    for heading, headed in headings.items():
        (scored,) = make_scored("Why is there an owl?", f"# {heading}\n\nThe owl keeps mice away from the house.")
        assert scored.below_heading(question, 1.0).headed == headed, heading
    (scored,) = make_scored("Why not an owl?", "# Why not an owl?\n\nThe owl keeps mice away from the house.")
    assert scored.below_heading(read_question("Why not an owl?"), 1.0).headed == 1.0


def test_the_name_of_an_option_does_not_say_how_something_is_done() -> None:
    content = "# -m <owl> <mouse>\n\nThis option moves an owl closer to a mouse."
    for question, headed in (("How do I feed mice to owls?", 0.0), ("Which option moves an owl?", 1.0)):
        (scored,) = make_scored(question, content)
        assert scored.below_heading(read_question(question), 1.0).headed == headed


def test_a_title_with_the_words_of_the_question_in_another_order_yields_to_one_in_order() -> None:
    question = "How do I turn owls into a movie?"
    in_order = "## 3.2 How do I turn owls into movies?\n\nUse the first of the two tools."
    reversed_title = "## 3.3 How do I turn movies into owls?\n\nUse the first of the two tools."
    one, other = (each.score for each in make_scored(question, in_order, reversed_title))
    assert one > other
    (alone,) = make_scored(question, reversed_title)
    assert alone.score > other


def test_where_to_read_more_answers_nothing() -> None:
    told = "The format of owls is described in Owls. The owls are told apart by their ears."
    assert _best("What is the format of owls?", told).startswith("The owls")
    for pointer in ("Learn more about owls by reading the product page.", "See the owls readme for owls in detail."):
        assert _best("What are owls?", f"{pointer} With owls, it is easy to find mice.").startswith("With owls")


def test_what_only_says_what_a_section_holds_answers_nothing() -> None:
    for announced in (
        "This chapter describes what foxes eat.",
        "Introducing what foxes eat in the wood of owls.",
        "This is a list of what foxes eat.",
        "A short overview of what foxes eat in the wood.",
        "To see what foxes eat, please see the shelf of books on foxes.",
        "For more on what foxes eat, refer to the books on foxes.",
        "The section called “Food” shows what foxes eat.",
        "What follows is a summary of what foxes eat.",
        "What foxes eat is described in Section 1.4.2, page 51.",
    ):
        assert _best("What do foxes eat?", f"{announced} Foxes eat mice.") == "Foxes eat mice."


def test_how_often_asks_for_a_rhythm() -> None:
    assert kind_match(read_question("How often do foxes eat?"), "Foxes have a six-day cycle.") > 0
    content = "The 12 reviews of foxes are long. Reviews of foxes are held annually."
    assert _best("How often are reviews of foxes held?", content) == "Reviews of foxes are held annually."
    assert kind_match(read_question("How often do foxes eat?"), "Foxes eat 3 mice.") < 0


def test_how_many_asks_for_a_number_of_that_thing() -> None:
    question = read_question("How many new mice do foxes remember?")
    assert has_amount(question, "A fox counts fifteen brand new mice.")
    assert not has_amount(question, "A fox with 3 cubs of its own remembers mice.")
    assert not has_amount(read_question("Which mice do foxes remember?"), "A fox remembers 3 new mice.")


def test_fields_say_what_but_neither_why_nor_how() -> None:
    head = "Title: Foxes\nStatus: Rejected\nAuthor: Ada\n\nFoxes were rejected because they bite."
    passages = [make_passage(head)]
    _, _, asked_what = candidates("What is the status of foxes?", passages)
    _, _, asked_why = candidates("Why were foxes rejected?", passages)
    assert "Status: Rejected" in _texts(asked_what)
    assert _texts(asked_why) == ["Foxes were rejected because they bite."]


def test_a_field_of_something_else_is_not_what_is_asked() -> None:
    passages = [make_passage("Title: Foxes\nPython-Version: 3.10\nPost-History: May\n\nFoxes need a wood.")]
    asked = {
        question: "Python-Version: 3.10" in _texts(candidates(question, passages)[2])
        for question in ("Which Python version is required?", "Which Rust version is required?")
    }
    assert asked == {"Which Python version is required?": True, "Which Rust version is required?": False}


def test_a_joined_sentence_loses_to_the_one_that_says_it_alone() -> None:
    content = "Foxes eat small mice. They do it at night."
    assert _best("What do foxes eat?", content) == "Foxes eat small mice."


@pytest.mark.parametrize(
    ("question", "wants_code"),
    [
        ("Show me a match expression", True),
        ("Give me an example of a filter", True),
        ("What is the syntax of a closure?", True),
        ("What does exit code 2 mean?", False),
        ("How do I run it?", False),
    ],
)
def test_code_is_quoted_when_asked_for(question: str, wants_code: bool) -> None:
    assert read_question(question).wants_code is wants_code
    content = "To match a filter run a closure with syntax here.\n\n```\nmatch filter { closure }\n```"
    assert ("match filter {" in _best(question, content)) is wants_code


def test_rare_words_weigh_more() -> None:
    question = read_question("borrow checker errors")
    excerpts = find_excerpts([make_passage("The checker runs here. The checker stops here. The borrow is over.")])
    weights = rarities(question, excerpts)
    assert weights["error"] > weights["borrow"] > weights["checker"]
    assert covered(weights, {"error", "borrow", "checker"}) == pytest.approx(1.0)
    assert covered(weights, {"error"}) > covered(weights, set(), {"error"}) > 0.0
    assert covered({}, {"error"}) == 0.0


def test_an_option_is_for_what_it_does_and_not_for_what_it_goes_with() -> None:
    move = "-m, --move: Rename an owl, together with its nest."
    force = "-f, --force: In combination with a move, allow to rename an owl even if it sleeps."
    assert _best("How do I rename an owl?", force, move) == move


def test_a_label_is_quoted_where_the_default_is_asked_for() -> None:
    content = "# owlTimeout\n\nSee the owls for owlTimeout of them.\n\n- Default: `72000` (72 seconds)\n"
    assert _best("What is the default value of owlTimeout?", content) == "owlTimeout: Default: 72000 (72 seconds)"


def test_what_comes_first_or_before_something_says_when() -> None:
    question = read_question("When is the onSend hook called?")
    for text, match in (
        ("onSend is the first hook to be executed.", 1.0),
        ("onSend runs before the owls.", 1.0),
        ("onSend is a hook.", -1.0),
    ):
        assert kind_match(question, text) == match, text


def test_the_number_of_a_document_is_that_of_the_question_behind_the_same_word_only() -> None:
    (row,) = find_excerpts([make_passage("Owl code two is a fault of the nest.", title="Owls 1.2")])
    coverages = [
        score_excerpts(read_question(f"What is {name} 1?"), [row], [1.0])[0].coverage for name in ("owls", "code")
    ]
    assert coverages[0] == 1.0
    assert coverages[1] < 1.0


def test_an_abbreviation_names_nobody() -> None:
    question = read_question("Who wrote the owl?")
    assert kind_match(question, "The owl writes to the CPU and to the I/O of the den.") < 0
    assert kind_match(question, "In the den, Ada Smith wrote it on the CPU.") > 0


def test_code_that_nothing_introduces_is_compared_itself() -> None:
    question = read_question("How do I wake an owl?")
    (shown,) = find_excerpts([make_passage("# Usage\n\n```js\nwake(owl)\n```")])
    assert scored_text(question, shown) == "Usage: wake(owl)"
    (shown,) = find_excerpts([make_passage("# Usage\n\nOwls are woken so:\n\n```js\nwake(owl)\n```")])
    assert scored_text(question, shown) == "Usage: Owls are woken so:\nwake(owl)"
    (shown,) = find_excerpts([make_passage("# Usage\n\nOwls are woken so:\n\n```js\nwake(owl)\nfeed(owl)\n```")])
    assert scored_text(question, shown) == "Usage Owls are woken so:"


def test_a_field_below_the_name_of_a_setting_answers_what_it_says_of_it() -> None:
    (default, *_) = find_excerpts([make_passage("# MAX_OWLS\n\nDefault: 12\n\nCounts owls by night.")])
    assert answers_as_field(read_question("What is the default of MAX_OWLS?"), default)
    assert not answers_as_field(read_question("What is MAX_OWLS?"), default)


@pytest.mark.parametrize(
    ("heading", "is_of_changes"),
    [
        ("2.0.1", True),
        ("[v2.0.1] - 2024-05-01", True),
        ("Changelog of Strix", True),
        ("What's new in Strix", True),
        ("Fixed", True),
        ("2.1 Feeding", False),
        ("Fixed rules", False),
        ("News", False),
    ],
)
def test_release_notes_say_what_changed_and_not_how_it_is(heading: str, is_of_changes: bool) -> None:
    def drop(question: str) -> float:
        notes, told = (f"## {each}\n\nFoxes are fed with mice by the keeper now." for each in (heading, "Feeding"))
        return make_scored(question, told)[-1].score - make_scored(question, notes)[-1].score

    assert (drop("How do foxes eat?") > 0.2) is is_of_changes
    assert drop("How do foxes eat since 2.0?") < 0.1
    assert drop("What changed for foxes?") < 0.1


def test_what_is_not_so_is_asked_of_a_sentence_that_denies() -> None:
    contents = "The plan covers the cost of all sports.", "The plan does not cover any sports abroad."
    assert _best("What does the plan cover?", *contents) == contents[0]
    assert _best("What does the plan not cover?", *contents) == contents[1]
    assert _best("What does the plan cover or not cover?", *contents) == contents[0]
    limited = "The plan covers sports of all kinds, including but not limited to these sports.", contents[1]
    assert _best("What does the plan not cover?", *limited) == contents[1]
    # What denies something right beside it is nearer to an answer than what denies nothing.
    question, beside = "Which sports does the plan not cover?", f"{contents[0]} It pays for nothing abroad."
    (alone,), (near, *_) = make_scored(question, contents[0]), make_scored(question, beside)
    assert near.excerpt.text == alone.excerpt.text
    assert near.score == pytest.approx(alone.score)
    (near, *_) = make_scored(question, f"{contents[0]} It does not pay for much.")
    assert near.score > alone.score + 0.1
    excluded = "# Sports of the plan that are not covered\n\nThe plan: sports abroad, such as skiing."
    assert _best("What does the plan not cover?", contents[0], excluded) == "The plan: sports abroad, such as skiing."


def test_a_row_answers_by_the_cell_that_is_asked_for() -> None:
    rows = "| Animal | Size | Range |\n|---|---|---|\n| Fox | 2 feet | the wood |\n| Owl | 1 foot | the barn |\n"
    content = f"{rows}\nThe range of a fox and of an owl is told to be one of various kinds."
    assert _best("What is the range of an owl?", content) == "Animal Owl: Size: 1 foot; Range: the barn"
    assert _best("What is the colour of an owl?", content).startswith("The range")
    sizes = "| Name | Full size | Use |\n|---|---|---|\n| eagle | 2 feet | owl size |\n| owl | 1 foot | any size |"
    assert _best("What is the size of an owl?", sizes).startswith("Name owl:")
    # A row that has all words of the question has no cell that was asked for.
    assert not _has_asked_cell(read_question("What are owls for?"), "Animal Owl: Size: 1 foot; Range: the barn")


def test_what_something_is_by_default_is_said_of_what_is_set() -> None:
    other = "Sets the default lifetime of a renewed ticket of a realm."
    asked = "Sets the lifetime of a ticket. The default is one day."
    assert _best("What is the default ticket lifetime?", other, asked) == asked


def test_when_to_do_something_is_answered_by_a_list_of_cases() -> None:
    cases = "Use a box in these cases:\n\n- The size of a value is unknown.\n- Much data is moved."
    assert _best("When should I use a box?", "A box is easy to use.", cases) == cases.replace(":\n", ":")


def test_a_list_of_what_something_offers_holds_no_steps() -> None:
    steps = "# Feeding owls\n\nFor owls:\n\n- Open the cage of the owls.\n- Put mice into it."
    offers = "# Feeding owls\n\nThe owl feeder:\n\n- Its cage for the owls is big.\n- Mice for it come by mail."
    for content, is_answer in ((steps, True), (offers, False)):
        question = read_question("How do I feed owls?")
        (whole,) = (each for each in find_excerpts([make_passage(content)]) if each.is_whole)
        (scored,) = score_excerpts(question, [whole], [0.5])
        assert (scored.score > 0.8) is is_answer


def test_a_numbered_list_of_what_is_so_holds_no_steps() -> None:
    steps = "# Feeding owls\n\nFor owls:\n\n1. Open the cage of the owls.\n2. Put mice into it."
    states = "# Feeding owls\n\nFor owls:\n\n1. The cage of the owls must be open.\n2. No mouse is in it."
    scored = [make_scored("How do I feed owls?", content) for content in (steps, states)]
    first, second = (each for of_content in scored for each in of_content if each.excerpt.is_whole)
    assert first.score - second.score > RANKING.whole_list / 2


def test_what_something_can_be_used_for_is_what_it_does() -> None:
    used = "If only some owls matter, the owl filter can be used, much like a net, to keep the others out."
    assert _best("What does the owl filter do?", f"The owl filter is old and of iron. {used}") == used


def test_what_may_be_is_no_occasion() -> None:
    assert kind_match(read_question("When should I feed owls?"), "You may feed owls.") == -1.0
    assert kind_match(read_question("When should I feed owls?"), "When owls are hungry, feed them.") == 1.0


def test_a_tip_does_not_say_what_is_so() -> None:
    tip, said = "Be sure to ask if owls eat mice.", "Owls eat mice in most winters."
    assert _best("Do owls eat mice?", tip, said) == said
    assert _best("How do I ask if owls eat mice?", tip, said) == tip


def test_a_condition_of_a_step_announces_nothing() -> None:
    assert not is_announcement("Before placing the owl, you can rotate it.")
    assert is_announcement("Before diving into owls, consider foxes.")


def test_what_only_ends_by_pointing_back_announces_nothing() -> None:
    assert not is_announcement("Owls are birds of the night, which we discussed before.")
    assert is_announcement("Earlier we discussed birds of the night.")


def test_a_purpose_that_excludes_what_is_asked_for_is_another() -> None:
    other, best = "To list owls that belong to no zoo, run strays.", "To list owls of a zoo, ask there."
    assert _best("How do I list owls of a zoo?", other, best) == best
    assert _best("How do I list owls that belong to no zoo?", other, best) == other


def test_what_goes_on_in_the_next_chunk_supports_its_beginning() -> None:
    question = read_question("How do I wake owls every Monday in winter?")
    begun = "Wake them like this:\n\n```py\nimport owls\n"
    (code,) = find_excerpts(consecutive_passages(begun, "# In winter, every Monday\nowls.wake()\n```"))
    (scored,) = score_excerpts(question, [code], [1.0])
    parts = Support(question, [scored]).parts(scored)
    assert (parts["coverage_around"], parts["missing_name"]) == (1.0, 0.0)


def test_how_to_undo_something_does_not_say_how_to_do_it() -> None:
    question = read_question("How do I lock the den?")
    for text, is_undone in (
        ("To unlock the den, turn the key.", True),
        ("To un-lock the den, turn the key.", True),
        ("To lock or unlock the den, turn the key.", False),
        ("To unpack the den, turn the key.", False),
    ):
        assert undoes(question, "", text) is is_undone, text
    assert not undoes(read_question("How do I unlock the den?"), "", "To unlock the den, turn the key.")


@pytest.mark.parametrize(
    ("text", "is_after"),
    [
        ("After having painted the wood, you can varnish it by hand.", True),
        ("Once you have painted the wood, let it dry by the fire.", True),
        ("As soon as you paint wood, open a window.", True),
        ("After painting wood, you can varnish it by hand.", True),
        ("If you paint wood, it will last longer by using oil.", True),
        ("If you want to paint wood, it is best to use oil.", False),
        ("If you paint wood, use oil.", False),
        ("Once you have the wood, paint it with oil.", False),
        ("After the winter, you can paint wood with oil.", False),
    ],
)
def test_what_comes_after_something_does_not_say_how_to_do_it(text: str, is_after: bool) -> None:
    question = "How do I paint wood?"
    assert undoes(read_question(question), "", text) is is_after
    how = "You can paint wood by hand with oil."
    assert not is_after or _best(question, f"{text} {how}") == how


def test_what_somebody_asks_in_a_sentence_is_not_answered_there() -> None:
    asked = "The most common question about wool is \u2018how do I dye wool\u2019."
    assert _best("How do I dye wool?", f"{asked} Boil onions, and put the wool in.") != asked
    assert is_announcement(asked)
    assert not is_announcement("The question of the wool is solved by onions.")


def test_to_what_end_one_does_something_is_not_what_it_is_good_for() -> None:
    how = "To reset the loom, use the reset lever of the loom."
    what_for = "The loom was made to weave wool."
    assert _best("What is the role of the loom?", f"{how} {what_for}") == what_for
    assert kind_match(read_question("What is the role of the loom?"), how) < 0
    assert kind_match(read_question("How do I reset the loom?"), how) > 0


@pytest.mark.parametrize(
    "leaning",
    [
        "Any thread that hangs on this loom is of wool.",
        "Each weaver of those days used a loom.",
        "The loom is then shown as a box.",
    ],
)
def test_what_speaks_of_this_thing_inside_leans_on_what_comes_before(leaning: str) -> None:
    (excerpt,) = [each for each in find_excerpts([make_passage(leaning)]) if each.text == leaning]
    assert excerpt.leans


def test_a_purpose_may_stand_in_front_of_what_to_click_on() -> None:
    other, best = "To wake an owl it takes patience and a mouse.", "To wake an owl click on Owls and Wake."
    assert _best("How do I wake an owl?", other, best) == best


def test_a_row_may_say_in_a_cell_what_its_key_or_command_does() -> None:
    told = "You can wake all owls of the wood by calling them up in the night, one after the other."
    rows = "| Key | Function |\n|---|---|\n| w | wake all owls |\n| n | do not wake all owls |\n"
    assert _best("How do I wake all owls?", f"{told}\n\n{rows}") == "Key w: wake all owls"
    _, wakes, spares, _ = make_scored("How do I wake all owls?", f"{told}\n\n{rows}")
    assert (wakes.excerpt.text, spares.excerpt.text) == ("Key w: wake all owls", "Key n: do not wake all owls")
    assert wakes.score - spares.score > RANKING.purpose / 2


def test_how_something_should_be_is_told_by_a_rule() -> None:
    question = read_question("How should nests be named?")
    assert kind_match(question, "The convention is the name of the tree.") > 0
    assert kind_match(question, "Names of nests must begin with the tree.") > 0
    assert kind_match(question, "Nests are high up in a tree.") < 0
    assert kind_match(read_question("How do I name nests?"), "The convention is the name of the tree.") < 0


def test_what_only_says_that_there_are_types_names_none() -> None:
    assert is_announcement("There are some other account types.")
    assert not is_announcement("There are some types: assets and equity.")


def test_a_person_beats_a_sentence_without_one() -> None:
    text = "Somebody founded the company here. In 1999 Ada founded the company."
    assert _best("Who founded the company?", text) == "In 1999 Ada founded the company."


@pytest.mark.parametrize("question", ["Who founded the company?", "When did Ada found the company?"])
def test_code_knows_no_person_and_no_date(question: str) -> None:
    code = "```\nAda.company = Ada.founded(Bob, 1999)\n```"
    assert _best(question, f"{code}\n\nCarl Smith founded it in 1998.") == "Carl Smith founded it in 1998."


def test_an_announcement_loses_to_the_thing() -> None:
    text = "In this chapter we show how traits work. All traits work by dispatch here."
    assert _best("How do traits work?", text) == "All traits work by dispatch here."


@pytest.mark.parametrize("said", ["Here is how dispatch of traits works.", "Here are all traits, how dispatch works."])
def test_what_is_said_to_be_here_loses_to_the_thing(said: str) -> None:
    assert _best("How does dispatch of traits work?", f"{said} Traits dispatch calls by type.") != said
    # Code is shown with what introduces it.
    shown = f"{said[:-1]}:\n\n```\nlet dispatch = work(traits)\n```"
    assert _best("How does dispatch of traits work?", shown, "A trait is a type.").startswith(said[:-1])


def test_the_section_that_a_question_names_in_full_answers_it() -> None:
    sections = (
        "# Vice President of Sales\n\nThe tasks are to lead the sales of the company, and the sales of the north.",
        "# Senior Manager of Sales\n\nThe tasks are to lead the sales of the north.",
        "# Manager of Sales\n\nThe tasks are to count the sales.",
    )
    for section in sections:
        title, _, text = section.removeprefix("# ").partition("\n\n")
        assert _best(f"Which tasks does the {title} have?", *sections) == text


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("What degree does the fox need?", {"degre"}),
        ("Which vector stores are supported?", {"vector", stem("stores")}),
        ("In which forest did the fox live?", {"forest"}),
        ("What does the fox need?", set()),
        ("What is a degree?", set()),
        ("What happens is unknown", set()),
        ("What about foxes has changed?", set()),
    ],
)
def test_what_is_asked_for_counts_more_than_what_stands_around_it(question: str, asked: set[str]) -> None:
    read = read_question(question)
    assert read.asked_for == asked
    weights = rarities(read, find_excerpts([make_passage("Nothing of that is said here.")]))
    assert all((weight > 1.2) is (stem in asked) for stem, weight in weights.items())


def test_a_sentence_that_leans_on_what_is_not_shown_loses() -> None:
    one, other = "However, foxes eat small mice.", "Foxes also eat small mice."
    assert _best("What do foxes eat?", one, other) == other


def test_a_whole_list_answers_what_asks_for_one() -> None:
    content = "A filter has these operators:\n\n- the operator eq of a filter\n- the operator ne of a filter"
    assert _best("Which operators does a filter have?", content).splitlines() == [
        "A filter has these operators:",
        "- the operator eq of a filter",
        "- the operator ne of a filter",
    ]
    content = content.replace("ne of a filter", "ne that a filter has for other values")
    assert (
        _best("What is the operator ne of a filter?", content) == "the operator ne that a filter has for other values"
    )


@pytest.mark.parametrize(("question", "best"), [("What does an owl keeper do?", 1), ("Who is the owl keeper?", 0)])
def test_a_label_names_and_explains_nothing(question: str, best: int) -> None:
    contents = ("- Owl keeper Ann", "The owl keeper Ben feeds the birds of the zoo in the night.")
    excerpts = find_excerpts([make_passage(content, rank=rank) for rank, content in enumerate(contents, 1)])
    scored = score_excerpts(read_question(question), excerpts, [1.0, 0.7])
    assert min(scored, key=Scored.order) is scored[best]


@pytest.mark.parametrize(
    ("other", "best"),
    [
        (
            "Use a lamp if the owls that you feed are shy, since it is dark by night.",
            "To feed owls, hang the mice at a branch.",
        ),
        ("# Looking at owls\n\nThe owls eat what `feeder` brings.", "Feed the owls with `feeder run owls`."),
    ],
)
def test_what_says_how_to_do_it_beats_what_only_speaks_of_it(other: str, best: str) -> None:
    assert _best("How do I feed owls?", other, best) == best.replace("`", "")


def test_what_stands_under_a_heading_that_says_what_to_do_is_how_to_do_it() -> None:
    contents = ("# Owls\n\n## Go back\n\nStop the owls, and take the mice.", "# Feed owls\n\nUse mice, and no berries.")
    excerpts = find_excerpts([make_passage(content, rank=rank) for rank, content in enumerate(contents, 1)])
    question = read_question("How do I feed owls?")
    scored = score_excerpts(question, excerpts, [0.7, 0.35])
    headed = [each.below_heading(question, like) for each, like in zip(scored, (0.3, 0.8), strict=True)]
    assert min(headed, key=Scored.order).excerpt.text == "Use mice, and no berries."


def test_what_opens_a_section_comes_first_where_an_explanation_is_asked_for() -> None:
    passage = make_passage("# Feeding owls\n\nThey get fresh mice. They get some water.")
    for asked, gains in (("How do I feed owls?", True), ("What is feeding?", False), ("Who is feeding owls?", False)):
        question = read_question(asked)
        opening, second = score_excerpts(question, find_excerpts([passage]), [0.5, 0.5])
        gain = [each.below_heading(question, 0.8).score - each.score for each in (opening, second)]
        assert (gain[0] > gain[1] > 0) is gains


def test_a_shortlist_keeps_the_best_by_words_in_order() -> None:
    question = read_question("What do foxes eat?")
    excerpts = find_excerpts(
        [make_passage("The weather was fine. Foxes eat small mice. Birds can fly. Foxes eat berries.")]
    )
    assert _texts(shortlist(question, excerpts, 2)) == ["Foxes eat small mice.", "Foxes eat berries."]
    assert shortlist(question, excerpts, 9) == excerpts


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("How long are copies kept?", "Copies are kept for ninety days."),
        ("How many owls lived there in 2015?", "The wood had 15 owls."),
        ("How many owls are there?", "The wood has 1500 owls."),
        ("How many owls are there?", "The wood has thousands of owls."),
        ("How long are copies kept?", "Copies are kept for a year."),
        ("How old is the owl?", "The owl was born on 5 March 2013."),
        ("Which Python version do owls need?", "Owls need Python 3.10."),
        ("What is the latest version?", "Version 2 is the latest one."),
        ("Which Java version do owls need?", "It runs on Java 8 and on PHP 7."),
        ("Which versions of Node.js does owl v5 need?", "Owl v5 needs v20 or later."),
        ("What is the size of an owl?", "An owl is 30 cm tall."),
        ("When do owls hunt?", "Owls hunt at night."),
        ("When do owls hunt?", "Owls hunt once the sun is down."),
        ("When was the owl seen?", "The owl was seen at dawn."),
        ("When did owls come?", "Owls came in the 12th century."),
        ("How do I feed owls?", "Owls can be fed in the night with mice."),
        ("How do I feed owls?", "Owls can also be fed by a friend."),
        ("How do I feed owls?", "A lamp lets you feed owls."),
        ("How do I feed owls?", "You can feed owls."),
        ("How do owls differ from foxes?", "Owls are different from foxes."),
        ("How do owls differ from foxes?", "There are three differences."),
        ("When should I feed owls?", "Feed owls if they are hungry."),
        ("When should I feed owls?", "Feeding owls is recommended in these cases:"),
        ("When should I feed owls?", "Feed owls at night."),
    ],
)
def test_what_a_kind_of_question_asks_for_is_known_by_its_form(question: str, text: str) -> None:
    assert kind_match(read_question(question), text) == 1.0


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("How long is Highway 88?", "Highway 88 is a road in the north."),
        ("How many owls are there?", "The list of owls was made on 5 March 2023."),
        ("How many owls are there?", "In 1912 owls came to the north, where they have been since 1913 or so."),
        ("How many owls are there?", "Watching owls is one of the joys of the north."),
        ("How many owls are there?", "The owls of Rule 14 are protected."),
        ("How many owls are there?", "PEP 14 protects owls."),
        ("How old is the owl?", "The owl of Anna Maria is an old one."),
        ("Which Python version do owls need?", "The 3 owls need the latest version of Python."),
        ("Which version came after 3.9?", "What came after 3.9 was better."),
        ("What is the average size of an owl?", "The size of an owl depends on its food."),
        ("When was the owl seen?", "The owl was seen once the sun was down."),
        ("How do I feed owls?", "Owls can be fed. The night is long with mice."),
        ("How do I feed owls?", "You can only feed owls by night."),
        ("How do owls differ from foxes?", "There are many different owls and foxes."),
    ],
)
def test_a_number_of_the_question_and_a_date_are_no_quantity(question: str, text: str) -> None:
    assert kind_match(read_question(question), text) == -1.0


def test_why_prefers_a_reason_to_a_sentence_that_is_more_alike() -> None:
    content = "Foxes never climb trees of the old wood. Foxes never climb, because owls watch over the trees."

    def best(question: str) -> str:
        excerpts = find_excerpts([make_passage(content)])
        scored = score_excerpts(read_question(question), excerpts, [0.75, 0.35])
        return min(scored, key=Scored.order).excerpt.text

    assert "because" in best("Why do foxes never climb trees?")
    assert "because" not in best("Do foxes never climb trees?")


def test_names_of_settings_are_words_of_their_own() -> None:
    assert read_question("What is nest.owl_name?").stems == ("nest", "owl", "nest.owl_name", "owl_name")
    settings = [
        "OWL_NEST_NAME\n-------------\n\nThe name of the nest.\n\nDefault: ``'owl'``\n",
        "OWL_NEST_PATH\n-------------\n\nThe path of the owl nest.\n\nDefault: ``None``\n",
    ]
    asked = "What is the default value of OWL_NEST_NAME?"
    passages = [make_passage(text, rank=rank, markup=Markup.RST) for rank, text in enumerate(settings[::-1], 1)]
    question, quotable, _ = candidates(asked, passages)
    scored = score_excerpts(question, quotable, [1.0] * len(quotable))
    # The value has no word that the question lacks but those in the name of the setting, and is the answer.
    assert min(scored, key=Scored.order).excerpt.text == "OWL_NEST_NAME: Default: 'owl'"


def test_one_of_many_is_no_amount() -> None:
    question = read_question("How many owls should I use?")
    assert not has_amount(question, "For each nest, one owl watches while the other owl sleeps.")
    assert has_amount(question, "Nests need two owls.")


def test_how_to_do_something_is_not_how_to_be_without_it() -> None:
    do, undo = "You can print owls with the press.", "You can disable the printing of owls with the press."
    assert _best("How do I print owls?", undo, do) == do
    assert _best("How do I disable the printing of owls?", do, undo) == undo
    below = "# Disabling the press\n\nYou can print owls with the press here."
    assert _best("How do I print owls?", below, do) == do
    # One part of a list may be of no use.
    listed = "# Printing owls\n\nThe steps to print owls are:\n\n1. Disable the alarm.\n2. Run the press on all owls."
    (whole,) = (each for each in make_scored("How do I print owls?", listed) if each.excerpt.is_whole)
    assert _best("How do I print owls?", listed) == whole.excerpt.text


def test_where_there_is_more_information_is_no_answer() -> None:
    assert is_announcement("If you\u2019d like more information on owls, we\u2019ve prepared a summary just for you.")
    assert is_announcement("For further details, ask the owls.")
    assert not is_announcement("If you would like more owls, feed those that you have.")


@pytest.mark.parametrize(
    ("question", "content", "share"),
    [
        ("How do I wake owls?", "By night owls wake up with `COMMAND` alone.", 1.0),
        ("How do I wake old owls?", "By night old owls wake up with `COMMAND` alone.", 2 / 3),
        ("Why do I wake owls?", "By night owls wake up with `COMMAND` alone.", 0.0),
        ("How do I wake owls?", "By night owls wake up so:\n\n```\n$ COMMAND\n```", 1.0),
        ("How do I wake owls?", "By night owls wake up so:\n\n```\nCOMMAND\n```", 0.0),
    ],
)
def test_a_command_in_the_words_of_the_question_shows_how(question: str, content: str, share: float) -> None:
    fitting, other = (
        make_scored(question, content.replace("COMMAND", command))[-1].score for command in ("wake owls", "stir mice")
    )
    assert fitting - other == pytest.approx(share * RANKING.command)
