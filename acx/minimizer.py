"""Compiled gradient steps over shuffled minibatches, for weights that one optimizer trains."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from acx.compilation import CompiledFunction
from acx.errors import ConfigError, NonFiniteError
from acx.layouts import Layout
from acx.networks import ParameterVector
from acx.optimizers import ClippedOptimizer

Tensors = Sequence[tf.Tensor]
Named = dict[str, tf.Tensor]
# (weights, minibatch, hyperparameters) -> the loss of each head, and what to report.
Losses = Callable[[Tensors, Named, Named], tuple[Named, Named]]

GOOD = 1  # the index in what `Minimizer.minimize` returns that tells whether all was finite
MOST_METRICS = 64  # that losses may report


class Minimizer:
    """Trains the actor's weights, the critic's, or both where they share some.

    Its program runs in the thread that calls it, so that actor and critic have a core each: XLA
    hands a share of what is ready to start, once that is more than eight operations, to
    TensorFlow's pool, whose one thread all programs have in common. So everything that a gradient
    step needs is a row of `integers` and `floats`, taken in the step, not before the first one.

    Args:
      name: for messages.
      vector: the weights.
      optimizer: steps them.
      losses: what is minimized: the sum of the heads' losses.
      columns: names and shapes of a minibatch's columns (without the row axis).
      minibatches: (M, K): M gradient steps an iteration, of K rows each.
      hyperparameters: names of the scalars that `losses` takes as inputs.
      previous: one of the same structure, used no more: its compiled program is taken over.

    Attributes:
      integers: for each gradient step its minibatch's row numbers, then a seed for the entropy's
        noise.
      floats: for each gradient step its learning rate, then the hyperparameters.
    """

    def __init__(
        self,
        name: str,
        vector: ParameterVector,
        optimizer: ClippedOptimizer,
        losses: Losses,
        columns: dict[str, tuple[int, ...]],
        minibatches: tuple[int, int],
        hyperparameters: Sequence[str],
        previous: "Minimizer | None" = None,
    ) -> None:
        self.name = name
        self.vector = vector
        self.optimizer = optimizer
        self.losses = losses
        self.columns = columns
        self.minibatches = minibatches
        self.hyperparameters = list(hyperparameters)
        self.variable = optimizer.build(vector.read())
        self.parameters: np.ndarray = self.variable.numpy()
        self.optimizer_steps = 0
        self._width = Layout(list(columns.values())).size
        self._metric_names: list[str] = []
        self.integers = np.zeros(minibatches[0] * (minibatches[1] + 1), np.int32)
        self.floats = np.zeros(minibatches[0] * (1 + len(self.hyperparameters)), np.float32)
        self._program: CompiledFunction | None = None
        if previous is not None:
            self.variable = optimizer.take_over(previous.optimizer)
            self._program, self._metric_names = previous._program, previous._metric_names

    def compile(self, rows: int) -> None:
        """Make `minimize` a program of its own, for batches of `rows` rows."""
        self._program = CompiledFunction(
            self.minimize,
            tf.TensorSpec((rows, self._width), tf.float32),
            tf.TensorSpec(self.integers.shape, tf.int32),
            tf.TensorSpec(self.floats.shape, tf.float32),
        )

    @property
    def output_size(self) -> int:
        """Length of the vector that `minimize` returns."""
        return 2 + len(self._metric_names) + self.vector.layout.size

    def load(self, parameters: np.ndarray) -> None:
        """Replace the weights."""
        self.variable.assign(parameters)
        self.parameters = self.variable.numpy()

    def state(self) -> dict[str, np.ndarray]:
        """Weights, optimizer state and the number of steps taken, as arrays."""
        variables = {str(i): v.numpy() for i, v in enumerate(self.optimizer.state)}
        return {**variables, "optimizer_steps": np.asarray(self.optimizer_steps)}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Go on from `state()`."""
        for i, variable in enumerate(self.optimizer.state):
            variable.assign(state[str(i)])
        self.parameters = self.variable.numpy()
        self.optimizer_steps = int(state["optimizer_steps"])

    def gradient(
        self, parameters: tf.Tensor, minibatch: Named, hyper: Named
    ) -> tuple[tf.Tensor, Named]:
        """Gradient of the summed losses as a flat vector, and the metrics of a minibatch.

        Raises:
          ConfigError: a weight gets no gradient from any loss (found when tracing).
        """
        weights = self.vector.layout.split(parameters)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(weights)
            losses, metrics = self.losses(weights, minibatch, hyper)
        total, reached = tf.zeros_like(parameters), set()
        for head, loss in losses.items():
            gradients = tape.gradient(loss, weights)
            reached |= {i for i, gradient in enumerate(gradients) if gradient is not None}
            parts = [
                tf.reshape(tf.zeros_like(weight) if gradient is None else gradient, [-1])
                for gradient, weight in zip(gradients, weights, strict=True)
            ]
            flat = tf.concat(parts, axis=0)
            metrics[f"grad_norm_{head}"] = tf.sqrt(tf.reduce_sum(tf.square(flat)))
            total += flat
        for i, variable in enumerate(self.vector.variables):
            if i not in reached:
                raise ConfigError(
                    f"the weight {variable.path} of the {self.name} gets no gradient: "
                    "its output doesn't enter the loss, or left TensorFlow on the way"
                )
        return total, metrics

    def minimize(
        self, batch: tf.Tensor, integers: tf.Tensor, floats: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Gradient steps over the minibatches, in place.

        Returns:
          [steps taken, 1 where all was finite, metric means..., parameters...], and what the
          weights and the optimizer's variables were before, for `undo`. Where a loss or gradient
          was not finite, they are left as they were.
        """
        count, size = self.minibatches
        numbers = tf.reshape(integers, (count, size + 1))
        scalars = tf.reshape(floats, (count, 1 + len(self.hyperparameters)))
        state = self.optimizer.state
        before = [tf.identity(variable.value) for variable in state]

        def step(i: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            rows, seed = numbers[i, :size], numbers[i, size]
            minibatch = self._unpack(tf.gather(batch, rows) if size < batch.shape[0] else batch)
            parameters = tf.identity(self.variable.value)
            learning_rate, *settings = tf.unstack(scalars[i])
            hyper = dict(zip(self.hyperparameters, settings, strict=True))
            hyper |= {"seed": seed, "step": i}
            gradient, metrics = self.gradient(parameters, minibatch, hyper)
            norm = self.optimizer.apply(gradient, learning_rate, hyper["clip_norm"])
            metrics[f"clipped_{self.name}"] = tf.cast(norm > hyper["clip_norm"], tf.float32)
            self._metric_names = list(metrics)
            values = tf.stack(list(metrics.values()))
            good = tf.math.is_finite(norm) & tf.reduce_all(tf.math.is_finite(values))
            return values, good, metrics.get("approx_kl", tf.constant(0.0)) <= hyper["kl_limit"]

        def body(
            i: tf.Tensor, sums: tf.Tensor, good: tf.Tensor, going: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
            values, fine, going = step(i)
            values = tf.pad(values, [[0, MOST_METRICS - values.shape[0]]])
            return i + 1, sums + values, good & fine, going

        if count > 1:  # the body is traced once, which tells how many metrics there are
            taken, sums, good, _ = tf.while_loop(
                lambda i, sums, good, going: (i < count) & good & going,
                body,
                (tf.constant(0), tf.zeros(MOST_METRICS), tf.constant(True), tf.constant(True)),
            )
            sums = sums[: len(self._metric_names)]
        else:
            sums, good, _ = step(tf.constant(0))
            taken = tf.constant(1)
        good &= tf.reduce_all(tf.math.is_finite(self.variable.value))
        for variable, old in zip(state, before, strict=True):
            variable.assign(tf.where(good, variable.value, old))
        steps = tf.cast(taken, tf.float32)
        head = tf.stack([steps, tf.cast(good, tf.float32)])
        out = tf.concat([head, sums / steps, tf.identity(self.variable.value)], axis=0)
        return out, before

    def _unpack(self, matrix: tf.Tensor) -> Named:
        """The columns of a minibatch [K, width] by name, each [K, *shape]."""
        layout = Layout(list(self.columns.values()))
        parts = tf.split(matrix, layout.sizes, axis=1)
        return {
            name: tf.reshape(part, (-1, *shape))
            for (name, shape), part in zip(self.columns.items(), parts, strict=True)
        }

    def pack(
        self, rows: np.ndarray, seed: int, learning_rates: np.ndarray, hyper: dict[str, float]
    ) -> None:
        """Fill `integers` and `floats`, which `minimize` takes after the batch.

        Args:
          rows: row numbers of all minibatches in order, [M·K].
          seed: of the entropy's noise.
          learning_rates: one a gradient step, [M].
          hyper: the scalars by name.
        """
        count, size = self.minibatches
        integers, floats = self.integers.reshape(count, -1), self.floats.reshape(count, -1)
        integers[:, :size], integers[:, size] = rows.reshape(count, size), seed
        floats[:, 0] = learning_rates
        floats[:, 1:] = [hyper[name] for name in self.hyperparameters]

    def run(self, batch: tf.Tensor) -> dict[str, float]:
        """Minimize what was packed by the program that `compile` made; see `absorb`."""
        assert self._program is not None, "compile() comes before run()"
        out, *before = self._program(batch, self.integers, self.floats)
        self._before, self._steps_before = before, self.optimizer_steps
        return self.absorb(out.numpy())

    def undo(self) -> None:
        """Take back the gradient steps of the last `run`."""
        for variable, old in zip(self.optimizer.state, self._before, strict=True):
            variable.assign(old)
        self.parameters = self.variable.numpy()
        self.optimizer_steps = self._steps_before

    def absorb(self, out: np.ndarray) -> dict[str, float]:
        """Take over what `minimize` returned; the metrics' means over the gradient steps taken.

        Raises:
          NonFiniteError: a loss or gradient was not finite; the weights are as before.
        """
        names = self._metric_names
        taken, good, *means = out[: len(names) + 2].tolist()
        metrics = dict(zip(names, means, strict=True))
        if not good:
            first = next((n for n, v in metrics.items() if not np.isfinite(v)), "new weights")
            raise NonFiniteError(
                f"the {self.name}'s {first} is not finite in gradient step {int(taken)} of this "
                f"iteration ({self.optimizer_steps + int(taken):,} in all): all weights are as "
                "before the iteration. Likely causes: a learning rate or reward scale that is too "
                "large, or clip_norm off"
            )
        self.parameters = out[len(names) + 2 :]
        self.optimizer_steps += int(taken)
        return metrics
