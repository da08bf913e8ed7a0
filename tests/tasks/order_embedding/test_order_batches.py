"""Batches and settings: one drawn caption per image and epoch, and what cannot be meant is refused by name."""

import numpy as np
import pytest
import torch

from rmsrepro.errors import ConfigError, DataError
from rmsrepro.norms.factory import NormFactory


def captions_of(task, epoch):
    """Return the images and the captions that an epoch visits, as rows of the files."""
    order, drawn = task._draw(epoch)
    return order, order * 5 + drawn[order]


def test_an_epoch_visits_every_image_once_with_one_of_its_captions(load_task):
    task = load_task("train.batch_size=6")
    order, captions = captions_of(task, 3)
    assert sorted(order) == list(range(42))
    assert (captions // 5 == order).all()
    again, other = load_task("train.batch_size=6"), captions_of(task, 4)
    assert (captions_of(again, 3)[1] == captions).all()
    assert (np.sort(other[1]) != np.sort(captions)).any()
    assert (captions_of(load_task("seed=2"), 3)[1] != captions).any()


def test_each_draw_of_the_five_captions_occurs(load_task):
    task = load_task()
    assert {int(d) for epoch in range(3) for d in task._draw(epoch)[1]} == set(range(5))


def test_a_batch_pairs_each_image_with_its_own_caption_the_longest_first(load_task):
    task = load_task("task.normalise_features=false")
    images, tokens, lengths = task.batch(1, 2).inputs
    words = np.array(task.corpus.vocabulary.words)
    assert (lengths.diff() <= 0).all()
    for i in range(8):
        said = {int(word[1:]) for word in words[tokens[: lengths[i] - 1, i]] if word.startswith("k")}
        assert said == set(images[i].topk(2).indices.tolist())


def test_what_does_not_fill_a_batch_is_dropped_and_counted(load_task):
    task = load_task()
    assert task.batches_per_epoch() == 5
    assert task.facts()["train_images_dropped_per_epoch"] == 2
    with pytest.raises(DataError, match=r"train\.txt has captions of 42 images; train\.batch_size=43"):
        load_task("train.batch_size=43")


def test_the_vocabulary_is_of_training_and_development_captions_or_of_training_only(load_task, pairs_root):
    path = pairs_root / "captions" / "dev.txt"
    path.write_text(path.read_text().replace("and", "zebra"))
    both, train = load_task(), load_task("task.vocabulary=train")
    assert "zebra" in both.corpus.vocabulary.words
    assert "zebra" not in train.corpus.vocabulary.words
    assert both.facts()["valid_unk_rate"] == 0 < train.facts()["valid_unk_rate"]


def test_without_a_test_split_the_run_says_that_the_development_set_judges_it(load_task, pairs_root, capsys):
    assert load_task().spec.primary == "test/image_r1"
    (pairs_root / "captions" / "test.txt").unlink()
    task = load_task()
    assert task.spec.primary == task.facts()["judged_by"] == "valid/image_r1"
    assert "test.txt is not there" in capsys.readouterr().err
    with pytest.raises(DataError, match=r"testall\.txt is not there.*splits there: dev, train.*test_split=valid"):
        load_task("task.test_split=testall")


def test_features_of_two_networks_are_refused(load_task, pairs_root):
    np.save(pairs_root / "captions" / "images" / "cnn" / "dev.npy", np.ones((20, 3), np.float32))
    with pytest.raises(DataError, match=r"dev\.npy has rows of 3 numbers and .*train\.npy of 12"):
        load_task()


@pytest.mark.parametrize(
    "override",
    [
        "task.score=euclid",
        "task.margin=0.0",
        "task.norm_x=never",
        "task.hidden=0",
        "task.dropout_words=1.0",
        "task.folder=../x",
        "task.select=caption",
        "task.test_folds=0",
        "task.cnn=a/b",
        "data=mnist",
    ],
)
def test_settings_that_mean_nothing_are_refused_by_name(load_task, override):
    with pytest.raises(ConfigError, match=override.split("=")[0].replace(".", r"\.")):
        load_task(override)


def test_the_cosine_baseline_has_its_own_margin_and_no_absolute_values(load_task):
    task = load_task("task.score=cosine", "norm=none")
    assert (task.settings.margin, task.settings.absolute) == (0.2, False)
    model = task.build_model(NormFactory(task.cfg.norm, "auto"))
    images, sentences = model(*task.batch(0, 0).inputs)
    assert images.min() < 0
    torch.testing.assert_close(model.errors(sentences, images), -sentences @ images.t())


def test_made_up_pairs_have_the_papers_shapes_and_train(load_task):
    task = load_task("train.batch_size=4", "size=paper", "task.hidden=16", "task.word=8")
    task.load_synthetic()
    batch = task.batch(0, 0)
    images, tokens, lengths = batch.inputs
    assert images.shape == (4, 4096)
    assert 10 < task._train.captions.lengths.mean() < 13
    model = task.build_model(NormFactory(task.cfg.norm, task.cfg.impl))
    task.loss_sum(model, batch, None)[0].backward()
    assert torch.equal(task.batch(0, 0).inputs[1], tokens)
    assert lengths[0] == len(tokens)
