"""What a question asks for: its kind, its subject, its words."""

import time

import pytest

from groundwire.answer.extractive.scoring import Scored, Support
from groundwire.answer.intent import document_asked_for, named_place
from groundwire.answer.question import QuestionKind, read_question
from groundwire.kernel.words import content_stems, stem
from tests.unit.answer.builders import make_passage, make_scored


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What is ownership?", QuestionKind.DEFINITION),
        ("What does shadowing mean?", QuestionKind.DEFINITION),
        ("Define lifetimes", QuestionKind.DEFINITION),
        ("What does MTV stand for?", QuestionKind.DEFINITION),
        ("When should I use closures?", QuestionKind.OCCASION),
        ("When to use closures", QuestionKind.OCCASION),
        ("When is it safe to use closures?", QuestionKind.OCCASION),
        ("How do I create a project?", QuestionKind.PROCEDURE),
        ("How do new employees enroll?", QuestionKind.PROCEDURE),
        ("How can a struct be printed?", QuestionKind.PROCEDURE),
        ("What is the process for filing an appeal?", QuestionKind.PROCEDURE),
        ("What steps should employees take?", QuestionKind.PROCEDURE),
        ("What should I do if I lose my card?", QuestionKind.PROCEDURE),
        ("What do we do in case of fire?", QuestionKind.PROCEDURE),
        ("What does the alarm do if it fails?", QuestionKind.OTHER),
        ("How do closures capture variables?", QuestionKind.OTHER),
        ("What is unsafe code needed for?", QuestionKind.DEFINITION),
        ("Why is it safe?", QuestionKind.REASON),
        ("Who wrote it?", QuestionKind.PERSON),
        ("When was it written?", QuestionKind.TIME),
        ("Where is it stored?", QuestionKind.PLACE),
        ("How many threads are there?", QuestionKind.QUANTITY),
        ("In which year was it written?", QuestionKind.TIME),
        ("Rust has how many keywords?", QuestionKind.QUANTITY),
        ("How often are sessions removed?", QuestionKind.QUANTITY),
        ("Which version of Rust is needed?", QuestionKind.QUANTITY),
        ("Which version control systems can be used?", QuestionKind.ENUMERATION),
        ("What is a version?", QuestionKind.DEFINITION),
        ("What is the maximum line length?", QuestionKind.QUANTITY),
        ("What is the best height for a shelf?", QuestionKind.DEFINITION),
        ("Which file formats can be read?", QuestionKind.ENUMERATION),
        ("List the commands of the tool", QuestionKind.ENUMERATION),
        ("What are the rules of references?", QuestionKind.ENUMERATION),
        ("What is the purpose of a trait?", QuestionKind.REASON),
        ("Does it compile?", QuestionKind.OTHER),
        ("What happens when a document is deleted?", QuestionKind.OTHER),
        ("Do people who read it like it?", QuestionKind.OTHER),
    ],
)
def test_kinds_of_questions(question: str, kind: QuestionKind) -> None:
    assert read_question(question).kind is kind


def test_the_subject_of_a_definition() -> None:
    assert read_question("What is a smart pointer in Rust?").subject == ("smart", "pointer")
    assert read_question("What is a factor in R?").subject == ("factor",)
    assert read_question("What is an owl in winter?").subject == ("owl", "winter")
    assert read_question("What does os.urandom do?").subject == ("os", "urandom")
    assert read_question("How many smart pointers are there?").subject == ()
    asked = read_question("What does MTV stand for?")
    assert asked.subject == asked.stems == ("mtv",)


@pytest.mark.parametrize("question", ["How big do foxes grow?", "In which year do foxes grow?"])
def test_what_an_answer_replaces_is_no_word_that_it_must_have(question: str) -> None:
    assert set(read_question(question).stems) == {stem("foxes"), stem("grow")}


@pytest.mark.parametrize(
    "question",
    ["What is the difference between a fox and an owl?", "How does a fox differ from an owl?", "fox vs. owl"],
)
def test_what_asks_for_a_comparison_is_no_word_that_it_must_have(question: str) -> None:
    assert set(read_question(question).stems) == {"fox", "owl"}


@pytest.mark.parametrize(
    ("question", "is_term"),
    [
        ("What is a copay?", True),
        ("What are copays?", True),
        ("Define copay", True),
        ("What is the copay?", False),
        ("What is a copay of the plan?", False),
        ("What is our copay?", False),
        ("What is Ada's copay?", False),
        ("What are the members' copays?", False),
        ("What does a copay do?", False),
        ("Why is there a copay?", False),
    ],
)
def test_what_something_is_only_its_definition_answers(question: str, is_term: bool) -> None:
    read = read_question(question)
    assert read.is_term is is_term
    mentioning = make_scored(question, "Members of the plan asked for a copay.", "Nobody asked for a copay.")
    assert Support(read, mentioning).parts(mentioning[0])["undefined"] == float(is_term)
    # Where it is defined, other sentences may go on from there.
    told = [*mentioning, *make_scored(question, "A copay is a fixed fee.")]
    assert Support(read, told).parts(mentioning[0])["undefined"] == 0.0


