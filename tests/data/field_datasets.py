"""Datasets of other libraries as their docs show them, over files that `write` makes.

Each function returns a dataset of `LENGTH` samples, whose `id` counts them. Nothing is seeded
unless the library wants it.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tarfile
from collections.abc import Callable
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np

LENGTH = 48
Open = Callable[[str], Any]
Read = Callable[[Any, int], Any]


def pixels(number: int) -> np.ndarray:
    return np.random.RandomState(number).randint(0, 256, (16, 16, 3), dtype=np.uint8)


def backwards(length: int, epoch: int, seed: int) -> range:
    """A sampler."""
    return range(length - 1, -1, -1)


# Hugging Face datasets -------------------------------------------------------------------------


def hf_map(root: str) -> Any:
    import datasets

    return datasets.load_from_disk(f"{root}/hf").with_format("numpy")


def hf_map_shuffled(root: str) -> Any:
    """Shuffled once, without a seed."""
    return hf_map(root).shuffle()


def hf_map_transform(root: str) -> Any:
    dataset = hf_map(root)
    dataset.set_transform(
        lambda rows: {"id": rows["id"], "x": [np.random.rand(3) for _ in rows["id"]]}
    )
    return dataset


def hf_iterable(root: str) -> Any:
    return hf_map(root).to_iterable_dataset(num_shards=8)


def hf_iterable_shuffled(root: str) -> Any:
    return hf_iterable(root).shuffle(seed=3, buffer_size=16)


def hf_iterable_unseeded(root: str) -> Any:
    return hf_iterable(root).shuffle(buffer_size=16)


def hf_streaming(root: str) -> Any:
    """Streamed from files, not loaded."""
    import datasets

    files = sorted(str(path) for path in Path(root, "parquet").glob("*.parquet"))
    stream = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)
    return stream.shuffle(buffer_size=8).with_format("numpy")


# webdataset ------------------------------------------------------------------------------------


def wds(root: str) -> Any:
    return samples_of_wds(root, shardshuffle=False)


def wds_shuffled(root: str) -> Any:
    """With its own shuffles, which seed themselves from the process id and the clock."""
    return samples_of_wds(root, shardshuffle=8, buffer=16)


def samples_of_wds(root: str, *, shardshuffle: int, buffer: int = 0) -> Any:
    import webdataset

    dataset = webdataset.WebDataset(f"{root}/tars/{{0..7}}.tar", shardshuffle=shardshuffle)
    if buffer:
        dataset = dataset.shuffle(buffer)
    samples = dataset.decode().to_tuple("id.txt", "x.npy").map_tuple(int)
    return samples.map(lambda sample: {"id": sample[0], "x": sample[1]})


# litdata -------------------------------------------------------------------


def lit(root: str) -> Any:
    import litdata

    return litdata.StreamingDataset(f"{root}/lit", shuffle=True)


def lit_ordered(root: str) -> Any:
    import litdata

    return litdata.StreamingDataset(f"{root}/lit", shuffle=False)


# Augmentation ----------------------------------------------------------------------------------


class Images:
    """Images with an augmentation."""

    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"id": index, "x": self.transform(pixels(index))}


def albumented(seed: int | None) -> Any:
    import albumentations as a

    noise = [a.RandomBrightnessContrast(p=1.0), a.GaussNoise(p=1.0)]
    compose = a.Compose([a.RandomCrop(8, 8), a.HorizontalFlip(p=0.5), *noise], seed=seed)
    return Images(lambda image: compose(image=image)["image"])


def albumentations_unseeded() -> Any:
    return albumented(None)


def albumentations_seeded() -> Any:
    return albumented(7)


def declare_operators() -> None:
    """Let torchvision's build for GPUs be imported beside a PyTorch for CPUs.

    Its library of operators does not load there, and its import asks for the signatures of two.
    """
    import torch

    if "torchvision" not in sys.modules:
        for name in ("nms", "qnms"):
            signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            with contextlib.suppress(RuntimeError):  # they are there
                torch.library.define(f"torchvision::{name}", signature)


def torchvision_v2() -> Any:
    import torch

    declare_operators()
    from torchvision.transforms import v2

    transform = v2.Compose([v2.RandomCrop(8), v2.RandomHorizontalFlip(), v2.ColorJitter(0.4)])
    return Images(lambda image: transform(torch.from_numpy(image).permute(2, 0, 1)))


def torchvision_folder(root: str) -> Any:
    import torch

    declare_operators()
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    transform = v2.Compose([v2.PILToTensor(), v2.RandomResizedCrop(8), v2.RandomHorizontalFlip()])
    folder = ImageFolder(f"{root}/images", transform=transform)

    class WithId(torch.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return len(folder)

        def __getitem__(self, index: int) -> dict[str, Any]:
            image, label = folder[index]
            return {"id": index, "x": image, "label": label}

    return WithId()


# Files -----------------------------------------------------------------------------------------


class Stored:
    """Rows of a file that is opened at the first use, as each library recommends."""

    def __init__(self, path: str, open_file: Open, read: Read) -> None:
        self.path, self.open_file, self.read, self.file = path, open_file, read, None

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> dict[str, Any]:
        if self.file is None:
            self.file = self.open_file(self.path)
        row = np.asarray(self.read(self.file, index))
        return {"id": index, "x": row + np.random.default_rng().random()}


def h5py_rows(root: str) -> Any:
    import h5py

    return Stored(f"{root}/rows.h5", lambda path: h5py.File(path)["x"], getitem)


def zarr_rows(root: str) -> Any:
    import zarr

    return Stored(f"{root}/rows.zarr", lambda path: zarr.open_array(path, mode="r"), getitem)


def lmdb_rows(root: str) -> Any:
    import lmdb

    def read(file: Any, index: int) -> Any:
        with file.begin() as transaction:
            return np.frombuffer(transaction.get(b"%d" % index), np.float32)

    return Stored(
        f"{root}/rows.lmdb", lambda path: lmdb.open(path, readonly=True, lock=False), read
    )


def safetensors_rows(root: str) -> Any:
    from safetensors import safe_open

    return Stored(
        f"{root}/rows.safetensors",
        lambda path: safe_open(path, "numpy").get_slice("x"),
        lambda file, index: file[index : index + 1][0],
    )


def parquet_rows(root: str) -> Any:
    from pyarrow.parquet import read_table

    return Stored(
        f"{root}/parquet",
        lambda path: read_table(path, memory_map=True)["x"],
        lambda file, index: file[index].as_py(),
    )


def parquet_batches(root: str) -> Any:
    """Row groups of files as an iterable dataset of plain Python."""
    import pyarrow.parquet

    from launcher.data import shard

    index, count = shard()
    for path in sorted(Path(root, "parquet").glob("*.parquet"))[index::count]:
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches(4):
            yield from ({"id": row["id"], "x": np.array(row["x"])} for row in batch.to_pylist())


# Files of all ------------------------------------------------------------------------------------


def write(root: Path) -> None:
    """Write the files that the datasets read."""
    rows = np.stack([np.random.RandomState(n).rand(5).astype(np.float32) for n in range(LENGTH)])
    for writer in (_write_tables, _write_tars, _write_chunks, _write_rows, _write_images):
        writer(root, rows)


def _write_tables(root: Path, rows: np.ndarray) -> None:
    import datasets
    import pyarrow
    import pyarrow.parquet

    table = {"id": list(range(LENGTH)), "x": rows.tolist()}
    datasets.Dataset.from_dict(table).save_to_disk(root / "hf")
    (root / "parquet").mkdir()
    for part in range(8):
        chosen = {name: column[part * 6 : part * 6 + 6] for name, column in table.items()}
        pyarrow.parquet.write_table(pyarrow.table(chosen), root / "parquet" / f"{part}.parquet")


def _write_tars(root: Path, rows: np.ndarray) -> None:
    (root / "tars").mkdir()
    for part in range(8):
        with tarfile.open(root / "tars" / f"{part}.tar", "w") as tar:
            for number in range(part * 6, part * 6 + 6):
                array = io.BytesIO()
                np.save(array, rows[number])
                contents = {"id.txt": str(number).encode(), "x.npy": array.getvalue()}
                for name, content in contents.items():
                    entry = tarfile.TarInfo(f"{number:04}.{name}")
                    entry.size = len(content)
                    tar.addfile(entry, io.BytesIO(content))


def _write_chunks(root: Path, _: np.ndarray) -> None:
    import litdata

    litdata.optimize(
        fn=_sample_of_lit,
        inputs=list(range(LENGTH)),
        output_dir=str(root / "lit"),
        chunk_size=6,
        num_workers=1,
        verbose=False,
    )


def _sample_of_lit(number: int) -> dict[str, Any]:
    return {"id": number, "x": np.random.RandomState(number).rand(5).astype(np.float32)}


def _write_rows(root: Path, rows: np.ndarray) -> None:
    import h5py
    import lmdb
    import safetensors.numpy
    import zarr

    with h5py.File(root / "rows.h5", "w") as file:
        file["x"] = rows
    zarr.save_array(root / "rows.zarr", rows)
    with lmdb.open(str(root / "rows.lmdb")).begin(write=True) as transaction:
        for number, row in enumerate(rows):
            transaction.put(b"%d" % number, row.tobytes())
    safetensors.numpy.save_file({"x": rows}, root / "rows.safetensors")


def _write_images(root: Path, _: np.ndarray) -> None:
    from PIL import Image

    for number in range(LENGTH):
        folder = root / "images" / str(number % 3)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels(number)).save(folder / f"{number:04}.png")


if __name__ == "__main__":
    write(Path(os.environ["FIELD_ROOT"]))
