"""Declared settings: what they allow, their flags and their environment variables."""

import argparse
from collections.abc import Mapping
from typing import Annotated, Literal

import pytest
from pydantic import BeforeValidator, Field

from trainer.config.flags import add_flags
from trainer.config.settings import (
    MOST,
    Line,
    Name,
    OneOf,
    Settings,
    SettingsError,
    Texts,
    read_mapping,
    setting,
)
from trainer.errors import ConfigError
from trainer.serving.http.limits import parse_environ

pytestmark = pytest.mark.fast


class Shown(Settings):
    """Output.

    How results are shown.
    """

    width: int | None = setting("columns", default=None, ge=1, le=200)


class Config(Shown):
    """All settings."""

    name: Name = setting("name, 100% free")
    color: Literal["red", "green"] = setting("color", default="red")
    size: Annotated[str, OneOf(("s", "m"))] = setting("size", default="s")
    share: float = setting("share", default=0.5, gt=0, lt=1)
    columns: Texts = setting("columns", default=())
    weights: Annotated[
        Mapping[Literal["a", "b"], Annotated[float, Field(ge=0, le=MOST)]],
        BeforeValidator(read_mapping),
    ] = setting("weights", default={})
    address: Line = setting("address", default="", pattern="https?://.+", form="a web address")
    is_quiet: bool = setting("quiet", default=False)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"name": ""}, "name is ''; .*not empty"),
        ({"name": 3}, "name is 3; .*text"),
        ({"color": "gren"}, "color is 'gren'; did you mean 'green'. allowed are red, green"),
        ({"share": 1}, "share is 1; .*number above 0 and below 1"),
        ({"share": float("nan")}, "share is nan"),
        ({"share": True}, "share is True"),
        ({"width": 0}, "width is 0; .*whole number from 1 to 200"),
        ({"width": 1.0}, r"width is 1\.0"),
        ({"columns": 1}, r"columns is 1; .*list of texts, separated by commas"),
        ({"columns": ["a", 1]}, r"columns\[1\] is 1; .*a text on one line"),
        ({"columns": ["a\nb"]}, r"columns\[0\] is 'a.nb'"),
        ({"size": "l"}, "size is 'l'; allowed are s, m"),
        ({"nam": "n"}, "no 'nam'; did you mean 'name'. allowed are width, name"),
        ({"weights": 1}, "weights is 1; .*numbers by name"),
        ({"weights": {"c": 1}}, "weights has no 'c'; allowed are a, b"),
        ({"weights": {"a": -1}}, r"weights\.a is -1; .*number from 0"),
        ({"weights": {"a": "1"}}, r"weights\.a is '1'"),
        ({"address": "ftp://x"}, "address is 'ftp://x'; .*a web address, or empty"),
        ({"is_quiet": 1}, "is_quiet is 1; .*true or false"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(values, words):
    with pytest.raises(ConfigError, match=words):
        Config(**{"name": "n", **values})


def test_lists_and_texts_with_commas_become_tuples():
    assert Config(name="n", columns="a,b,").columns == ("a", "b")
    assert Config(name="n", columns=["a,b"]).columns == ("a,b",)
    assert Config(name="n", weights={"a": float("1e9")}).weights == {"a": 1e9}


def parse(*flags):
    parser = argparse.ArgumentParser(prog="p")
    add_flags(parser, Config)
    return vars(parser.parse_args(["--name", "n", *flags])), parser.format_help()


def test_flags_give_the_values_of_the_fields():
    flags = ["--share", "0.25", "--columns", "a,b", "--weights", "a=1,b=.5", "--is-quiet"]
    values, _ = parse(*flags, "--width", "9")
    assert Config.from_texts(values) == Config(
        name="n",
        share=0.25,
        columns=("a", "b"),
        weights={"a": 1.0, "b": 0.5},
        is_quiet=True,
        width=9,
    )
    assert Config.from_texts(parse()[0]) == Config(name="n")


def test_the_help_has_every_flag_with_its_default_and_its_group():
    _, text = parse()
    for words in ("100% free (required)", "(default: red); one of red, green", "--columns COLUMNS"):
        assert words in " ".join(text.split())
    assert text.index("How results are shown.") < text.index("\n  --width N")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--width", "wide"], "width is 'wide'; .*from 1 to 200"),
        (["--weights", "a"], "weights is 'a'; .*numbers by name"),
        (["--share", "nan"], "share is 'nan'; .*above 0"),
    ],
)
def test_a_flag_that_cannot_be_read_is_named(flags, words):
    with pytest.raises(ConfigError, match=words):
        Config.from_texts(parse(*flags)[0])


def test_all_mistakes_are_named_at_once_with_their_keys():
    with pytest.raises(SettingsError) as error:
        Config(width=0, share=2, colour="red")
    assert sorted(error.value.keys) == ["colour", "name", "share", "width"]


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "AIP_STORAGE_URI is not set; set it to the folder"),
        ({"AIP_STORAGE_URI": "/m", "AIP_HTTP_PORT": "http"}, "AIP_HTTP_PORT is 'http'; .*1 to 65"),
        ({"AIP_STORAGE_URI": "/m", "AIP_HTTP_PORT": "65536"}, "AIP_HTTP_PORT is '65536'"),
        ({"AIP_STORAGE_URI": "/m", "AIP_HEALTH_ROUTE": "up"}, "AIP_HEALTH_ROUTE is 'up'; .*with /"),
    ],
)
def test_a_wrong_environment_variable_is_named(environ, words):
    with pytest.raises(ConfigError, match=words):
        parse_environ(environ)


def test_an_empty_variable_has_its_default():
    config = parse_environ({"AIP_STORAGE_URI": "file:///m/", "AIP_HTTP_PORT": "81"})
    assert (config.storage_uri, config.port, config.host) == ("/m", 81, "0.0.0.0")
    assert parse_environ({"AIP_STORAGE_URI": "/m", "AIP_HTTP_PORT": ""}).port == 8080