@pytest.mark.parametrize(
    "question",
    [
        "Do you know when foxes hunt?",
        "Hi, can you please tell me when foxes hunt?",
        "Great, that was quick! So I'd like to know when foxes hunt, thanks.",
        "Sorry, when do foxes hunt, please?",
    ],
)
def test_courtesy_is_no_part_of_what_is_asked(question: str) -> None:
    read = read_question(question)
    assert (read.kind, set(read.stems)) == (QuestionKind.TIME, {stem("foxes"), stem("hunt")})


@pytest.mark.parametrize(
    ("question", "subject"),
    [
        ("By the way, what is a fox?", ("fox",)),
        ("Thanks! Could you explain foxes?", ("fox",)),
        ("What is Yahoo! Mail?", ("yaho", "mail")),
        ("What is thank you?", ("thank",)),
    ],
)
def test_what_is_asked_for_stays_without_courtesy(question: str, subject: tuple[str, ...]) -> None:
    assert read_question(question).subject == subject


@pytest.mark.parametrize(
    ("question", "subject"),
    [
        ("What does REML stand for in statistics?", ("reml",)),
        ("What does an asterisk mean in the first column of a table?", ("asterisk",)),
        ("What does fork do in Unix?", ("fork",)),
        ("What does a fork do in the night?", ()),
    ],
)
def test_what_a_thing_means_somewhere_is_asked_of_the_thing(question: str, subject: tuple[str, ...]) -> None:
    assert read_question(question).subject == subject


def test_what_several_things_are_asks_for_a_definition_unless_they_are_known() -> None:
    assert read_question("What are red foxes?").subject == ("red", "fox")
    assert read_question("What are the red foxes?").kind is QuestionKind.ENUMERATION


def test_the_way_to_do_something_is_asked_for_as_how_to_do_it() -> None:
    for asked in ("the command to feed foxes", "the easiest way to feed foxes", "the option for feeding foxes"):
        assert read_question(f"What is {asked}?").kind is QuestionKind.PROCEDURE
    assert read_question("What is the fox option for?").subject == ("fox", "option")


def test_two_words_that_stand_apart_as_well_are_not_one() -> None:
    vocabulary = frozenset({"priorapproval", "prior", "approval"})
    assert read_question("Who needs prior approval?", vocabulary).stems == ("prior", "approval")


def test_how_long_it_takes_asks_for_no_taking() -> None:
    assert read_question("How long does it take to get an answer?").stems == ("answer",)


def test_a_number_makes_no_compound_with_the_word_before_it() -> None:
    vocabulary = frozenset({"fox2", "backup"})
    assert read_question("Will there be a fox 2?", vocabulary).stems == ("fox", "2")
    assert read_question("How do I back up?", vocabulary).stems == ("backup",)


def test_a_question_that_only_has_the_word_do_asks_for_no_definition() -> None:
    assert read_question("What does the queen want to do about fees?").kind is not QuestionKind.DEFINITION
    assert read_question("What does the queen do?").subject == ("queen",)


def test_a_question_of_separators_is_read_in_no_time() -> None:
    began = time.thread_time()
    read_question(1000 * ", ")
    assert time.thread_time() - began < 0.2  # at cubic cost: 0.5 s and more


@pytest.mark.parametrize(
    "question", ["What does the use keyword do?", "What does `use` do?", "What is the use statement for?"]
)
def test_a_keyword_is_asked_for_although_it_is_a_small_word_of_english(question: str) -> None:
    assert "`use`" in read_question(question).subject
    assert "`use`" in read_question(question).stems


def test_a_small_word_in_capitals_is_a_keyword() -> None:
    assert read_question("What does HAVING do?").subject == ("`having`",)
    assert read_question("What is the difference between GROUP and OR?").stems == ("group",)
    for question in ("Is this NOT covered?", "What does IT do?", "WHAT IS USE?"):
        assert not any(each.startswith("`") for each in read_question(question).stems), question
    rule = "The HAVING clause restricts the output to groups."
    scored = make_scored("What does HAVING do?", f"Having no groups, there is one row in all. {rule}")
    assert min(scored, key=Scored.order).excerpt.text == rule


def test_that_something_took_place_is_no_word_of_a_question() -> None:
    assert read_question("When did the siege take place?").stems == ("sieg",)
    assert read_question("What took the place of the siege?").stems == ("tak", "plac", "sieg")


