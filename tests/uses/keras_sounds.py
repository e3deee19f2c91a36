"""Key words in sounds with Keras; features are computed in Python, called from the tf.data pipeline."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
import tensorflow as tf

import tally

BANDS = 24


def features(wave):
    """Energy of each band in each frame, then the differences between frames."""
    with tally.part("features"):
        wave = wave.numpy().tolist()
        rows = []
        for start in range(0, len(wave) - 200, 25):
            frame = wave[start : start + 200]
            rows.append([sum(value * value for value in frame[band * 8 : band * 8 + 8]) for band in range(BANDS)])
        return np.diff(np.log(np.asarray(rows, np.float32) + 1e-6), axis=0)


def prepare(wave, label):
    image = tf.py_function(features, [wave], tf.float32)
    return tf.ensure_shape(image, (311, BANDS)), label


class Units(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        tally.units()


def main():
    tf.config.threading.set_intra_op_parallelism_threads(1)
    waves = np.random.default_rng(0).normal(size=(256, 8000)).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((waves, np.arange(256) % 4)).map(prepare)
    if tally.fixed:
        data = data.cache()
    data = data.repeat().shuffle(32).batch(16)
    inputs = keras.Input((311, BANDS))
    hidden = keras.layers.Conv1D(16, 5, activation="relu")(inputs)
    outputs = keras.layers.Dense(4, activation="softmax")(keras.layers.GlobalMaxPooling1D()(hidden))
    model = keras.Model(inputs, outputs)
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    model.fit(data, steps_per_epoch=500, epochs=1000, verbose=0, callbacks=[Units()])


if __name__ == "__main__":
    main()
