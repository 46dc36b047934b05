"""The variables of training: weights, optimizer slots, model state and step count.

They are flat vectors (see `trainer.training.model.flat_model`), cut into pieces: the linear weights
and the others, if these have different optimizers, and each of the two over the parameter servers.
Large embeddings have pieces of their own (see `trainer.training.model.embeddings`); in a snapshot
they are part of the vectors like all weights. Here the variables are made, read, saved and
restored; `trainer.training.step` updates them.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer.runtime.tracing import traced
from trainer.training.model.embeddings import EmbeddingPlace
from trainer.training.optimizers.base import FusedOptimizer, Optimizer, Slots
from trainer.training.optimizers.late_rows import LateRows
from trainer.training.optimizers.rules import UpdateRules
from trainer.training.pieces import Piece, PieceGroup, PieceLayout, divide_layers, num_weights


class Parameters:
    """All variables of training, spread over the given devices.

    Several workers may pull and update at once. Each call that is in flight to a worker has a
    counter of the steps it has applied, so that its rest can be repeated if the worker is lost.

    With counters, `message_dtype` is the format in which weights and gradients travel: they are
    rounded where they are sent, and computed with in float32.
    """

    def __init__(
        self,
        initial: tf.Tensor,
        *,
        devices: Sequence[str],
        rules: UpdateRules,
        embeddings: Sequence[EmbeddingPlace] = (),
        state: tf.Tensor | None = None,
        num_counters: int = 0,
        message_dtype: str = "float32",
    ):
        self.rules, self.places = rules, embeddings
        self.requested_rate = 0.0
        """The learning rate that a callback wants; the driver sets it between two calls."""
        self._is_shared = num_counters > 0
        self._message_dtype = tf.as_dtype(message_dtype if self._is_shared else "float32")
        self.pieces = self._make_pieces(initial, devices)
        late = [piece for piece in self.pieces if piece.late]
        self._read_late = traced(lambda: [piece.read() for piece in late])
        self._settle_late = traced(self._settle)
        self._embeddings = [
            [piece for piece in self.pieces if piece.group.embedding == number]
            for number in range(len(embeddings))
        ]
        self._vectors = [piece for piece in self.pieces if piece.group.embedding is None]
        with tf.device(devices[0]):
            # The global step, then the counters: one variable, so that one atomic operation
            # counts a step in both.
            self._counts = tf.Variable(tf.zeros([1 + num_counters], tf.int64), name="global_step")
            self.state = tf.Variable(tf.zeros([0]) if state is None else state)
            # Averaged weights need statistics averaged like them, not the last step's.
            has_average = rules.average is not None and rules.average.has_state
            self.average_state = tf.Variable(self.state) if has_average else self.state

    def pull(self) -> tf.Tensor:
        """Return the current weights without large embeddings."""
        parts = []
        for piece in self._vectors:
            with tf.device(piece.device):
                parts.append(self._pack(piece.weights.read_value()))
        return _unpack(self._cut.join(parts, {piece.group for piece in self._vectors}))

    def fetch(self, number: int, ids: tf.Tensor) -> tf.Tensor:
        """Return rows of a large embedding; only the ids and the rows travel."""
        parts = []
        for piece in self._embeddings[number]:
            with tf.device(piece.device):
                late = piece.late
                rows = late.fetch(ids) if late else tf.gather(piece.weights, ids)
                parts.append(self._pack(rows))
        return _unpack(tf.concat(parts, 1) if len(parts) > 1 else parts[0])

    def pull_state(self) -> tf.Tensor:
        """Return the current state of the model."""
        return self.state.read_value() if self.state.shape[0] else tf.zeros([0])

    def push(
        self, gradient: tf.Tensor, rows: Sequence[tf.IndexedSlices] = ()
    ) -> list[tf.Tensor | tf.IndexedSlices]:
        """Return each piece's gradient, on its device, given the vector's and embeddings' rows."""
        packed = self._pack(gradient)
        parts = self._cut.split(packed, {piece.group for piece in self._vectors})
        for pieces, slices in zip(self._embeddings, rows, strict=True):
            columns = self._cut.split_columns(self._pack(slices.values), pieces[0].group)
            parts += [tf.IndexedSlices(values, slices.indices) for values in columns]
        for number, piece in enumerate(self.pieces):
            with tf.device(piece.device):
                parts[number] = _unpack(parts[number])
        return parts

    def count_step(self, *, counter: tf.Tensor | None = None) -> tf.Tensor:
        """Count one step, in a call's counter as well if there is one; return the global step."""
        ones = self._one_hot(0)
        if counter is not None:
            ones += self._one_hot(1 + counter)
        return self._counts.assign_add(ones, read_value=True)[0]

    def num_steps(self) -> int:
        """Return the global step: the number of steps applied so far."""
        return int(self._counts.read_value()[0])

    def steps_done(self, counter: tf.Tensor) -> tf.Tensor:
        """Return the number of steps in a counter since it was reset."""
        with tf.device(self.pieces[0].device):
            return self._counts.read_value()[1 + counter]

    def reset_counter(self, counter: int) -> None:
        """Set a counter to zero while other workers go on counting in theirs."""
        done = int(self._counts.read_value()[1 + counter])
        self._counts.assign_add(-done * self._one_hot(1 + counter), read_value=False)

    def snapshot(self) -> dict[str, tf.Tensor]:
        """Return local copies: global_step, weights, state, and optimizer slots by name.

        Also `steps_done`, the value of each counter at that same global step.
        """
        counts = tf.identity(self._counts.read_value())
        late, rate = iter(self._read_late()), self.rules.schedule.variable
        values = [next(late) if piece.late else piece.read() for piece in self.pieces]
        snapshot = {
            "global_step": counts[0],
            "steps_done": counts[1:],
            "state": tf.identity(self.pull_state()),
            **{name: self._join(name, values) for name in self.vector_names},
            **{name: tf.identity(variables[0]) for name, variables in self._other_slots().items()},
        }
        if self.average_state is not self.state:
            snapshot["average_state"] = tf.identity(self.average_state)
        if rate is not None:
            snapshot["learning_rate"] = tf.identity(rate)
        return snapshot

    def load(self, snapshot: Mapping[str, tf.Tensor]) -> None:
        """Restore a snapshot, of this cluster or another; all counters are zero then."""
        zeros = tf.zeros([self._counts.shape[0] - 1], tf.int64)
        self._counts.assign(tf.concat([snapshot["global_step"][tf.newaxis], zeros], 0))
        self.state.assign(snapshot["state"])
        self.average_state.assign(snapshot.get("average_state", snapshot["state"]))
        for name in self.vector_names:
            pieces = self._pieces_with(name)
            parts = self._cut.split(snapshot[name], {piece.group for piece in pieces})
            for piece, part in zip(pieces, parts, strict=True):
                piece.vectors[name].assign(part)
        for piece in self.pieces:
            if piece.late:
                piece.late.restart()
        for name, variables in self._other_slots().items():
            for variable in variables:
                variable.assign(snapshot[name])
        if self.rules.schedule.variable is not None:
            self.rules.schedule.variable.assign(snapshot["learning_rate"])

    def settle(self) -> None:
        """Bring the rows of all large embeddings up to date, which a snapshot does not do."""
        self._settle_late()

    def _settle(self) -> None:
        for piece in self.pieces:
            if piece.late:
                piece.late.settle()

    def _other_slots(self) -> dict[str, list[tf.Variable]]:
        names = dict.fromkeys(name for piece in self.pieces for name in piece.other_slots)
        return {
            name: [piece.other_slots[name] for piece in self.pieces if name in piece.other_slots]
            for name in names
        }

    @property
    def vector_names(self) -> list[str]:
        """Names of the weights and of the vectors that all or some pieces hold beside them."""
        return list(dict.fromkeys(name for piece in self.pieces for name in piece.vectors))

    def _pieces_with(self, name: str) -> list[Piece]:
        return [piece for piece in self.pieces if name in piece.vectors]

    def _join(self, name: str, values: Sequence[Mapping[str, tf.Tensor]]) -> tf.Tensor:
        parts = [vectors[name] for vectors in values if name in vectors]
        return self._cut.join(parts, {piece.group for piece in self._pieces_with(name)})

    def _pack(self, value: tf.Tensor) -> tf.Tensor:
        return value if self._message_dtype == tf.float32 else tf.cast(value, self._message_dtype)

    def _one_hot(self, index: tf.Tensor | int) -> tf.Tensor:
        return tf.one_hot(index, self._counts.shape[0], dtype=tf.int64)

    def _make_pieces(self, initial: tf.Tensor, devices: Sequence[str]) -> list[Piece]:
        rules = self.rules
        layers: list[list[tuple[int, Any]]] = [[] for _ in devices]
        sizes = None
        if rules.optimizer.needs_layers:
            layers = divide_layers(rules.layers, len(devices))
            sizes = [sum(num_weights(layer) for _, layer in part) for part in layers]
        self._cut = PieceLayout(
            initial.shape[0],
            num_devices=len(devices),
            linear=rules.linear,
            sizes=sizes,
            embeddings=self.places,
        )
        has_decay = rules.weight_decay and rules.decay_mask is not None
        masks = self._cut.split(rules.decay_mask) if has_decay else itertools.repeat(None)
        return [
            self._make_piece(part, device, mask, layers=layers, group=group)
            for part, group, mask, (device, layers) in zip(
                self._cut.split(initial),
                self._cut.groups,
                masks,
                itertools.cycle(zip(devices, layers, strict=False)),
                strict=False,
            )
        ]

    def _make_piece(
        self,
        initial: tf.Tensor,
        device: str,
        mask: tf.Tensor | None,
        *,
        layers: Sequence[tuple[int, Any]],
        group: PieceGroup,
    ) -> Piece:
        linear = self.rules.linear if group.is_linear else None
        optimizer = linear.optimizer if linear else self.rules.optimizer
        with tf.device(device):
            optimizer = optimizer.for_piece(layers, is_shared=self._is_shared)
            weights = tf.Variable(initial, name="weights")
            average = tf.Variable(initial) if self.rules.average else None
            if mask is not None and group.embedding is not None:
                mask = mask[0, 0] or None  # the same for all weights
            has_mask = mask is not None and optimizer.allows_decay
            slots = optimizer.make_slots(weights)
            late = None
            if group.embedding is not None:
                late = self._make_late(optimizer, weights, slots, average, has_decay=has_mask)
            return Piece(
                device=device,
                optimizer=optimizer,
                weights=weights,
                slots=slots,
                average=average,
                decay_mask=tf.Variable(mask, trainable=False) if has_mask else None,
                group=group,
                schedule=linear.schedule if linear else None,
                late=late,
            )

    def _make_late(
        self,
        optimizer: Optimizer,
        weights: tf.Variable,
        slots: Slots,
        average: tf.Variable | None,
        *,
        has_decay: bool,
    ) -> LateRows | None:
        """Return the late rows of an embedding, if a step changes rows outside the batch."""
        if not (isinstance(optimizer, FusedOptimizer) and optimizer.has_row_rule):
            return None
        if optimizer.row_operation and not has_decay and average is None:
            return None
        return LateRows(
            optimizer,
            weights,
            slots,
            average=average,
            average_rule=self.rules.average,
            is_shared=self._is_shared,
        )


def _unpack(value: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
    """Return what was sent as float32, on the device of the receiver."""
    if isinstance(value, tf.IndexedSlices):
        return tf.IndexedSlices(_unpack(value.values), tf.identity(value.indices))
    return tf.identity(value) if value.dtype == tf.float32 else tf.cast(value, tf.float32)