def test_small_words_of_a_question_are_no_keywords() -> None:
    assert read_question("How do I use commands?").stems == ("command",)
    assert read_question("What does the add operator do?").subject == ("add", "operator")


def test_two_words_that_the_material_writes_as_one_are_one() -> None:
    question = "How do I back up the set-up data?"
    assert read_question(question, frozenset({"backup"})).stems == ("backup", "set", "data")
    assert read_question(question).stems == ("back", "set", "data")
    assert "backup" in read_question(question, frozenset({"backup"})).stems_of("Back up and restore")
    assert "backup" not in read_question(question).stems_of("Back up and restore")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("borrows", "borrowing"),
        ("copies", "copied"),
        ("running", "runs"),
        ("classes", "class"),
        ("files", "file"),
        ("strings", "string"),
        ("aliases", "alias"),
    ],
)
def test_forms_of_a_word_have_one_stem(one: str, other: str) -> None:
    assert stem(one) == stem(other)


def test_an_ending_without_which_no_vowel_is_left_is_none() -> None:
    assert stem("string") != stem("str")


def test_words_are_folded_and_identifiers_cut() -> None:
    assert content_stems("What is HashMap, the `hash_map`?") == ["hash", "map", "hash", "map"]


@pytest.mark.parametrize("question", ["Which operators does a filter have?", "What operators do filters need?"])
def test_which_and_a_plural_asks_for_a_list(question: str) -> None:
    assert read_question(question).kind is QuestionKind.ENUMERATION


@pytest.mark.parametrize(
    ("question", "is_procedure"),
    [
        ("How is UTF-8 mode enabled?", True),
        ("How are the owls published?", True),
        ("How is memory laid out?", False),
        ("How are generations stored?", False),
    ],
)
def test_how_something_is_done_by_users_asks_for_steps(question: str, is_procedure: bool) -> None:
    assert (read_question(question).kind is QuestionKind.PROCEDURE) is is_procedure


def test_a_summary_is_asked_of_a_document_by_its_number() -> None:
    passages = [
        make_passage("Owls.", rank=1, source_uri="pep-4040.rst"),
        make_passage("Foxes.", rank=2, source_uri="pep-0404.rst"),
    ]
    assert named_place("PEP 404", passages) == (passages[1].document_id, "")
    assert named_place("PEP 40", passages) is None


def test_a_folder_is_no_name_of_a_document() -> None:
    passages = [make_passage("Foxes.", source_uri="guide/foxes.md"), make_passage("Owls.", source_uri="guide.md")]
    assert named_place("guide", passages[:1]) is None
    assert named_place("guide", passages) == (passages[1].document_id, "")
    assert named_place("foxes", passages) == (passages[0].document_id, "")


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("What does this document cover?", ""),
        ("What does the chapter on owls cover?", "owls"),
        ("What does PEP 8 cover?", "PEP 8"),
        ("What does the employee handbook cover?", "the employee handbook"),
        ("What does operating.md cover?", "operating.md"),
        ("What does the Gold plan cover?", None),
        ("What does the chapter on owls not cover?", None),
        ("What is the Gold plan about?", "the Gold plan"),
    ],
)
def test_what_is_covered_asks_for_a_summary_of_documents_only(question: str, name: str | None) -> None:
    assert document_asked_for(question) == name


def test_an_identifier_in_camel_case_is_a_word_of_its_own() -> None:
    assert "onsend" in read_question("When is the onSend hook called?").stems
    assert "iphone" not in read_question("When is the iPhone called?").stems


def test_a_name_that_is_a_small_word_without_its_capitals_is_asked_for() -> None:
    assert read_question("How do I use it from Go?").stems == ("go",)
    assert read_question("Who leads the IT team of the US?").stems == ("lead", "team", "it", "us")
    assert read_question("Who leads it?").stems == ("lead",)
    assert "it" not in read_question("WHO LEADS IT?").stems


def test_the_number_of_a_version_is_that_behind_a_v() -> None:
    assert read_question("What does v4 remove?").stems == read_question("What does 4 remove?").stems


def test_what_is_done_somewhere_is_no_subject() -> None:
    assert read_question("What was removed in version 4?").kind is QuestionKind.OTHER
    assert read_question("What is stored in the den?").subject == ()
    assert read_question("What does the den hold?").subject == ("den",)


def test_things_compared_are_told_apart_by_their_names() -> None:
    assert read_question("What is the difference between send_all and send_fox?").sides == (
        frozenset({"send"}),
        frozenset({"send", "fox"}),
    )
    assert read_question("What is the difference between before_send and after_send?").sides == (
        frozenset({"before_send"}),
        frozenset({"after_send"}),
    )
