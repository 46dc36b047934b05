"""The train step of a job, assembled from its model, objective, optimizer and schedule."""

from collections.abc import Sequence
from functools import partial

import keras
import tensorflow as tf

from trainer.serving.outputs import zero_inputs
from trainer.training.job import Job
from trainer.training.model.embeddings import find_large
from trainer.training.model.flat_model import FlatModel, build_model
from trainer.training.model.objective import Objective
from trainer.training.optimizers.compiled import check_settings_of_compiled, read_optimizer
from trainer.training.optimizers.fused import make_linear_optimizer, make_optimizer
from trainer.training.optimizers.rules import Average, LinearPart, UpdateRules
from trainer.training.parameters import Parameters
from trainer.training.step import TrainStep

# On a parameter server five steps take 14 messages, in a loop of single steps 30.
_UNROLLED_STEPS = 5


def assemble(
    job: Job, *, devices: Sequence[str], num_parts: int = 1, num_counters: int = 0
) -> TrainStep:
    """Build the model of a job, with its weights on these devices, and return its train step.

    A batch is divided into `num_parts`, over all replicas. Each call in flight needs one of the
    `num_counters` of finished steps.

    Raises:
        ConfigError: The loss, the optimizer or a setting does not fit the model or the strategy.
    """
    config, recipe = job.config, job.config.recipe()
    keras.utils.set_random_seed(config.seed)
    keras_model = build_model(job.workload, config)
    has_gpus = bool(tf.config.list_physical_devices("GPU"))  # where Keras sets jit_compile itself
    is_jit = config.jit or bool(keras_model.compiled and not has_gpus and keras_model.jit_compile)
    model = FlatModel(keras_model)
    objective = Objective(
        job.workload, model, batch_size=config.batch_size, label_smoothing=recipe.label_smoothing
    )
    objective.check_parts(num_parts=num_parts * config.micro_batches)
    with tf.device(devices[0]):
        rules = _compiled_rules(job, model) if keras_model.optimizer else None
    rules = rules or _recipe_rules(job, model)
    is_by_rows = not (is_jit or rules.optimizer.needs_layers)
    embeddings = find_large(keras_model, partial(zero_inputs, job.workload)) if is_by_rows else ()
    model = FlatModel(keras_model, embeddings, is_compiled=is_jit)
    parameters = Parameters(
        model.read_weights(),
        devices=devices,
        rules=rules,
        embeddings=model.places(),
        state=model.read_state(),
        num_counters=num_counters,
        message_dtype=config.message_dtype,
    )
    return TrainStep(
        job.workload,
        model,
        objective,
        parameters,
        job.batches,
        num_micro_batches=config.micro_batches,
        # The rows of large embeddings are read within the computation, which must be pure.
        num_unrolled=_UNROLLED_STEPS if num_counters and not embeddings else 1,
        is_compiled=is_jit,
    )


def _recipe_rules(job: Job, model: FlatModel) -> UpdateRules:
    recipe = job.config.recipe()
    return UpdateRules(
        optimizer=make_optimizer(recipe),
        schedule=job.schedule,
        clip_norm=recipe.clip_norm,
        weight_decay=recipe.decay_for(job.train.num_examples),
        decay_mask=model.decay_mask(),
        average=Average(decay=recipe.average_decay) if recipe.average_decay else None,
        linear=LinearPart(
            segments=model.segments(job.workload.linear_variables(model.keras)),
            optimizer=make_linear_optimizer(recipe),
            schedule=job.linear_schedule,
        )
        if recipe.linear_optimizer
        else None,
    )


def _compiled_rules(job: Job, model: FlatModel) -> UpdateRules:
    rules = read_optimizer(model)
    check_settings_of_compiled(job.config, model.keras.optimizer)
    return rules
