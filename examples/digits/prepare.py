"""Write the handwritten digits of scikit-learn as image files: data/{train,test}/<label>/<n>.png.

    python prepare.py [folder] [images]

1,797 scans of 8 x 8 pixels (the test part of UCI's Optical Recognition of Handwritten Digits);
1,437 for training, 360 held back for evaluation; or fewer, if their number is given. Nothing
happens when the folder is there.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

HELD_BACK = 5  # every fifth image is for evaluation


def prepare(folder: Path, images: int | None = None) -> bool:
    """Write the images below `folder`, all or none; False when the folder is already there.

    images: only the first of them.
    """
    if folder.exists():
        return False
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".preparing-") as scratch:
        _write_images(Path(scratch) / folder.name, images)
        shutil.move(Path(scratch) / folder.name, folder)
    return True


def _write_images(folder: Path, images: int | None) -> None:
    digits = load_digits()
    found = zip(digits.images[:images], digits.target[:images], strict=True)
    for n, (image, label) in enumerate(found):
        split = "train" if n % HELD_BACK else "test"
        file = folder / split / str(label) / f"{n:04d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        grey = np.round(image * (255 / 16)).astype(np.uint8)  # a scan has 17 levels of grey, 0..16
        Image.fromarray(grey).save(file)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "data"
    count = int(sys.argv[2]) if len(sys.argv) > 2 else None
    print(f"{target}: {'written' if prepare(target, count) else 'already there'}")
