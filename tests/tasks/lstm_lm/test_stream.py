"""The training stream: columns read piece by piece, the state carried over, nothing predicted twice or never."""

import pytest
import torch

from rmsrepro.errors import ConfigError, DataError
from rmsrepro.norms.factory import NormFactory


def test_the_pieces_of_a_column_predict_its_every_token_once(load_task):
    task = load_task()
    ids = torch.from_numpy(task.corpus.streams["train"].ids).long()
    pieces = [task.batch(0, i).inputs for i in range(task.batches_per_epoch())]
    inputs, targets = (torch.cat(parts) for parts in zip(*pieces, strict=True))
    length = (len(ids) - 1) // 4
    assert torch.equal(inputs.t().flatten(), ids[: 4 * length])
    assert torch.equal(targets.t().flatten(), ids[1 : 4 * length + 1])
    facts = task.facts()
    assert facts["train_tokens_per_epoch"] + facts["train_tokens_dropped_per_epoch"] == len(ids) - 1


def test_the_carried_state_makes_pieces_one_sequence_with_its_history_cut(load_task):
    task = load_task("task.dropout=0.0", "norm=rmsnorm")
    model = task.build_model(NormFactory(task.cfg.norm, task.cfg.impl))
    whole = load_task("task.dropout=0.0", "task.bptt=10", "norm=rmsnorm")
    carry, losses = task.initial_carry(), []
    for index in (0, 1):
        loss, carry = task.loss_sum(model, task.batch(0, index), carry)
        losses.append(loss)
        assert not any(part.requires_grad for part in carry)
        assert [part.shape for part in carry] == [(2, 4, 8)] * 2
    together, last = whole.loss_sum(model, whole.batch(0, 0), None)
    torch.testing.assert_close(sum(losses), together)
    torch.testing.assert_close(carry, last)


@pytest.mark.parametrize(("split", "text", "counts"), [("train", "a b c\n" * 5, "20.*21"), ("valid", "", "empty")])
def test_a_text_that_is_too_short_is_refused_with_both_counts(load_task, corpus, split, text, counts):
    (corpus / "text" / f"{split}.txt").write_text(text)
    with pytest.raises(DataError, match=rf"{split}\.txt .*{counts}"):
        load_task()


def test_one_token_more_fills_a_batch(load_task, corpus):
    (corpus / "text" / "train.txt").write_text("a b c\n" * 5 + "\n")
    assert load_task().batches_per_epoch() == 1


def test_words_outside_the_training_text_are_unknown_and_counted(load_task, corpus):
    (corpus / "text" / "test.txt").write_text("a zebra <unk> yak\n")
    facts = load_task().facts()
    assert facts["test_tokens_outside_vocabulary"] == 2
    assert facts["test_unk_rate"] == pytest.approx(3 / 5)
    assert facts["vocabulary"] == 14  # twelve words, <unk> and <eos>


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(load_task, corpus):
    before = load_task()
    for path in (corpus / "text").iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    after = load_task()
    assert after.facts() == before.facts()
    assert after.checksums() == before.checksums()


def test_without_a_test_text_the_run_says_that_validation_judges_it(load_task, corpus, capsys):
    assert load_task().spec.primary == "test/perplexity"
    (corpus / "text" / "test.txt").unlink()
    task = load_task()
    assert task.spec.primary == task.facts()["judged_by"] == "valid/perplexity"
    assert "test.txt is not there" in capsys.readouterr().err
    with pytest.raises(DataError, match=r"test\.txt is not there.*task\.test_split=valid"):
        load_task("task.test_split=test")


def test_a_damaged_test_text_is_an_error_and_not_a_missing_one(load_task, corpus):
    (corpus / "text" / "test.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(DataError, match=r"test\.txt is not UTF-8"):
        load_task()
    assert "test_tokens" not in load_task("task.test_split=valid").facts()


@pytest.mark.parametrize(
    "override",
    ["task.hidden=0", "task.dropout=1.0", "task.bptt=0", "task.test_split=dev", "task.text=../x", "data=mnist"],
)
def test_settings_that_mean_nothing_are_refused_by_name(load_task, override):
    with pytest.raises(ConfigError, match=override.split("=")[0].replace(".", r"\.")):
        load_task(override)
