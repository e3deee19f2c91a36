import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import SubprocVecEnv

import tally


def simulate_orders(positions, orders):
    cost = 0.0
    for order in orders:
        cost += min(abs(order[0] - position[0]) + abs(order[1] - position[1]) for position in positions)
    return cost


class Fleet(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (20,), np.float32)
    action_space = gym.spaces.Discrete(10)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.positions, self.time = self.np_random.random((10, 2)), 0
        return self.positions.ravel().astype(np.float32), {}

    def step(self, action):
        self.positions[action] = self.np_random.random(2)
        cost = simulate_orders(self.positions.tolist(), self.np_random.random((1500, 2)).tolist())
        self.time += 1
        return self.positions.ravel().astype(np.float32), -cost / 1500, False, self.time >= 100, {}


class Count(BaseCallback):
    def _on_step(self):
        tally.units(self.training_env.num_envs)
        return True


def main():
    torch.set_num_threads(1)
    envs = SubprocVecEnv([Fleet for _ in range(2)])
    PPO("MlpPolicy", envs, n_steps=128, batch_size=64, device="cpu", verbose=1).learn(100_000_000, callback=Count())


if __name__ == "__main__":
    main()
