"""Questions made here: names become marks that say nothing, the gap is where the answer was, the same every time."""

import hashlib
import io
import tarfile

import pytest

from rmsrepro.data.cloze import brown
from rmsrepro.data.cloze.__main__ import main
from rmsrepro.data.cloze.archive import read_members
from rmsrepro.data.cloze.dataset import ClozeDataSet
from rmsrepro.data.cloze.making import Mention, make_question, write_archive
from rmsrepro.data.cloze.question import parse_question
from rmsrepro.data.cloze.stories import mark_names, questions_of, read_story, sentences_of
from rmsrepro.data.registry import get_data_set
from rmsrepro.errors import DataError

STORY = """(CNN) -- President Barack Obama met Angela Merkel in Berlin on Tuesday. He said the U.S. would help.

"We are glad," Merkel said. Barack Obama smiled. Rain fell.

@highlight

Merkel meets Barack Obama in Berlin

@highlight

Rain in Paris
"""


def test_the_answer_leaves_the_gap_and_other_names_their_marks():
    passage = [["Then", Mention("Ann Lee"), "saw", Mention("Bob"), "."]]
    question = make_question("x#1", passage, [Mention("Bob"), "and", Mention("Ann Lee"), "left"], "Bob")
    mark = {name: mark for mark, name in question.entities.items()}
    assert question.answer == mark["Bob"]
    assert question.question == ["@placeholder", "and", mark["Ann Lee"], "left"]
    assert question.passage == ["then", mark["Ann Lee"], "saw", mark["Bob"], "."]


def test_marks_are_numbered_differently_at_every_address_and_the_same_every_time():
    passage = [[Mention(name) for name in "abcdefgh"]]
    orders = [make_question(f"x#{i}", passage, passage[0], "a").entities for i in (1, 2, 1)]
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[0]) == [f"@entity{i}" for i in range(8)]


def test_names_of_the_brown_corpus_are_runs_of_its_np_tags():
    line = (
        "The/at Fulton/np-tl County/nn-tl jury/nn praised/vbd Ivan/np Allen/np Jr.'s/np$ and/cc Gyp'll/np+md go/vb ./."
    )
    assert list(brown.tagged_sentences(line)) == [
        [
            "The",
            Mention("Fulton"),
            "County",
            "jury",
            "praised",
            Mention("Ivan Allen Jr."),
            "'s",
            "and",
            "Gyp'll",
            "go",
            ".",
        ]
    ]


def test_a_brown_question_asks_for_a_name_that_the_sentences_before_it_mention():
    name = "Ann/np Bob/np saw/vbd Cy/np and/cc Di/np ./."
    filler = "it/pps was/bedz quite/ql cold/jj and/cc wet/jj all/abn day/nn"
    lines = [name, *["they/ppss slept/vbd ./."] * 4, f"{filler} for/in Cy/np ./.", f"{filler} for/in Ed/np ./."]
    (made,) = brown.questions_of("ca01", "\n".join(lines), "train")
    assert made.question.address == "brown:ca01#5"
    assert made.question.entities[made.question.answer] == "Cy"
    assert made.question.answer in made.question.passage
    assert "@placeholder" in made.question.question


def test_an_archive_of_the_same_questions_has_the_same_bytes_and_is_read_back(tmp_path):
    made = list(questions_of("a", STORY, "valid"))
    archives = []
    for _ in range(2):
        file = io.BytesIO()
        write_archive(file, "mine", made)
        archives.append(file.getvalue())
    assert archives[0] == archives[1]
    (tmp_path / "mine.tar").write_bytes(archives[0])
    members = list(read_members(tmp_path / "mine.tar"))
    assert [member.split for member in members] == ["valid"] * len(made)
    assert [parse_question(member.content) for member in members] == [one.question for one in made]


