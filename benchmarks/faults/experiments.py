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

_A2C = f"""include '{ROOT}/experiments/bases/a2c.gin'
{_SMALL}
Experiment.rollout_length = 10
Environment.num_envs = 4
Agent.value_normalizer = @ValueNormalizer()
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
    "CartPole-v1, A2C": f"""{_A2C}
total_steps = 1_600
Environment.env_id = 'CartPole-v1'
Agent.policy_head = @CategoricalHead()
""",
    "MountainCarContinuous-v0, PPO, async": f"""{_PPO}
total_steps = 1_280
Environment.env_id = 'MountainCarContinuous-v0'
Environment.vectorization = 'async'
Agent.policy_head = @GaussianHead()
""",
    "LunarLander-v3, PPO": f"""{_PPO}
total_steps = 1_280
Environment.env_id = 'LunarLander-v3'
Environment.env_options = {{'enable_wind': True}}
Agent.policy_head = @CategoricalHead()
""",
    "LunarLanderContinuous-v3, A2C, async": f"""{_A2C}
total_steps = 1_200
Environment.env_id = 'LunarLanderContinuous-v3'
Environment.vectorization = 'async'
Agent.policy_head = @GaussianHead()
Agent.observation_normalizer = @ObservationNormalizer()
""",
    "Hopper-v5, PPO": f"""{_PPO}
total_steps = 1_280
Environment.env_id = 'Hopper-v5'
Agent.policy_head = @GaussianTanhHead()
GaussianTanhHead.std = 'state_dependent'
Experiment.log_every = 3
""",
    "InvertedPendulum-v5, PPO, async": f"""{_PPO}
total_steps = 1_280
Environment.env_id = 'InvertedPendulum-v5'
Environment.vectorization = 'async'
Agent.policy_head = @GaussianTanhHead()
Experiment.on_nonfinite = 'rollback'
Experiment.log_every = 20
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
