"""Mutation testing: are seeded mistakes in the source caught by the tests that execute them?

    .venv/bin/python -m tools.mutants record          # all tests, with the lines that each executes
    .venv/bin/python -m tools.mutants choose          # mistakes, spread over the packages by size
    .venv/bin/python -m tools.mutants try             # each against the tests that execute its line
    .venv/bin/python -m tools.mutants table           # caught and not, by package

`mutants.jsonl` beside this file has the mistakes, each with the test that caught it.
"""