def test_a_story_s_names_are_runs_of_capitals_that_do_not_just_begin_a_sentence():
    paragraphs, highlights = read_story(STORY)
    assert highlights == ["Merkel meets Barack Obama in Berlin", "Rain in Paris"]
    sentences = sentences_of(paragraphs)
    assert sentences[1] == ["He", "said", "the", "U.S.", "would", "help", "."]
    inside = {"Barack Obama", "Merkel"}
    assert mark_names(["Barack", "Obama", "smiled"], inside) == [Mention("Barack Obama"), "smiled"]
    assert mark_names(["Rain", "fell", "in", "Rome"], inside) == ["Rain", "fell", "in", Mention("Rome")]
    assert mark_names(["Yesterday", "Barack", "Obama"], inside) == ["Yesterday", Mention("Barack Obama")]
    assert mark_names(['"', "We", "left"], inside) == ['"', "We", "left"]


def test_a_highlight_asks_for_each_name_that_its_story_mentions():
    answers = [one.question.entities[one.question.answer] for one in questions_of("a", STORY, "train")]
    assert answers == ["Barack Obama", "Berlin", "Merkel"]


def test_the_command_makes_an_archive_split_by_lists_of_addresses(tmp_path, capsys):
    stories, urls = tmp_path / "stories", tmp_path / "urls"
    stories.mkdir()
    urls.mkdir()
    for name in (hashlib.sha1(b"http://a/1").hexdigest(), "in no list", "nor this"):
        (stories / f"{name}.story").write_text(STORY)
    for word in ("training", "validation", "test"):
        (urls / f"wayback_{word}_urls.txt").write_text("http://a/1\n" if word == "validation" else "")
    archive = tmp_path / "mine.tar.gz"
    assert main([str(stories), str(archive), "--urls", str(urls)]) == 0
    assert "3 valid questions" in capsys.readouterr().out
    with tarfile.open(archive) as packed:
        assert {name.rpartition("/")[0] for name in packed.getnames()} == {"mine/questions/validation"}
    assert main([str(stories), str(archive)]) == 0
    assert "9 train questions" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("story", "archive", "why"),
    [
        (None, "mine.tar", "has no .story files"),
        (STORY.encode(), "mine.zip", "an archive's name ends in .tar.xz"),
        (b"caf\xe9\n", "mine.tar", "is not UTF-8: byte offset 3"),
        (b"Nothing.\n", "mine.tar", "nothing to ask"),
    ],
)
def test_what_the_command_cannot_use_is_said_in_one_line(tmp_path, capsys, story, archive, why):
    (tmp_path / "stories").mkdir()
    if story is not None:
        (tmp_path / "stories" / "a.story").write_bytes(story)
    assert main([str(tmp_path / "stories"), str(tmp_path / archive)]) == 2
    error = capsys.readouterr().err
    assert why in error
    assert error.count("\n") == 1
    assert not (tmp_path / archive).exists()


def test_a_data_set_is_checked_question_by_question(members, write_archive, tmp_path):
    write_archive(members, ".tar.xz")
    (file,) = ClozeDataSet("small").check(tmp_path)
    assert file.path == tmp_path / "small.tar.xz"
    name = next(iter(members))
    write_archive({**members, name: members[name][:50]}, ".tar.xz")
    with pytest.raises(DataError, match="1 broken questions, such as training00"):
        ClozeDataSet("small").check(tmp_path)


def test_four_sentences_of_cnn_come_from_cnn_where_no_archive_of_them_is(members, write_archive, tmp_path):
    path = write_archive(members, ".tgz").rename(tmp_path / "cnn.tgz")
    data_set = get_data_set("cnn_top4")
    assert isinstance(data_set, ClozeDataSet)
    assert data_set.archive(tmp_path) == path


def test_a_question_set_of_brown_that_is_not_the_known_one_is_refused(tmp_path):
    (tmp_path / "cloze").mkdir()
    with (tmp_path / "cloze" / "brown_cloze.tar").open("wb") as file:
        write_archive(file, "brown_cloze", questions_of("a", STORY, "train"))
    with pytest.raises(DataError, match="is not the brown_cloze that is built here: expected 21422080 bytes"):
        get_data_set("brown_cloze").check(tmp_path)
