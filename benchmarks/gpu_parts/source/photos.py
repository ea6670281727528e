"""JPEG photographs made up from noise, decoded, cropped, resized and flipped: work for CPUs."""

import io

import numpy as np
from PIL import Image

_FILES, _SIDE = 64, 224


class Photos:
    def __init__(self):
        generator = np.random.default_rng(0)
        self._files = [_jpeg(generator) for _ in range(_FILES)]

    def __len__(self):
        return 2_000_000

    def __getitem__(self, index):
        generator = np.random.default_rng()  # seeded by Launcher
        image = Image.open(io.BytesIO(self._files[index % _FILES])).convert("RGB")
        width, height = image.size
        side = int(min(image.size) * generator.uniform(0.5, 1.0))
        left = int(generator.uniform(0, width - side))
        top = int(generator.uniform(0, height - side))
        box = (left, top, left + side, top + side)
        image = image.resize((_SIDE, _SIDE), Image.Resampling.BICUBIC, box=box)
        pixels = np.asarray(image)
        if generator.random() < 0.5:
            pixels = pixels[:, ::-1]
        return np.ascontiguousarray(pixels.transpose(2, 0, 1)), index


def _jpeg(generator):
    """Return a file of 500 x 375 pixels and about 100 kB, as photographs of ImageNet are."""
    coarse = generator.integers(0, 255, (47, 63, 3), dtype=np.uint8)
    image = Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC)
    noisy = np.asarray(image) + generator.normal(0, 12, (375, 500, 3))
    file = io.BytesIO()
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=90)
    return file.getvalue()


def dataset():
    return Photos()
