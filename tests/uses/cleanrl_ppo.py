import gymnasium as gym
import numpy as np
import torch
from torch import nn, optim
from torch.distributions import Categorical

import tally

NUM_ENVS, NUM_STEPS, EPOCHS, MINIBATCHES = 4, 128, 4, 4


class Agent(nn.Module):
    def __init__(self, envs):
        super().__init__()
        seen = int(np.prod(envs.single_observation_space.shape))
        self.critic = nn.Sequential(nn.Linear(seen, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.actor = nn.Sequential(nn.Linear(seen, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, envs.single_action_space.n))

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


if __name__ == "__main__":
    envs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(NUM_ENVS)])
    agent = Agent(envs)
    optimizer = optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    next_obs = torch.Tensor(envs.reset(seed=1)[0])
    for _ in range(1_000_000):
        rollout = []
        for _ in range(NUM_STEPS):
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(next_obs)
            with tally.part("environment"):
                obs, reward, terminations, truncations, infos = envs.step(action.numpy())
            tally.units(NUM_ENVS)
            rollout.append((next_obs, action, logprob, value.flatten(), torch.tensor(reward, dtype=torch.float32)))
            next_obs = torch.Tensor(obs)
        b_obs, b_actions, b_logprobs, b_values, b_rewards = (torch.cat(part) for part in zip(*rollout))
        b_returns = b_rewards + 0.99 * b_values
        for _ in range(EPOCHS):
            for mb in torch.randperm(len(b_obs)).chunk(MINIBATCHES):
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb], b_actions[mb])
                ratio = (newlogprob - b_logprobs[mb]).exp()
                advantage = (b_returns - b_values)[mb]
                pg_loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
                loss = pg_loss - 0.01 * entropy.mean() + 0.5 * ((newvalue.flatten() - b_returns[mb]) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
