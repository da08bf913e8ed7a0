"""Turn photographs and captions into order-embedding's layout: captions, and one row of CNN features per image.

    python scripts/extract_features.py --images Images --karpathy dataset_flickr8k.json --out DATA_ROOT/flickr8k
    python scripts/extract_features.py --images Images --tab Flickr8k.token.txt --only Flickr_8k.trainImages.txt \
        --split train --out DATA_ROOT/flickr8k --backbone resnet152

As in the paper by default: VGG-19, its last hidden layer (fc7) after the ReLU, shorter side 256, mean of ten crops of
224 x 224, rows of length one. Any classifier of torchvision serves by name; what its last linear layer reads are the
features. A killed run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torchvision import models
from torchvision.transforms import v2

from rmsrepro.data.files import write_atomically
from rmsrepro.data.retrieval.caption_lists import CaptionList, read_karpathy, read_tab_separated
from rmsrepro.data.retrieval.feature_writer import FeatureWriter
from rmsrepro.data.retrieval.features import normalise_rows
from rmsrepro.errors import ConfigError, DataError, UserError, single_line
from rmsrepro.runs.progress import Progress

RESIZE, CROP = 256, 224
#: Of the colour channels of ImageNet, which every backbone was trained on.
_MEAN, _STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def build_backbone(name: str, weights: str) -> nn.Module:
    """Return the classifier `name` without its last linear layer; `weights` is default, none, or a .pth file."""
    if name not in models.list_models(module=models):
        raise ConfigError(f"--backbone {name}: torchvision has {', '.join(models.list_models(module=models))}")
    try:
        model = models.get_model(name, weights="DEFAULT" if weights == "default" else None)
        if weights not in ("default", "none"):
            model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    except (OSError, RuntimeError, ValueError) as error:
        reason = single_line(error)[:200]
        raise DataError(f"--weights {weights}: no weights for {name} ({reason}); give a .pth file, or none") from error
    linear = [path for path, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise ConfigError(f"--backbone {name} ends in no linear layer, whose input would be the features")
    parent, _, last = linear[-1].rpartition(".")
    setattr(model.get_submodule(parent), last, nn.Identity())
    return model.eval()


def read_crops(path: Path, ten: bool) -> Tensor:
    """Return the ten crops, or the middle one, of an image as [crops, 3, CROP, CROP], each channel standardised."""
    try:
        with Image.open(path) as image:
            pixels = v2.functional.pil_to_tensor(image.convert("RGB"))
    except FileNotFoundError as error:
        raise DataError(f"{path} is not there, but the captions name it; --images is the folder of images") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read as an image: {error}") from error
    pixels = v2.functional.to_dtype(v2.functional.resize(pixels, [RESIZE], antialias=True), scale=True)
    crops = v2.functional.ten_crop(pixels, [CROP, CROP]) if ten else [v2.functional.center_crop(pixels, [CROP, CROP])]
    return v2.functional.normalize(torch.stack(list(crops)), _MEAN, _STD)


@torch.inference_mode()
def features_of(model: nn.Module, paths: Sequence[Path], args: argparse.Namespace) -> np.ndarray:
    """Return the features of some images, averaged over their crops: float32 [images, width]."""
    crops = torch.stack([read_crops(path, args.crops == "ten") for path in paths])
    features = model(crops.flatten(0, 1).to(args.device)).flatten(1)
    rows = features.view(*crops.shape[:2], -1).mean(1).float().cpu().numpy()
    return normalise_rows(rows) if args.normalise else rows


def batches(items: Sequence[Path], first: int, size: int) -> Iterator[Sequence[Path]]:
    """Yield the items from `first` on, `size` at a time."""
    for start in range(first, len(items), size):
        yield items[start : start + size]


def extract(model: nn.Module, split: str, listed: CaptionList, args: argparse.Namespace) -> None:
    """Write one split; what an earlier run has finished is left as it is."""
    target = args.out / "images" / args.backbone / f"{split}.npy"
    write_atomically(args.out / f"{split}.txt", "".join(f"{caption}\n" for caption in listed.captions).encode())
    if target.is_file():
        print(f"{target} is there already", file=sys.stderr)
        return
    paths = [args.images / name for name in listed.images]
    width = features_of(model, paths[:1], args).shape[1]
    recipe = f"{args.backbone}, weights {args.weights}, crops {args.crops}, normalised {args.normalise}"
    writer = FeatureWriter(target, (len(paths), width), args.dtype, f"{recipe}, first {paths[0]}, last {paths[-1]}")
    with Progress(len(paths), writer.done, f"{split} images") as progress:
        for some in batches(paths, writer.done, args.batch_size):
            writer.write(features_of(model, some, args))
            progress.update(writer.done)
    writer.finish()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 2 with one line for what the user can mend."""
    args = _arguments(argv)
    try:
        splits = read_karpathy(args.karpathy) if args.karpathy else read_tab_separated(args.tab, args.split, args.only)
        if args.split and args.split not in splits:
            raise DataError(f"--split {args.split}: {args.karpathy} has {', '.join(sorted(splits))}")
        model = build_backbone(args.backbone, args.weights).to(args.device)
        for split, listed in splits.items():
            if args.split in (None, split):
                extract(model, split, listed, args)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    print(args.out)
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True, help="folder of the photographs")
    captions = parser.add_mutually_exclusive_group(required=True)
    captions.add_argument("--karpathy", type=Path, help="a dataset_*.json of Karpathy's splits")
    captions.add_argument("--tab", type=Path, help="lines of image, tab, caption; wants --split")
    parser.add_argument("--only", type=Path, help="with --tab: a file that names the split's images")
    parser.add_argument("--split", help="the split's name (train, dev, test); with --karpathy, only that one")
    parser.add_argument("--out", type=Path, required=True, help="folder to write {split}.txt and images/ to")
    parser.add_argument("--backbone", default="vgg19", help="a classifier of torchvision (vgg19)")
    parser.add_argument("--weights", default="default", help="default (downloaded), none (random), or a .pth file")
    parser.add_argument("--crops", choices=("ten", "centre"), default="ten", help="crops to average (ten)")
    parser.add_argument("--normalise", action=argparse.BooleanOptionalAction, default=True, help="rows of length one")
    parser.add_argument("--dtype", choices=("float32", "float16"), default="float32", help="of the file (float32)")
    parser.add_argument("--batch-size", type=int, default=8, help="images at a time (8)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cuda or cpu")
    args = parser.parse_args(argv)
    if args.tab and not args.split:
        parser.error("--tab wants --split")
    if args.batch_size < 1:
        parser.error("--batch-size is 1 or more")
    return args


if __name__ == "__main__":
    sys.exit(main())
