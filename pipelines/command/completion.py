"""Completion in a shell: `trainyard --complete LINE` prints the words that may follow.

A shell waits for it, so it imports the standard library only, starts no service and asks no
network: names come from the local service's database, commands and settings from a file that is
made again when the source has changed. Where it prints nothing, the shell completes files.
"""

import glob
import json
import os
import pkgutil
import re
import shlex
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

# Bash replaces only $2, the end of a word after = or :, or from @ on.
SCRIPTS = {
    "bash": """\
_trainyard() {
  local IFS=$'\n' line="${COMP_LINE:0:COMP_POINT}"
  local word="${line##*[[:space:]]}"
  local kept="${word%"$2"}"
  COMPREPLY=($("$1" --complete "$line" 2>/dev/null))
  COMPREPLY=("${COMPREPLY[@]%%$'\t'*}")
  COMPREPLY=("${COMPREPLY[@]#"$kept"}")
  if [[ ${COMPREPLY[0]} == *[=/] ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -o default -F _trainyard trainyard
""",
    "zsh": """\
#compdef trainyard
_trainyard() {
  local -a names
  names=("${(@f)$("${words[1]}" --complete "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)}")
  names=("${(@)names//:/\\\\:}")
  names=("${(@)names//$'\t'/:}")
  if [[ -z $names[1] ]]; then
    compset -P '*='
    _files
  elif [[ $names[1] == *[=/](|:*) ]]; then
    _describe trainyard names -S ''
  else
    _describe trainyard names
  fi
}
if [[ $funcstack[1] == _trainyard ]]; then _trainyard "$@"; else compdef _trainyard trainyard; fi
""",
    "fish": """\
function __trainyard_complete
  set -l words (commandline -opc)
  set -l names ($words[1] --complete (commandline -cp | string collect) 2>/dev/null)
  if set -q names[1]
    printf '%s\n' $names
  else
    set -l option (string match -r -- '^--[^=]+=' (commandline -ct))
    printf '%s\n' "$option"(__fish_complete_path (string replace -- "$option" '' (commandline -ct)))
  end
end
complete -c trainyard -f -a '(__trainyard_complete)'
""",
}
ROOT = Path(__file__).parents[2]
SOURCES = ("pipelines/command", "pipelines/config", "trainer/config")
END = "\x1f"  # of the line: the last word may be empty
PLAIN = re.compile(r"[\w./@:=,+~-]+")  # needs no quotes
NEWEST = """
SELECT * FROM (SELECT {name}, substr(state, instr(state, 'STATE_') + 6) || ' ' || create_time
FROM listed JOIN resources USING (position) WHERE kind = '{kind}' ORDER BY position DESC LIMIT 300)
"""
LATEST = "SELECT * FROM (SELECT 'latest', 'the newest' FROM listed WHERE kind = '{kind}' LIMIT 1)"
ID = "replace(resources.name, resources.collection || '/', '')"
WITH_LATEST = f"{LATEST} UNION ALL {NEWEST}"
# Names and their meanings by the placeholders of arguments.
QUERIES = {
    "RUN": WITH_LATEST.format(name=ID, kind="pipelineJobs"),
    "JOB": WITH_LATEST.format(name="display_name", kind="customJobs")
    + f" UNION ALL {NEWEST.format(name=ID, kind='customJobs')}",
    "TUNE": NEWEST.format(name="display_name", kind="hyperparameterTuningJobs"),
    "MODEL": NEWEST.format(name="display_name", kind="models"),
    "ENDPOINT": NEWEST.format(name="display_name", kind="endpoints"),
    "SCHEDULE": NEWEST.format(name="display_name", kind="schedules"),
    "MODEL@VERSION": """
SELECT l.display_name || '@' || a.key, 'version ' || a.value FROM listed l
JOIN resources r USING (position), json_each(r.body, '$.aliases') a WHERE l.kind = 'models'
UNION ALL SELECT * FROM (SELECT l.display_name || '@' || json_extract(v.body, '$.versionId'), ''
FROM listed l JOIN resources r USING (position) JOIN resources v
ON v.collection = r.name || '/versions' WHERE l.kind = 'models' ORDER BY v.position DESC)""",
    "TASK": """
SELECT DISTINCT json_extract(t.value, '$.name'), ''
FROM (SELECT DISTINCT digest FROM spec_uses ORDER BY rowid DESC LIMIT 3)
JOIN specs s USING (digest), json_tree(s.body) t WHERE t.key = 'taskInfo' AND json_extract(s.body,
'$.components."' || json_extract(s.body, t.path || '.componentRef.name') || '".dag') IS NULL""",
}
Words = dict[str, str]  # with their meanings


