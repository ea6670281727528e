"""A rank: it reads batches of the tf.data service and averages gradients over MPI.

AWS's example uses Horovod for the averages, which has no wheels.
"""

import argparse
import os

import tensorflow as tf
from mpi4py import MPI


def parse(example_proto):
    description = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    features = tf.io.parse_single_example(example_proto, description)
    image = tf.reshape(tf.io.decode_raw(features["image"], tf.uint8), [8, 8, 3])
    return image, tf.cast(features["label"], tf.int32)


def dilate(image, label):
    image = tf.nn.dilation2d(
        tf.expand_dims(image, 0),
        tf.zeros([3, 3, 3], tf.uint8),
        strides=[1, 1, 1, 1],
        dilations=[1, 1, 1, 1],
        padding="SAME",
        data_format="NHWC",
    )
    return tf.squeeze(image, 0), label


def rescale(image, label):
    return tf.cast(image, tf.float32) / 255.0, label


def get_dataset(training_dir, batch_size, dispatcher_host):
    autotune = tf.data.AUTOTUNE
    records = tf.data.Dataset.list_files(training_dir + "/*", shuffle=True)
    ds = tf.data.TFRecordDataset(records, num_parallel_reads=autotune).repeat()
    for step in (parse, dilate, rescale):
        ds = ds.map(step, num_parallel_calls=autotune)
    ds = ds.batch(batch_size, drop_remainder=True)
    ds = ds.apply(
        tf.data.experimental.service.distribute(
            processing_mode="parallel_epochs", service=f"grpc://{dispatcher_host}:6000"
        )
    )
    return ds.prefetch(autotune)


def main(args):
    world = MPI.COMM_WORLD
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])
    model.build((None, 8, 8, 3))
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = tf.keras.optimizers.Adam(0.01 * world.size)
    batches = iter(get_dataset(args.training_dir, args.batch_size, args.dispatcher_host))
    for epoch in range(args.epochs):
        for _ in range(args.steps_per_epoch):
            images, labels = next(batches)
            with tf.GradientTape() as tape:
                loss = loss_of(labels, model(images))
            gradients = tape.gradient(loss, model.trainable_variables)
            sums = [world.allreduce(gradient.numpy()) / world.size for gradient in gradients]
            optimizer.apply_gradients(zip(sums, model.trainable_variables))
        print(f"rank {world.rank} of {world.size} epoch {epoch} loss {float(loss):.3f}", flush=True)
    if world.rank == 0:
        model.save(os.path.join(args.model_dir, "model.keras"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tf_data_mode", type=str, default="local")
    parser.add_argument("--steps_per_epoch", type=int, default=1)
    parser.add_argument("--batch_size", type=int)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--n_gpus", type=str, default=os.environ.get("SM_NUM_GPUS"))
    parser.add_argument("--training_dir", type=str, default=os.environ.get("SM_CHANNEL_TRAINING"))
    parser.add_argument("--dispatcher_host", type=str)
    parser.add_argument("--num_of_data_workers", type=int, default=1)
    parser.add_argument("--output_data_dir", type=str, default=os.environ["SM_OUTPUT_DATA_DIR"])
    parser.add_argument("--model_dir", type=str, default=os.environ.get("SM_MODEL_DIR"))
    main(parser.parse_args())
