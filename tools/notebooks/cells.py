"""Run the cells of a notebook in order, to its end or to the first that fails.

Usage: python cells.py NOTEBOOK RESULT; RESULT becomes `{"cells": N, "done": N, "error": "…"}`.
IPython executes them, so shell lines and magics are as in a notebook.
"""

import json
import re
import sys
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell

FILLED_IN = {"[your-project-id]": "notebooks", "[your-service-account]": "me@notebooks.iam"}


def main(notebook: Path, result: Path) -> None:
    """Run the notebook; write the result after every cell."""
    cells = json.loads(notebook.read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    InteractiveShell.enable_gui = lambda *_: None  # that `%matplotlib inline` calls
    shell = InteractiveShell.instance()
    shell.register_magic_function(lambda _line: None, magic_name="pip")
    for number, source in enumerate(map(filled_in, sources)):
        print(f"--- cell {number}", flush=True)
        outcome = shell.run_cell(source, store_history=True)
        error = outcome.error_before_exec or outcome.error_in_exec
        text = f"cell {number}: {type(error).__name__}: {error}" if error else ""
        done = number + (not error)
        result.write_text(json.dumps({"cells": len(sources), "done": done, "error": text}))
        if error:
            sys.exit(1)


def filled_in(source: str) -> str:
    """Return a cell with the names of the project and its account."""
    for blank, value in FILLED_IN.items():
        assignment = rf'^(\w+ = )"{re.escape(blank)}"'
        source = re.sub(assignment, rf'\1"{value}"', source, flags=re.MULTILINE)
    return source


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
