"""The sick set-ups: what is wrong, which diagnoses are right, and whether a binding can cure it."""

from collections.abc import Sequence
from dataclasses import dataclass

HEALTHY = ("cartpole", "cartpole_a2c", "pendulum", "acrobot", "mountaincar_continuous")


@dataclass(frozen=True)
class Setup:
    """A base experiment made sick.

    Attributes:
      name: what is wrong.
      base: the experiment in experiments/.
      bindings: make it sick.
      expected: names of the diagnoses that are right.
      curable: whether a gin binding can cure it.
      reward_factor: by which the environment's returns are too large.
      held_out: written after the thresholds were fixed, and not used to tune them.
    """

    name: str
    base: str
    bindings: Sequence[str]
    expected: Sequence[str]
    curable: bool = True
    reward_factor: float = 1.0
    held_out: bool = False


def _sick(task: str, flaws: str) -> list[str]:
    return [
        f"Environment.env_id = 'benchmarks.sickness.environments:Sick{task}-v0'",
        f"Environment.env_options = {{{flaws}}}",
    ]


SETUPS = [
    Setup("learning rate 0.1", "cartpole", ["learning_rate = 0.1"], ["policy moves too far"]),
    Setup("learning rate 1e-6", "cartpole", ["learning_rate = 1e-6"], ["policy barely moves"]),
    Setup(
        "learning rate gone after 4 % of the run",
        "cartpole",
        ["learning_rate/LinearDecay.decay_steps = 2000"],
        ["learning rate ends early"],
    ),
    Setup(
        "rewards of 1000",
        "cartpole",
        _sick("CartPole", "'reward_scale': 1000.0"),
        ["value scale"],
        reward_factor=1000.0,
    ),
    Setup(
        "entropy bonus of 2", "cartpole", ["Learner.entropy_coef = 2.0"], ["policy stays random"]
    ),
    Setup("discount 0.5", "cartpole", ["gamma = 0.5"], ["discount too low"]),
    Setup(
        "rollouts of 2048 steps",
        "cartpole",
        ["Experiment.rollout_length = 2048"],
        ["too few updates"],
    ),
    Setup(
        "no reward",
        "cartpole",
        _sick("CartPole", "'reward': 0.0"),
        ["no reward signal"],
        curable=False,
    ),
    Setup(
        "half of the steps do nothing",
        "cartpole",
        _sick("CartPole", "'repeats': 0.5"),
        ["repeated steps"],
        curable=False,
    ),
    Setup("reward scale 100", "pendulum", ["reward_scale = 100.0"], ["value scale"]),
    Setup("discount 0.9999", "pendulum", ["gamma = 0.9999"], ["discount too high"]),
    Setup(
        "initial log std 2",
        "pendulum",
        ["GaussianTanhHead.initial_log_std = 2.0"],
        ["actions at the bounds"],
    ),
    Setup(
        "observations times 1000",
        "pendulum",
        [*_sick("Pendulum", "'observation_scale': 1000.0"), "Agent.observation_normalizer = None"],
        ["observation scale"],
    ),
    Setup(
        "critic's learning rate 1e-7",
        "pendulum",
        [
            "Learner.critic_optimizer = @critic/ClippedOptimizer()",
            "critic/ClippedOptimizer.optimizer = @critic/OptimizerFactory()",
            "critic/OptimizerFactory.learning_rate = 1e-7",
        ],
        ["critic does not learn"],
    ),
    Setup(
        "time limit of 50 steps",
        "acrobot",
        ["Environment.env_options = {'max_episode_steps': 50}"],
        ["no reward signal", "episodes cut short"],
    ),
    Setup(
        "clip range 0.0001",
        "acrobot",
        ["ClippedSurrogate.clip_range = 0.0001"],
        ["policy barely moves"],
    ),
    Setup(
        "initial log std −4",
        "mountaincar_continuous",
        ["GaussianHead.initial_log_std = -4.0"],
        ["too little exploration"],
    ),
    Setup("discount 0.9", "mountaincar_continuous", ["gamma = 0.9"], ["discount too low"]),
    # From here on: written after the thresholds were fixed.
    Setup(
        "learning rate decays over 200 gradient steps",
        "cartpole",
        [
            "OptimizerFactory.learning_rate = @ExponentialDecay()",
            "ExponentialDecay.initial_value = %learning_rate",
            "ExponentialDecay.decay_rate = 0.1",
            "ExponentialDecay.decay_steps = 200",
            "ExponentialDecay.unit = 'optimizer_steps'",
        ],
        ["learning rate ends early"],
        held_out=True,
    ),
    Setup(
        "clip norm 1e-9",
        "cartpole",
        ["clip_norm = 1e-9"],
        ["gradients always clipped", "policy barely moves"],
        held_out=True,
    ),
    Setup(
        "minibatches of 4 rows",
        "cartpole",
        ["Learner.minibatch_size = 4"],
        ["tiny minibatches"],
        held_out=True,
    ),
    Setup(
        "shared torso, value loss times 100",
        "cartpole",
        [
            "Agent.critic_torso = None",
            "Learner.critic_optimizer = None",
            "Learner.value_coef = 100.0",
        ],
        ["critic drowns the policy"],
        held_out=True,
    ),
    Setup(
        "learning rate 0.5",
        "cartpole_a2c",
        ["learning_rate = 0.5"],
        ["policy moves too far", "entropy collapsed"],
        held_out=True,
    ),
    Setup("reward scale 1e-4", "pendulum", ["reward_scale = 1e-4"], ["value scale"], held_out=True),
    Setup(
        "observations offset by 100",
        "pendulum",
        [*_sick("Pendulum", "'observation_offset': 100.0"), "Agent.observation_normalizer = None"],
        ["observation scale"],
        held_out=True,
    ),
    Setup(
        "observations are NaN after 2000 steps",
        "pendulum",
        _sick("Pendulum", "'nan_after': 2000"),
        ["non-finite value"],
        curable=False,
        held_out=True,
    ),
    Setup(
        "entropy bonus of 1",
        "acrobot",
        ["Learner.entropy_coef = 1.0"],
        ["policy stays random"],
        held_out=True,
    ),
    Setup(
        "initial log std 3",
        "mountaincar_continuous",
        ["GaussianHead.initial_log_std = 3.0"],
        ["actions at the bounds"],
        held_out=True,
    ),
]
