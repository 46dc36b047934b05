"""Plugins with the fixtures that all tests share."""

pytest_plugins = ["vertex_local.tests.support.plugin", "vertex_local.tests.support.service"]
