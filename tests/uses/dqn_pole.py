import gymnasium as gym
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback

import tally


class StepCounter(BaseCallback):
    def _on_step(self) -> bool:
        tally.units()
        return True


env = gym.make("CartPole-v1")
model = DQN("MlpPolicy", env, learning_starts=200, train_freq=1, gradient_steps=2, batch_size=128, buffer_size=50_000)
model.learn(total_timesteps=100_000_000, callback=StepCounter(), log_interval=100)
