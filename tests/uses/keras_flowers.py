"""Flowers with Keras: JPEG files through tf.data, a small convolutional network, model.fit."""

import os
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
import tensorflow as tf
from PIL import Image

import tally

tf.config.threading.set_intra_op_parallelism_threads(1)


def grow(folder, count=40):
    for number in range(count):
        noise = np.random.default_rng(number).integers(0, 255, (75, 100, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((800, 600), Image.Resampling.BICUBIC).save(f"{folder}/{number % 5}_{number}.jpg", quality=92)
    return sorted(f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(".jpg"))


def read(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.resize(image, (64, 64), antialias=True)
    return tf.image.random_flip_left_right(image) / 255, label


class Units(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        tally.units()


files = grow(tempfile.mkdtemp())
labels = [int(os.path.basename(file)[0]) for file in files]
data = tf.data.Dataset.from_tensor_slices((files, labels)).shuffle(64).repeat()
data = data.map(read, num_parallel_calls=tf.data.AUTOTUNE if tally.fixed else None).batch(16)
if tally.fixed:
    data = data.prefetch(tf.data.AUTOTUNE)

model = keras.Sequential(
    [
        keras.layers.Input((64, 64, 3)),
        keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(5),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(data, epochs=1000, steps_per_epoch=200, verbose=2, callbacks=[Units()])
