"""Command-line flags of settings."""

import argparse
from collections.abc import Collection
from typing import Any

from trainer import Json
from trainer.config.settings import Settings, flag_name, schema_at


def add_flags(
    parser: argparse.ArgumentParser, model: type[Settings], *, leave_out: Collection[str] = ()
) -> None:
    """Add a flag for each setting, whose text `from_texts` reads; without it there is none.

    Those of each inherited model are a group of their own.
    """
    for base in model.__mro__[: model.__mro__.index(Settings)]:
        title, _, text = (base.__doc__ or "").partition("\n\n")
        group: Any = parser
        if base is not model:
            group = parser.add_argument_group(title.rstrip("."), text.strip() or None)
        for name in base.__annotations__:
            if name not in model.model_fields or name in leave_out:
                continue
            field = model.model_fields[name]
            key = field.alias or name
            options = _options(name, schema_at(model, [key]), is_required=field.is_required())
            group.add_argument(flag_name(key), dest=key, default=argparse.SUPPRESS, **options)


def _options(name: str, schema: Json, *, is_required: bool) -> Json:
    text = schema["description"].replace("%", "%%")
    if schema["type"] == "boolean":
        return {"action": "store_const", "const": "true", "help": text}
    if default := schema.get("default"):
        if isinstance(default, dict):
            default = ",".join(f"{key}={value}" for key, value in default.items())
        text += f" (default: {default})"
    if "enum" in schema:
        text += f"; one of {', '.join(schema['enum'])}"
    names = {"integer": "N", "number": "X"}
    metavar = names.get(schema["type"], name.rpartition("_")[2].upper())
    if is_required:
        text += " (required)"
    return {"required": is_required, "help": text, "metavar": metavar}
