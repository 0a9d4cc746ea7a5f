"""Small experiments that exercise everything a checkpoint holds: gin text by name."""

from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

_SMALL = """
MLP.hidden_sizes = (8,)
Experiment.checkpoint_seconds = 0.0
Experiment.log_every = 1
Evaluation.every = 500
Evaluation.episodes = 2
Evaluation.final_episodes = 4
"""

_PPO = f"""include '{ROOT}/experiments/bases/ppo.gin'
{_SMALL}
Experiment.rollout_length = 32
Environment.num_envs = 2
Learner.minibatch_size = 16
Learner.epochs = 2
Agent.observation_normalizer = @ObservationNormalizer()
Agent.reward_normalizer = @RewardNormalizer()
"""

EXPERIMENTS = {
    "CartPole-v1, PPO": f"""{_PPO}
total_steps = 1_920
Environment.env_id = 'CartPole-v1'
Agent.policy_head = @CategoricalHead()
""",
    "Pendulum-v1, PPO": f"""{_PPO}
total_steps = 1_600
Environment.env_id = 'Pendulum-v1'
Agent.policy_head = @GaussianTanhHead()
Learner.entropy_coef = 0.01
OptimizerFactory.learning_rate = @LinearDecay()
LinearDecay.initial_value = %learning_rate
LinearDecay.final_value = 0.0
LinearDecay.decay_steps = 1_600
LinearDecay.unit = 'env_steps'
""",
    "CartPole-v1, A2C": f"""include '{ROOT}/experiments/bases/a2c.gin'
{_SMALL}
total_steps = 1_600
Experiment.rollout_length = 10
Environment.num_envs = 4
Environment.env_id = 'CartPole-v1'
Agent.policy_head = @CategoricalHead()
""",
    "MountainCarContinuous-v0, PPO, async": f"""{_PPO}
total_steps = 1_280
Environment.env_id = 'MountainCarContinuous-v0'
Environment.vectorization = 'async'
Agent.policy_head = @GaussianHead()
""",
}


def write(folder: Path) -> dict[str, Path]:
    """Write each experiment as a gin file; the files by name."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for number, (name, text) in enumerate(EXPERIMENTS.items()):
        files[name] = folder / f"experiment{number}.gin"
        files[name].write_text(text, encoding="utf-8")
    return files
