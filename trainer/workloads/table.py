"""Tables: rows of numbers, categories, texts, moments in time and pictures."""

import contextlib
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from trainer.request_values import as_object, check_fields, is_example
from trainer.runtime.lazy import tf
from trainer.workloads.base import WEIGHTS, Build, Features, Recipe, Workload
from trainer.workloads.declarations.features import Feature, Image
from trainer.workloads.declarations.features.number import NUM_PIECES
from trainer.workloads.declarations.labels import Binary
from trainer.workloads.declarations.labels.classes import are_whole
from trainer.workloads.declarations.model_settings import ModelSetting, as_text
from trainer.workloads.declarations.names import declared_names
from trainer.workloads.declarations.table_checks import (
    check_crosses,
    check_features,
    check_input_names,
    parse_crosses,
    parse_sizes,
)
from trainer.workloads.declarations.written import plain_text
from trainer.workloads.encoding.columns import (
    Column,
    TableFacts,
    compute_columns,
    linear_columns,
    linear_inputs,
)
from trainer.workloads.encoding.images import NUM_SHIFTS, as_floats, shift_a_little
from trainer.workloads.encoding.learning import ColumnsSource, StatisticsSource
from trainer.workloads.encoding.lookups import num_categories, number_combinations
from trainer.workloads.models.line import Line
from trainer.workloads.models.wide_and_deep import build_wide_and_deep, linear_variables

DEFAULT_MODEL = "wide_and_deep"
# Tuned on the tables `DEVELOPMENT` of `python -m benchmarks.defaults`.
_RECIPE = Recipe(
    learning_rate=2e-3,
    weight_decay=2.0,
    decay_examples=5_000,
    average_decay=0.99,
    min_steps=500,
    wanted_steps=5_000,
    part_size=128,
)
# The label of a row is one bit here, so few rows say little.
_BINARY_RECIPE = replace(_RECIPE, weight_decay=10.0, decay_examples=1_000)
_IMAGE_RECIPE = Recipe(  # batch norm needs whole batches
    learning_rate=2e-3, weight_decay=0.1, average_decay=0.99, min_steps=500
)
_OWN_RECIPE = Recipe(learning_rate=1e-3, min_steps=500)
_SETTINGS = {"hidden_units": tuple, "crosses": str, "embedding_size": int, "batch_norm": bool}


