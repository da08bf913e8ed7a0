"""A question file is read as people write them, and a broken one is told from a whole one."""

import pytest

from rmsrepro.data.cloze.question import BrokenQuestionError, format_question, is_entity, parse_question

PASSAGE, QUESTION = "( @entity0 ) -- @entity1 won .", "@placeholder won in @entity0"
NAMES = "@entity0:CNN\n@entity1:Obama"


def content(passage=PASSAGE, question=QUESTION, answer="@entity1", names=NAMES, end=""):
    return f"http://a\n\n{passage}\n\n{question}\n\n{answer}\n\n{names}{end}".encode()


def test_all_parts_are_read():
    question = parse_question(content())
    assert question.address == "http://a"
    assert question.passage == PASSAGE.split()
    assert question.question == QUESTION.split()
    assert question.answer == "@entity1"
    assert question.entities == {"@entity0": "CNN", "@entity1": "Obama"}


@pytest.mark.parametrize(
    "same",
    [content(end="\n"), content(end="\n\n"), content().replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + content()],
    ids=["final newline", "blank last line", "Windows", "byte-order mark"],
)
def test_how_the_file_was_saved_changes_nothing(same):
    assert parse_question(same) == parse_question(content())


def test_a_name_may_hold_colons():
    assert parse_question(content(names="@entity1:Star Wars: Episode IV: a film")).entities == {
        "@entity1": "Star Wars: Episode IV: a film"
    }


def test_of_an_entity_named_twice_the_first_name_counts_and_the_second_is_counted():
    question = parse_question(content(names=f"{NAMES}\n@entity1:Romney\n@entity1:Obama"))
    assert question.entities["@entity1"] == "Obama"
    assert question.duplicates == 2


def test_an_answer_that_the_passage_lacks_is_no_mistake_of_the_file():
    assert parse_question(content(answer="@entity7")).answer == "@entity7"


def test_numbers_of_entities_have_no_limit():
    assert is_entity("@entity501")
    assert is_entity("@entity123456")
    assert not is_entity("@entity")
    assert not is_entity("x@entity5")


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (b"", "line 1 should hold an address"),
        (content()[:30], "line 5 should hold a question"),
        (content()[: content().index(b"@placeholder")], "line 5 should hold a question"),
        (content()[: content().index(b"\n\n@entity1\n")], "line 7 should hold an answer"),
        (content(question="nothing is asked"), "no @placeholder"),
        (content(answer="Obama"), "'Obama' and no @entityN"),
        (content(answer="@entity", names=""), "no @entityN"),
        (content(answer="@entity12", names=""), "may be cut short"),
        (content().replace(b"won .", b"won \xe9t\xe9 ."), "not UTF-8: byte 0xE9 at offset 39"),
        (b"<!DOCTYPE html>\n<html>\n<body>\n", "line 5 should hold a question"),
        (content().replace(b"\n\n", b"\n"), "line 2 should be blank|line 5|line 7"),
    ],
)
def test_a_broken_file_is_refused_and_says_why(broken, why):
    with pytest.raises(BrokenQuestionError, match=why):
        parse_question(broken)


def test_what_is_written_is_read_back():
    question = parse_question(content())
    assert parse_question(format_question(question)) == question
