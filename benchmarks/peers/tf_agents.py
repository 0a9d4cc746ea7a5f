"""TF-Agents' PPOClipAgent at the work that benchmarks/throughput.py names, in its own environment.

python -m benchmarks.peers.tf_agents WORK THREADS

TF-Agents by its public parts: suite_gym environments in a BatchedPyEnvironment (threads and
processes of TF-Agents' own are slower for steps this short), a DynamicStepDriver that fills a
TFUniformReplayBuffer, PPOClipAgent with networks of 64×64 tanh. Its examples cut minibatches by
Reverb and tf.data; here a whole iteration, the loop over minibatches included, is one tf.function.
Normalisation of observations and rewards is off.

What differs from acx: the environments are Gym 0.23's, the newest that TF-Agents takes; the frame
between two episodes is collected, not counted as a step, and left out of the losses by weight;
the last frame of a collection has no advantage, so 8 × 256 steps train 8 × 255; rows left over by
the division into minibatches are dropped. Gradient steps per iteration: epochs × minibatches (80
for 8 × 256 rows, 10 epochs, 256 a minibatch), as in acx; a minibatch_size of all rows gives the
agent's own way, one step of the full batch per epoch: 10 gradient steps, and faster.

Prints one JSON object: environment steps per second after the warm-up, seconds from the process's
start to the end of the first iteration, peak memory.
"""

import json
import os
import sys
import time
from typing import Any

from benchmarks.peers.reporting import print_marks


def build(work: dict[str, Any]) -> Any:
    """A compiled function that collects and trains once."""
    import tensorflow as tf
    from tf_agents.agents.ppo.ppo_clip_agent import PPOClipAgent
    from tf_agents.drivers.dynamic_step_driver import DynamicStepDriver
    from tf_agents.environments import suite_gym
    from tf_agents.environments.batched_py_environment import BatchedPyEnvironment
    from tf_agents.environments.tf_py_environment import TFPyEnvironment
    from tf_agents.networks.actor_distribution_network import ActorDistributionNetwork
    from tf_agents.networks.value_network import ValueNetwork
    from tf_agents.replay_buffers.tf_uniform_replay_buffer import TFUniformReplayBuffer

    num_envs = work["num_envs"]
    size = min(work["minibatch_size"], num_envs * (work["rollout_length"] - 1))
    envs = [suite_gym.load(work["env_id"]) for _ in range(num_envs)]
    environment = TFPyEnvironment(BatchedPyEnvironment(envs, multithreading=False))
    layers = {"fc_layer_params": (64, 64), "activation_fn": tf.keras.activations.tanh}
    agent = PPOClipAgent(
        environment.time_step_spec(),
        environment.action_spec(),
        optimizer=tf.keras.optimizers.legacy.Adam(3e-4, epsilon=1e-5),
        actor_net=ActorDistributionNetwork(
            environment.observation_spec(), environment.action_spec(), **layers
        ),
        value_net=ValueNetwork(environment.observation_spec(), **layers),
        importance_ratio_clipping=0.2,
        discount_factor=0.99,
        lambda_value=0.95,
        use_gae=True,
        use_td_lambda_return=True,
        normalize_observations=False,
        normalize_rewards=False,
        gradient_clipping=0.5,
        num_epochs=1,
        compute_value_and_advantage_in_train=False,
        update_normalizers_in_train=False,
    )
    agent.initialize()
    # Twice the length: the frames between episodes come on top.
    buffer = TFUniformReplayBuffer(
        agent.collect_data_spec, num_envs, max_length=2 * work["rollout_length"]
    )
    driver = DynamicStepDriver(
        environment,
        agent.collect_policy,
        observers=[buffer.add_batch],
        num_steps=num_envs * work["rollout_length"],
    )

    @tf.function
    def iterate(time_step: Any) -> Any:
        time_step, _ = driver.run(time_step)
        experience = agent.preprocess_sequence(buffer.gather_all())
        buffer.clear()
        rows = tf.nest.map_structure(
            lambda x: tf.reshape(x[:, :-1], tf.concat([[-1, 1], tf.shape(x)[2:]], 0)), experience
        )
        count = tf.shape(rows.reward)[0]
        for _ in tf.range(work["epochs"]):
            order = tf.random.shuffle(tf.range(count))
            for start in tf.range(0, count - size + 1, size):
                chosen = order[start : start + size]
                agent.train(tf.nest.map_structure(lambda x, at=chosen: tf.gather(x, at), rows))
        return time_step

    return iterate, environment.reset()


def main() -> None:
    """Run the work given as JSON."""
    work, threads = json.loads(sys.argv[1]), int(sys.argv[2])
    if work["algorithm"] != "ppo" or work["env_id"] not in ("CartPole-v1", "Pendulum-v1"):
        raise SystemExit("tf_agents: only PPO on CartPole-v1 and Pendulum-v1")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    import tensorflow as tf
    import tf_agents

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    iterate, time_step = build(work)
    rows = work["num_envs"] * work["rollout_length"]
    marks = []
    for number in range(1, work["iterations"] + 1):
        time_step = iterate(time_step)
        marks.append((time.perf_counter(), number * rows))
    version = f"TF-Agents {tf_agents.__version__}, TensorFlow {tf.__version__}"
    print_marks(marks, max(2, work["iterations"] // 8), 0, version)


if __name__ == "__main__":
    main()
