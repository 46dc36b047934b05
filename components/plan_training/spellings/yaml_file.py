"""Strict YAML files: no key twice, no alias, and errors with their line."""

from pathlib import Path
from typing import Any

import yaml

from components.text.yaml_text import YamlError, check_yaml, explain
from trainer.errors import ClusterError

MAX_BYTES = 100_000


class _Loader(yaml.SafeLoader):
    """A SafeLoader that records duplicate keys."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.problems: list[str] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        lines: dict[Any, int] = {}
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                continue
            key, line = key_node.value, key_node.start_mark.line + 1
            if key in lines:
                self.problems.append(
                    f"line {line}: {key} is given twice, first in line {lines[key]}; keep one"
                )
            lines[key] = line
        return super().construct_mapping(node, deep=deep)


def read_yaml(path: Path) -> Any:
    """Return the content of a file.

    Raises:
        ClusterError: it is not YAML, has aliases, or has a key twice; names the line.
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    if len(data) > MAX_BYTES:
        raise ClusterError(f"it has {len(data):,} bytes; at most {MAX_BYTES:,} are allowed")
    try:
        text = data.decode("utf-8-sig")
        if text.lstrip().startswith("{"):
            text = text.replace("\t", " ")  # JSON may be indented with tabs, YAML may not
        check_yaml(text)
        loader = _Loader(text)
        content = loader.get_single_data()
    except UnicodeDecodeError as error:
        raise ClusterError(f"it is not YAML: byte {error.start} is not UTF-8") from error
    except YamlError as error:
        raise ClusterError(str(error)) from error
    except (yaml.YAMLError, ValueError) as error:
        raise ClusterError(explain(error, text)) from error
    if loader.problems:
        raise ClusterError(*loader.problems)
    return content
