"""Writes random images with labels as TFRecords: python generate_tfrecords.py FOLDER"""

import os
import sys

import tensorflow as tf

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
for number in range(4):
    with tf.io.TFRecordWriter(os.path.join(folder, f"part-{number}.tfrecord")) as writer:
        for index in range(32):
            label = tf.train.Int64List(value=[index % 10])
            image = tf.train.BytesList(value=[os.urandom(8 * 8 * 3)])
            feature = {
                "image": tf.train.Feature(bytes_list=image),
                "label": tf.train.Feature(int64_list=label),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
