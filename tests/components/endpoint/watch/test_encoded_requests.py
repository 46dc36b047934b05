"""Logged requests that are encoded examples."""

import base64

import pytest

from components.endpoint.watch.instances import describe as describe_instances
from tests.support.data.churn import WORKLOAD, rows
from tests.support.data.encoded_tables import make_example


def test_examples_are_described_like_objects():
    objects = rows(60, seed=12)
    examples = [{"b64": base64.b64encode(make_example(row)).decode()} for row in objects]

    (of_objects, _), (of_examples, num_unreadable) = (
        describe_instances(instances, [{"label": "no"}] * 60, WORKLOAD)
        for instances in (objects, examples)
    )

    assert num_unreadable == 0
    charge, as_sent = (found["features"].pop("charge") for found in (of_examples, of_objects))
    assert charge["num_present"] == as_sent["num_present"] > 0
    assert charge["mean"] == pytest.approx(as_sent["mean"], rel=1e-6)
    assert of_examples == of_objects