@dataclass(frozen=True, repr=False)
class Table(Workload):
    """Rows of a table, from CSV, Parquet or BigQuery.

    Without `model` it trains a wide-and-deep model: a linear model of all inputs and crosses, plus
    a net of embeddings. Pictures pass through a small residual net first.

    Attributes:
        features: the columns that the examples hold.
        key: the column that identifies a row, whose hash decides the row's split.
        group_by: columns whose values together decide the split of rows without a key; default:
            all columns.
        only_read: columns that are read for the label's rule, but are no features.
        ignored: other columns of the files, such as those that are only known after the event; `*`
            and `?` as in file names.
        aliases: the names of columns by other names that files may have for them.
        missing: texts that mean a missing value in any column, besides the empty one; the texts
            of a single column belong to its declaration.
        header: the columns of CSV files without a header.
        crosses: combinations of categories with weights of their own in the linear part.
        hidden_units: sizes of the hidden layers of the deep part.
        embedding_size: size of the embedding of a category in the deep part.
        batch_norm: batch normalization in the hidden layers.
        raw_inputs: give `model` the values as the files have them, each feature as [1]: numbers as
            float32, NaN if missing; whole numbers and times as int64; texts as strings, empty if
            missing; pictures from 0 to 255.
        learnt: what was learnt from the train split.
    """

    features: Sequence[Feature]
    _: KW_ONLY
    key: str = ""
    group_by: Sequence[str] = ()
    only_read: Sequence[Feature] = ()
    ignored: Sequence[str] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    missing: Sequence[str] = ()
    header: Sequence[str] = ()
    crosses: Sequence[Sequence[str]] = ()
    hidden_units: Sequence[int] = (128, 128)
    embedding_size: int = 8
    batch_norm: bool = False
    raw_inputs: bool = False
    learnt: TableFacts = field(default_factory=TableFacts, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_features(self.features, self.label)
        set_field = partial(object.__setattr__, self)
        for name in (
            "features",
            "group_by",
            "only_read",
            "ignored",
            "missing",
            "hidden_units",
            "header",
        ):
            set_field(name, tuple(getattr(self, name)))
        # The columns of files may be named as in the files here, too.
        set_field("key", self.aliases.get(self.key, self.key))
        set_field("weight", self.aliases.get(self.weight, self.weight))
        set_field("group_by", tuple(self.aliases.get(name, name) for name in self.group_by))
        sizes = self._most_categories()
        named = (tuple(declared_names(cross, sizes, self.aliases)) for cross in self.crosses)
        set_field("crosses", tuple(named))
        check_crosses(self.crosses, sizes)
        if self.raw_inputs and self.model is None:
            raise ValueError("raw_inputs: the default model needs encoded columns; give a model")
        if not self.raw_inputs:
            check_input_names(self.columns)
        set_field("num_noise", NUM_SHIFTS * len(self._images))

    @property
    def used(self) -> list[Feature]:
        """The features that the model gets."""
        return [feature for feature in self.features if feature.is_used]

    @property
    def _images(self) -> list[Image]:
        return [feature for feature in self.used if isinstance(feature, Image)]

    @cached_property
    def _requested(self) -> list[Feature]:
        """The features of a request, with all texts that mean a missing value.

        Only a model of raw values requires some: an encoded one has the mean for a missing value.
        """
        return [
            replace(
                feature,
                missing=(*self.missing, *feature.missing),
                is_required=feature.is_required and self.raw_inputs,
            )
            for feature in self.used
        ]

    @property
    def feature_names(self) -> list[str]:
        return [feature.name for feature in self.used]

    @cached_property
    def columns(self) -> list[Column]:
        """The inputs of the model."""
        if self.raw_inputs:
            return [feature.raw_column() for feature in self.used]
        return [column for feature in self.used for column in feature.columns(self.learnt)]

    def _of_kind(self, *kinds: str) -> list[Column]:
        return [column for column in self.columns if column.kind in kinds]

    @property
    def num_numbers(self) -> int:
        return NUM_PIECES * len(self.columns)

    @property
    def learns(self) -> bool:
        return True

    @property
    def has_linear_part(self) -> bool:
        return self.model is None

    def stored_classes(self) -> Sequence[Any]:
        values = super().stored_classes()
        return values if are_whole(values) else [plain_text(str(v)) for v in values]

    def default_models(self) -> Mapping[str, Build]:
        return {DEFAULT_MODEL: lambda inputs: inputs}

    def default_recipe(self) -> Recipe:
        if self.model:
            return _OWN_RECIPE
        if self._images:
            return _IMAGE_RECIPE
        return _BINARY_RECIPE if isinstance(self.label, Binary) else _RECIPE

    def recipe_of(self, model: str = "") -> Recipe:
        recipe = super().recipe_of(model)
        return replace(recipe, part_size=0) if self.batch_norm else recipe

    def settings_of(self, model: str = "") -> Mapping[str, ModelSetting]:
        if self.model is not None:
            return super().settings_of(model)
        defaults = {name: getattr(self, name) for name in _SETTINGS}
        defaults["crosses"] = _as_text(self.crosses)
        return {
            name: ModelSetting(name=name, kind=kind, default=defaults[name])
            for name, kind in _SETTINGS.items()
        }

    def with_settings(self, values: Mapping[str, Any], model: str = "") -> Self:
        if self.model is not None:
            return super().with_settings(values, model)
        values, declared = dict(values), {}
        if "hidden_units" in values:
            values["hidden_units"] = parse_sizes(as_text(values["hidden_units"]))
        if "crosses" in values:
            text, sizes = as_text(values["crosses"]), self._most_categories()
            try:
                declared["crosses"] = parse_crosses(text, sizes, self.aliases)
            except ValueError as error:
                raise ValueError(f"model.{error}") from error
            values["crosses"] = _as_text(declared["crosses"])
        changed = super().with_settings(values, model).settings
        return replace(self, settings=changed, **{**changed, **declared})

    def parse(self, serialized: Any) -> tuple[Features, Any]:
        """Return columns by name and labels; missing values are NaN, an integer or an empty text.

        Until the classes or moments of a label are learnt, it is also one of the columns.
        """
        label = self.label.column
        spec = {feature.name: feature.example_spec() for feature in self.used}
        spec[label] = self.label.spec(self.learnt.classes)
        if self.weight:
            spec[self.weight] = tf.io.FixedLenFeature([], tf.float32, 1.0)
        columns = tf.io.parse_example(serialized, spec)
        raw = columns.pop(label)
        columns |= {feature.name: feature.decoded(columns[feature.name]) for feature in self.used}
        if not (self.labels or label in self.learnt.moments):
            columns[label] = self.label.to_learn(raw)
        return columns, self.label.as_stored().numbered(raw, self.learnt.classes)

    def adapt(self, features: Features) -> Self:
        return self.learn_from(ColumnsSource(features))

    def learn_from(self, source: StatisticsSource | ColumnsSource) -> Self:
        """Return the table with the facts of the train split.

        From both sources boundaries and vocabularies are the same. Moments differ by float32
        rounding, and by some percent where a column has more distinct values than statistics.json
        lists.
        """
        encoded = () if self.raw_inputs else self.used  # the features whose encoding is learnt
        has_edges = self.model is None
        learnt = {feature.name: feature.learn(source, has_edges=has_edges) for feature in encoded}
        learnt[self.label.column] = self.label.learn(source)
        facts: dict[str, Any] = defaultdict(dict)
        for column, of_column in learnt.items():
            for name, fact in of_column.items():
                facts[name][column] = fact
        facts["classes"] = facts["classes"].get(self.label.column, ())
        return replace(self, learnt=TableFacts(**facts, class_counts=self.learnt.class_counts))

    def with_learnt(self, **facts: Any) -> Self:
        return replace(self, learnt=replace(self.learnt, **facts))

    def learnt_list(self, name: str) -> tuple[Any, ...]:
        return tuple(getattr(self.learnt, name))

    def facts(self) -> dict[str, Any]:
        facts = asdict(self.learnt)
        always = ("boundaries", "vocabularies", "moments")
        return {name: value for name, value in facts.items() if value or name in always}

    def with_facts(self, facts: dict[str, Any]) -> Self:
        learnt = {**facts, "classes": tuple(facts.get("classes", ()))}
        return replace(self, learnt=TableFacts(**learnt))

    def encode(self, features: Features) -> Features:
        """Return category numbers and scaled numbers, side by side; crosses, tokens and weights."""
        encoded = {}
        if categories := self._of_kind("category"):
            numbers = compute_columns(categories, features)
            encoded["categories"] = numbers
            sizes = {column.key: column.size for column in categories}
            if self.model is None:
                encoded["categories"] = _disjoint(numbers, [*sizes.values()])
            if self.model is None and self.crosses:
                values = dict(zip(sizes, tf.unstack(numbers, axis=1), strict=True))
                crosses = [number_combinations(cross, values, sizes) for cross in self.crosses]
                encoded["pairs"] = _disjoint(tf.stack(crosses, axis=1), self._cross_sizes())
        if amounts := self._of_kind("number"):
            encoded["amounts"] = compute_columns(amounts, features)
        for column in self._of_kind("tokens", "raw", "image"):
            encoded[f"{column.kind}_{column.name}"] = compute_columns([column], features)
        if self.weight and self.weight in features:
            encoded[WEIGHTS] = features[self.weight]
        return encoded

    def augment(self, features: Features, noise: Any) -> Features:
        changed = dict(features)
        for number, image in enumerate(self._images):
            name, start = f"image_{image.name}", number * NUM_SHIFTS
            changed[name] = shift_a_little(features[name], noise[:, start : start + NUM_SHIFTS])
        return changed

    def preprocess(self, features: Features) -> Any:
        """Return the model's inputs; a declared model gets them by name."""
        features = dict(features)
        for image in self._images:
            name = f"image_{image.name}"
            features[name] = as_floats(
                features[name], channels=image.channels, is_raw=self.raw_inputs
            )
        if self.model is None:
            return {name: values for name, values in features.items() if name != WEIGHTS}
        inputs = {
            column.name: features[f"{column.kind}_{column.name}"]
            for column in self._of_kind("tokens", "raw", "image")
        }
        if categories := self._of_kind("category"):
            names = [column.name for column in categories]
            inputs |= zip(names, tf.unstack(features["categories"], axis=1), strict=True)
        if numbers := self._of_kind("number"):
            names, sizes = [column.name for column in numbers], [column.size for column in numbers]
            inputs |= zip(names, tf.split(features["amounts"], sizes, axis=1), strict=True)
        return {column.name: inputs[column.name] for column in self.columns}

    def model_inputs(self) -> Any:
        """Return Keras inputs by name; inputs of categories have an attribute `num_categories`."""
        return {column.name: column.keras_input() for column in self.columns}

    def build_model(self, model: str = "") -> Any:
        if self.model is not None:
            return super().build_model(model)
        return build_wide_and_deep(
            categories=[column.size for column in self._of_kind("category")],
            crosses=self._cross_sizes(),
            num_amounts=sum(column.size for column in self._of_kind("number")),
            # Of each column of numbers, [] for one without pieces.
            edges=[
                self.learnt.edges.get(column.name, [])
                for column in self._of_kind("number")
                for _ in range(column.size)
            ],
            tokens={
                f"tokens_{column.name}": (column.size, column.length)
                for column in self._of_kind("tokens")
            },
            images={f"image_{image.name}": (*image.size, image.channels) for image in self._images},
            num_outputs=len(self.labels) or 1,
            hidden_units=self.hidden_units,
            embedding_size=self.embedding_size,
            batch_norm=self.batch_norm,
            scale=self._label_moments,
        )

    @property
    def _label_moments(self) -> list[float] | None:
        """Mean and deviation of the number that the default model predicts."""
        return self.learnt.moments.get(self.label.column) if self.model is None else None

    @property
    def loss_unit(self) -> float:
        return self._label_moments[1] ** 2 if self._label_moments else 1.0

    def linear_variables(self, model: Any) -> list[Any]:
        return linear_variables(model) if self.has_linear_part else []

    def fit_line(self, features: Features, labels: Any) -> Line | None:
        columns = linear_columns(self.columns)
        if not columns:
            return None
        known = self.label.find_labelled(labels)
        weighed = {WEIGHTS: features[self.weight]} if self.weight else {}
        weights = self.example_weights(weighed, labels)
        inputs = linear_inputs(columns, features)[known]
        *fitted, constant = self.label.fit_linear(
            inputs,
            labels[known],
            len(self.labels),
            None if weights is None else np.asarray(weights)[known],
        )
        ends = np.cumsum([column.size for column in columns])[:-1]
        parts = dict(zip([c.name for c in columns], np.split(np.array(fitted), ends), strict=True))

        def weights_of(kind: str) -> np.ndarray:
            none = np.zeros((0, len(constant)))
            of_kind = self._of_kind(kind)
            return np.concatenate(
                [none, *(parts.get(c.name, np.zeros((c.size, len(constant)))) for c in of_kind)]
            )

        numbers = weights_of("number")
        return Line(
            numbers=numbers,
            categories=weights_of("category"),
            constant=constant,
            low=inputs[:, : len(numbers)].min(axis=0),
            high=inputs[:, : len(numbers)].max(axis=0),
        )

    def input_specs(self) -> dict[str, Any]:
        return {feature.name: feature.tensor_spec() for feature in self.used}

    def plain_features(self, features: Features) -> Features:
        """Return the raw features of requests as preparing stores them, computed in the graph."""
        alike: dict[Any, list[str]] = defaultdict(list)
        for feature in self._requested:
            if features[feature.name].dtype == "string":
                terms = self.learnt.vocabularies.get(feature.name, ())
                spellings = tuple(feature.plain_spellings(terms).items())
                alike[feature.list_length, spellings].append(feature.name)
        plain = dict(features)
        for (_, spellings), names in alike.items():
            texts = _plain_strings(tf.stack([features[name] for name in names]), dict(spellings))
            plain.update(zip(names, tf.unstack(texts), strict=True))
        return plain

    def parse_instance(self, instance: Any) -> Features:
        """Return the features of an object, or of a serialized tf.train.Example.

        An absent or null feature is missing.
        """
        if is_example(instance, self.feature_names):
            return {name: values[0] for name, values in self.parse_examples([instance]).items()}
        instance = as_object(instance, self.feature_names)
        fields = self._fields(instance)
        return {
            feature.name: replace(feature, name=fields[feature.name]).parse(
                instance[fields[feature.name]]
            )
            if feature.name in fields
            else feature.parse(None)
            for feature in self._requested
        }

    def values_by_feature(self, instance: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of an object by feature; ValueError names an unknown field."""
        return {name: instance[field] for name, field in self._fields(instance).items()}

    def _fields(self, instance: Any) -> dict[str, str]:
        """Return the field of each feature that an object has; names in files count, too.

        A field `key` is also the feature that has the alias `key`, unless that is sent by its name.

        Raises:
            ValueError: a field is unknown, or two are the same feature.
        """
        names = self.feature_names
        if not isinstance(instance, dict):
            check_fields(instance, names)
        aliases = {
            alias: name
            for alias, name in self.aliases.items()
            if name in names and not (alias == "key" and name in instance)
        }
        fields: dict[str, str] = {}
        for name, field_ in zip(declared_names([*instance], names, aliases), instance, strict=True):
            if name in fields:
                raise ValueError(f"{fields[name]!r} and {field_!r} are both {name!r}; send one")
            fields[name] = field_
        check_fields(fields, names)
        return fields

    def parse_instances(self, instances: Sequence[Any]) -> Features:
        """Return the features of objects: column by column, unless one may be invalid."""
        names = {*self.feature_names, *({"key"} - self.aliases.keys())}
        if all(is_example(instance, names) for instance in instances):
            with contextlib.suppress(ValueError):
                return self.parse_examples(instances)
        if not all(type(instance) is dict for instance in instances):
            return super().parse_instances(instances)
        try:
            rows = [
                instance if instance.keys() <= names else self.values_by_feature(instance)
                for instance in instances
            ]
            return {
                feature.name: feature.parse_column([row.get(feature.name) for row in rows])
                for feature in self._requested
            }
        except (ValueError, OverflowError):
            return super().parse_instances(instances)

    def format_instance(self, features: Features) -> Any:
        """Return the features that are not missing, by name."""
        sent = {feature.name: feature.as_field(features[feature.name]) for feature in self.used}
        return {name: value for name, value in sent.items() if value is not None}

    def wire_forms(self, features: Features) -> dict[str, Any]:
        """Return the features without the missing ones, and with null for them."""
        known = self.format_instance(features)
        names = [feature.name for feature in self.used]
        return {"object": known, "nulls": {**dict.fromkeys(names), **known}}

    def _cross_sizes(self) -> list[int]:
        sizes = {column.key: column.size for column in self._of_kind("category")}
        return [math.prod(sizes[name] for name in cross) for cross in self.crosses]

    def _most_categories(self) -> dict[str, int]:
        return {
            name: num_categories(size)
            for feature in self.used
            for name, size in feature.most_categories().items()
        }


def _as_text(crosses: Sequence[Sequence[str]]) -> str:
    return ",".join(map(":".join, crosses)) or "none"


def _disjoint(numbers: Any, sizes: Sequence[int]) -> Any:
    """Return numbers [examples, columns], offset to a range of its own for each column."""
    return numbers + np.cumsum([0, *sizes[:-1]]).astype(np.int32)


def _plain_strings(texts: Any, spellings: Mapping[str, str]) -> Any:
    """Return texts as preparing stores them, computed in the graph."""
    plain = tf.strings.strip(texts)
    for text, spelling in spellings.items():
        plain = tf.where(plain == text, spelling, plain)
    return plain
