import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

import tally


class Warehouse(gym.Env):
    """A robot among shelves, which sees by casting rays."""

    def __init__(self, size=24, rays=16):
        self.size, self.rays = size, rays
        self.observation_space = gym.spaces.Box(0, 1, (rays,), np.float32)
        self.action_space = gym.spaces.Discrete(4)

    def cast(self, angle):
        x, y, distance = *self.robot, 0.0
        while 0 <= x < self.size and 0 <= y < self.size and (int(x), int(y)) not in self.shelves:
            x, y, distance = x + 0.05 * np.cos(angle), y + 0.05 * np.sin(angle), distance + 0.05
        return min(distance / self.size, 1.0)

    def look(self):
        return np.array([self.cast(2 * np.pi * ray / self.rays) for ray in range(self.rays)], np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.shelves = {tuple(self.np_random.integers(0, self.size, 2)) for _ in range(40)}
        self.robot, self.left = np.array([self.size / 2, self.size / 2]), 200
        return self.look(), {}

    def step(self, action):
        self.robot = np.clip(self.robot + [(0, 1), (1, 0), (0, -1), (-1, 0)][action], 0, self.size - 1)
        self.left -= 1
        return self.look(), 1.0, False, self.left == 0, {}


class Count(BaseCallback):
    def _on_step(self):
        tally.units(self.training_env.num_envs)
        return True


if __name__ == "__main__":
    torch.set_num_threads(1)
    count, kind = (2, SubprocVecEnv) if tally.fixed else (1, DummyVecEnv)
    model = PPO("MlpPolicy", make_vec_env(Warehouse, count, vec_env_cls=kind), n_steps=64, device="cpu")
    model.learn(10_000_000, callback=Count())
