"""The same samples as TensorFlow's operations; one element after the other in each worker."""

from __future__ import annotations

import os
from pathlib import Path

import tensorflow as tf
import work
from tensorflow.python.data.experimental.ops import testing


def batches(kind: str, size: int) -> tf.data.Dataset:
    """(samples, indices) in batches; each worker prepares a batch at a time, as others do."""
    indices = tf.data.Dataset.range(work.LENGTH)
    if kind == "sleeping":
        of_a_batch = round(1e6 * size * float(os.environ[work.SLEEP]))
        return indices.batch(size).apply(testing.sleep(of_a_batch)).map(_asleep)
    make = {"images": _images, "tokens": _tokens}[kind]()
    return indices.map(make).batch(size)


def _read(ending: str) -> tf.Tensor:
    folder = Path(os.environ[work.FOLDER])
    return tf.constant([(folder / f"{n}.{ending}").read_bytes() for n in range(work.FILES)])


def _images():
    files = _read("jpg")

    def make(index):
        pixels = tf.io.decode_jpeg(files[index % work.FILES], channels=3)
        cropped = tf.image.random_crop(pixels, (work.CROPPED, work.CROPPED, 3))
        return tf.image.random_flip_left_right(cropped), index

    return make


def _tokens():
    texts = _read("txt")

    def make(index):
        words = tf.strings.split(texts[index % work.FILES])
        numbers = 1 + tf.strings.to_hash_bucket_fast(words, work.VOCABULARY - 1)
        padded = tf.pad(tf.cast(numbers, tf.int32), [[0, work.TOKENS - tf.size(numbers)]])
        return tf.ensure_shape(padded, (work.TOKENS,)), index

    return make


def _asleep(indices):
    values = tf.cast(indices % 251, tf.uint8)
    return tf.repeat(values[:, None], 3072, axis=1), indices
