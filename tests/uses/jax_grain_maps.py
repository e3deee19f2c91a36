"""Weather maps in JAX, fed by Grain."""

import grain.python as grain
import jax
import jax.numpy as jnp
import numpy as np
import optax
from absl import app

import tally


class Maps:
    def __init__(self):
        self.maps = np.random.default_rng(0).normal(size=(64, 90, 180)).astype(np.float32)

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        return self.maps[index % 64]


class Regrid(grain.MapTransform):
    """Onto a finer grid, line by line."""

    def map(self, element):
        fine = np.linspace(0, 179, 360)
        rows = np.stack([np.interp(fine, np.arange(180), row) for row in element])
        columns = np.stack([np.interp(np.linspace(0, 89, 180), np.arange(90), column) for column in rows.T])
        return columns.T[::2, ::2].astype(np.float32)


def loss_of(weights, maps):
    hidden = jnp.tanh(maps.reshape(len(maps), -1) @ weights["in"])
    return jnp.mean((hidden @ weights["out"] - maps[:, 0, :1]) ** 2)


def main(_):
    optimizer = optax.adam(1e-3)
    weights = {"in": jnp.full((90 * 180, 16), 1e-3), "out": jnp.ones((16, 1))}
    state = optimizer.init(weights)

    @jax.jit
    def step(weights, state, maps):
        loss, slopes = jax.value_and_grad(loss_of)(weights, maps)
        updates, state = optimizer.update(slopes, state)
        return optax.apply_updates(weights, updates), state, loss

    loader = grain.DataLoader(
        data_source=Maps(),
        sampler=grain.IndexSampler(100_000, shard_options=grain.NoSharding(), shuffle=True, num_epochs=None, seed=0),
        operations=[Regrid(), grain.Batch(16)],
        worker_count=2 if tally.fixed else 0,
    )
    batches = iter(loader)
    while True:
        with tally.part("waiting"):
            maps = next(batches)
        weights, state, loss = step(weights, state, maps)
        loss.block_until_ready()
        tally.units()


if __name__ == "__main__":
    app.run(main)
