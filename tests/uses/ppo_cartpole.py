from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

import tally


class Count(BaseCallback):
    def _on_step(self) -> bool:
        tally.units(8)
        return True


vec_env = make_vec_env("CartPole-v1", n_envs=8)
model = PPO("MlpPolicy", vec_env, verbose=1)
model.learn(total_timesteps=100_000_000, callback=Count())
model.save("ppo_cartpole")
