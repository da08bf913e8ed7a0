"""Feature extraction: any list of captions, any backbone, and a killed run that goes on with the same bytes."""

import json

import numpy as np
import pytest
from PIL import Image

from rmsrepro.data.retrieval.caption_lists import read_karpathy, read_tab_separated
from rmsrepro.data.retrieval.feature_writer import FeatureWriter
from rmsrepro.data.retrieval.split import read_split
from rmsrepro.errors import DataError
from scripts import extract_features


@pytest.fixture
def photographs(tmp_path):
    """Write five small images and their list of captions; return their folder."""
    folder = tmp_path / "photographs"
    folder.mkdir()
    random = np.random.default_rng(0)
    lines = []
    for i in range(5):
        Image.fromarray(random.integers(0, 255, (40 + i, 50, 3), dtype=np.uint8)).save(folder / f"{i}.png")
        lines += [f"{i}.png#{k}\tImage {i},  caption {k} ." for k in range(5)]
    (folder / "list.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def command(photographs, tmp_path, monkeypatch):
    """Return a function that runs the extraction with small crops and one fixed random network."""
    monkeypatch.setattr(extract_features, "RESIZE", 40)
    monkeypatch.setattr(extract_features, "CROP", 32)
    import torch

    def run(*more: str) -> int:
        torch.manual_seed(0)
        fixed = ["--images", str(photographs), "--tab", str(photographs / "list.txt"), "--split", "train"]
        fixed += ["--out", str(tmp_path / "out"), "--backbone", "mobilenet_v3_small", "--weights", "none"]
        return extract_features.main([*fixed, "--batch-size", "2", "--device", "cpu", *more])

    return run


def test_it_writes_a_split_that_the_task_reads(command, tmp_path):
    assert command() == 0
    read = read_split(tmp_path / "out", "train")
    assert read.images == 5
    assert read.text.lines[6] == "Image 1, caption 1 ."
    np.testing.assert_allclose(np.linalg.norm(read.features.rows(np.arange(5)), axis=1), 1, rtol=1e-5)


def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(command, tmp_path, monkeypatch):
    assert command() == 0
    path = tmp_path / "out" / "images" / "mobilenet_v3_small" / "train.npy"
    whole = path.read_bytes()
    path.unlink()
    made = []
    features_of = extract_features.features_of

    def killed(model, paths, args):
        made.append(len(paths))
        if len(made) == 3:
            raise KeyboardInterrupt
        return features_of(model, paths, args)

    monkeypatch.setattr(extract_features, "features_of", killed)
    assert command() == 130
    assert not path.exists()
    made.append(0)
    assert command() == 0
    assert path.read_bytes() == whole
    assert sum(made[4:]) == 1 + 3  # one image for the width, and the three that were missing
    assert [p.name for p in path.parent.iterdir()] == ["train.npy"]


def test_a_begun_file_of_other_settings_is_refused(tmp_path):
    path = tmp_path / "train.npy"
    FeatureWriter(path, (4, 2), "float32", "vgg19").write(np.ones((1, 2)))
    assert FeatureWriter(path, (4, 2), "float32", "vgg19").done == 1
    with pytest.raises(DataError, match="begun with other settings"):
        FeatureWriter(path, (4, 2), "float32", "resnet18")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--backbone", "nonet"], "nonet"),
        (["--backbone", "squeezenet1_0"], "no linear layer"),
        (["--weights", "absent.pth"], "no weights"),
        (["--tab", "absent.txt"], "absent.txt"),
    ],
)
def test_what_cannot_be_done_is_one_line(command, capsys, options, reason):
    assert command(*options) == 2
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error:"))
    assert reason in line


@pytest.mark.parametrize(("content", "reason"), [(None, "is not there"), (b"no image", "cannot be read as an image")])
def test_an_image_that_is_missing_or_damaged_is_named(command, photographs, capsys, content, reason):
    image = photographs / "3.png"
    image.unlink()
    if content is not None:
        image.write_bytes(content)
    assert command() == 2
    assert f"3.png {reason}" in capsys.readouterr().err


def test_karpathys_list_gives_splits_tokens_and_five_captions(tmp_path):
    def image(name, split, count=5):
        return {"filename": name, "split": split, "sentences": [{"tokens": ["a", f"w{k}"]} for k in range(count)]}

    images = [image("1.jpg", "train"), image("2.jpg", "restval", 7), {**image("3.jpg", "val"), "filepath": "val2014"}]
    path = tmp_path / "dataset_coco.json"
    path.write_text(json.dumps({"images": images}))
    splits = read_karpathy(path)
    assert splits["train"].images == ["1.jpg", "2.jpg"]
    assert splits["train"].captions[5:] == [f"a w{k}" for k in range(5)]
    assert splits["dev"].images == ["val2014/3.jpg"]
    path.write_text(json.dumps({"images": [image("4.jpg", "train", 4)]}))
    with pytest.raises(DataError, match=r"4\.jpg has 4 captions"):
        read_karpathy(path)
    path.write_text("{}")
    with pytest.raises(DataError, match="no list of Karpathy's"):
        read_karpathy(path)


def test_only_the_images_of_a_split_are_taken_in_its_order(photographs, tmp_path):
    only = tmp_path / "split.txt"
    only.write_text("3.png\n1.png\n")
    listed = read_tab_separated(photographs / "list.txt", "dev", only)["dev"]
    assert listed.images == ["3.png", "1.png"]
    assert listed.captions[0] == "Image 3, caption 0 ."