def main(line: str) -> int:
    """Print the words that may end a command line, each with its meaning after a tab."""
    for word, meaning in completions(line).items():
        print(f"{word}\t{meaning}")
    return 0


def completions(line: str) -> Words:
    """Return the words that may stand at the end of a command line; none for files."""
    try:
        _, *before, current = shlex.split(line + END)
    except ValueError:  # an open quote: a file
        return {}
    current, words, options = current.removesuffix(END), _words(), dict[str, str]()
    node, num_arguments, option = words["commands"], 0, ""
    for word in before:
        if option:
            options[option], option = word, ""
        elif word.startswith("-"):
            option = word if node["kinds"].get(word) else ""
        elif word in node["commands"]:
            node = node["commands"][word]
        else:
            num_arguments += 1
    kinds = [*node["arguments"][: num_arguments + 1], ""]  # the last may be repeated
    found = node["kinds"][option] if option else kinds[-2:][0]
    if not option and (current.startswith("-") or node["commands"]):
        found = node["words"]
    elif isinstance(found, str):
        found = _names(found, current, words, options)
    return {
        word: text
        for word, text in found.items()
        if word.startswith(current) and (current or not word.startswith("-"))
    }


def _names(kind: str, current: str, words: dict[str, Words], options: Words) -> Words:
    """Return the values of an argument or option by its placeholder, such as `RUN` or `JOB|DIR`."""
    if kind.startswith("KEY=VALUE"):
        return words["settings"]
    if kind in ("WORKLOAD", "PACKAGE"):
        return words["workloads"] | _files(current)
    if kind == "CLUSTER" and not current:
        return _files("configs/clusters/")
    found = _files(current) if kind.endswith("|DIR") else {}
    if options.get("--on") != "vertex":
        folder = options.get("--state-dir") or os.environ.get("TRAINYARD_DIR", ".trainyard")
        kind = "MODEL@VERSION" if "MODEL" in kind and "@" in current else kind
        found |= _rows(Path(folder, "vertex", "vertex.db"), kind)
    return found


def _rows(path: Path, kinds: str) -> Iterator[tuple[str, str]]:
    """Yield names and meanings; none if there is no database, or it cannot be read now."""
    queries = [QUERIES[kind] for kind in kinds.split("|") if kind in QUERIES]
    if not queries or not path.is_file():
        return
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(database_uri(path), uri=True, timeout=0.05)) as database,
    ):
        for query in queries:
            yield from database.execute(query)


def database_uri(path: Path) -> str:
    """Return a URI that reads a service's database, and changes nothing beside it.

    The next service finds a damaged journal by its index, which nobody else may write.
    """
    journal = path.with_name(f"{path.name}-wal")
    has_journal = journal.exists() and journal.stat().st_size
    mode = "mode=ro&readonly_shm=1" if has_journal else "immutable=1"
    return f"file:{quote(str(path.absolute()))}?{mode}"


def _files(current: str) -> Words:
    paths = [path for path in glob.glob(f"{glob.escape(current)}*") if PLAIN.fullmatch(path)]
    return {f"{path}/" if os.path.isdir(path) else path: "" for path in sorted(paths)}


def _words() -> dict[str, Any]:
    """Return commands, settings and built-in workloads, from a file if the source is as it was."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "trainyard")
    path = folder / f"words{quote(str(ROOT), safe='')}.json"
    files = (file for name in SOURCES for file in (ROOT / name).rglob("*.py"))
    stamp = max(file.stat().st_mtime_ns for file in files)
    with suppress(OSError, ValueError):
        kept: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if kept["stamp"] == stamp:
            return kept
    make = pkgutil.resolve_name("pipelines.cli:words_to_complete")  # seconds, once
    words = {**make(), "stamp": stamp}
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(words), "utf-8")
        new.replace(path)
    return words


def print_script(shell: str) -> None:
    """Print a shell's script, and make the file of words, so that the first completion is fast."""
    _words()
    sys.stdout.write(SCRIPTS[shell])
