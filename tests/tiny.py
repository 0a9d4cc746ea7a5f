"""Tiny experiments, built in code, and what a test wants to know of their runs."""

import numpy as np

from acx.advantages import GAE
from acx.agents import Agent
from acx.critics import CriticHead
from acx.environments.factory import Environment
from acx.evaluation import Evaluation
from acx.experiment import Experiment
from acx.learner import Learner
from acx.networks import MLP
from acx.objectives import ClippedSurrogate, CriticLoss
from acx.optimizers import ClippedOptimizer, OptimizerFactory
from acx.policies import CategoricalHead
from acx.rollouts import RolloutCollector
from acx.seeding import Stream, episode_seed, generator


def optimizer(algorithm="adam", learning_rate=1e-2, clip_norm=0.5):
    return ClippedOptimizer(OptimizerFactory(algorithm, learning_rate), clip_norm)


def experiment(
    env_id="toys:Noisy-v0",
    *,
    env_options=None,
    num_envs=2,
    vectorization="sync",
    rollout_length=8,
    iterations=1,
    head=None,
    hidden_sizes=(4,),
    shared_torso=False,
    observation_normalizer=None,
    reward_normalizer=None,
    value_normalizer=None,
    advantage=None,
    objective=None,
    critic_loss=None,
    actor_optimizer=None,
    critic_optimizer=None,
    evaluation=None,
    seed=0,
    log_every=1,
    **learner,
):
    """An Experiment, not yet built; keywords that are not named here go to the learner."""
    return Experiment(
        Environment(env_id, num_envs, vectorization, env_options),
        Agent(
            head or CategoricalHead(),
            CriticHead(),
            MLP(hidden_sizes),
            None if shared_torso else MLP(hidden_sizes),
            observation_normalizer,
            reward_normalizer,
            value_normalizer,
        ),
        Learner(
            advantage or GAE(),
            objective or ClippedSurrogate(),
            critic_loss or CriticLoss(),
            actor_optimizer or optimizer(),
            None if shared_torso else critic_optimizer or optimizer(),
            **learner,
        ),
        evaluation or Evaluation(episodes=2, final_episodes=2),
        total_steps=iterations * rollout_length * num_envs,
        rollout_length=rollout_length,
        log_every=log_every,
        seed=seed,
    )


class Recorder:
    """An observer that keeps everything."""

    def __init__(self):
        self.reports = []
        self.evaluations = []

    def on_report(self, report):
        self.reports.append(report)

    def on_evaluation(self, env_steps, result, final):
        self.evaluations.append((env_steps, result, final))

    def close(self):
        pass

    def scalars(self, tag):
        """The tag's value in every report."""
        return [report.scalars[tag] for report in self.reports]


def train(experiment):
    """Build and run; returns the recorder."""
    experiment.build()
    recorder = Recorder()
    experiment.run([recorder])
    return recorder


def weights(experiment):
    """Copies of all weights by network, and of the observation statistics."""
    experiment.learner.sync_models()
    agent = experiment.agent
    found = {
        "actor": np.concatenate([v.numpy().ravel() for v in agent.actor.model.variables]),
        "critic": np.concatenate([v.numpy().ravel() for v in agent.critic.model.variables]),
    }
    if agent.observation_normalizer is not None:
        statistics = agent.observation_normalizer.state().items()
        found |= {name: np.array(value) for name, value in statistics}
    return found


def set_weights(experiment, name, vector):
    """Replace the weights of the 'actor', the 'critic' or, sharing a torso, the 'agent'."""
    state = experiment.learner.state()
    experiment.learner.load_state(state | {f"{name}/0": np.asarray(vector, np.float32)})
    experiment.actor.load(experiment.learner.actor_parameters)


def collector(experiment):
    """A collector that repeats the rollouts of a built experiment; close its environments."""
    environments = experiment.environment.make(
        experiment.environment.num_envs,
        lambda i, e: episode_seed(experiment.seed, Stream.TRAINING_EPISODES, i, e),
    )
    agent = experiment.agent
    rng = generator(experiment.seed, Stream.ACTIONS)
    return RolloutCollector(
        environments,
        agent.policy_head,
        experiment.actor,
        agent.observation_normalizer,
        experiment.rollout_length,
        rng,
    )


def set_linear_critic(experiment, slope, intercept=0.0):
    """V(s) = slope · s + intercept, for one-dimensional observations and no hidden layers."""
    set_weights(experiment, "critic", [slope, intercept])
