"""The table of rules from the comments of the protos, and what becomes of each sentence."""

from collections import Counter
from pathlib import Path

from tools.proto_rules import table
from vertex_local.tests.support.request_table import ROWS

ROOT = Path(__file__).parents[2]


def test_the_table_is_what_the_comments_say():
    assert table.FILE.read_text() == table.text(), "it is stale: python -m tools.proto_rules"


def test_nearly_all_sentences_that_a_client_can_break_have_a_rule():
    counts = Counter(verdict.way for verdict in table.verdicts())
    ruled, broken = (sum(counts[way] for way in ways) for ways in (table.RULED, table.BROKEN))
    assert ruled / broken >= 0.95
    numbers = f"Of the {broken} sentences that a client can break, {ruled} have a rule"
    assert numbers in (ROOT / "vertex_local/README.md").read_text()


def test_a_rule_by_code_has_a_test_that_refuses_a_request():
    refused = {row.id for row in ROWS if str(row.answer).startswith("4")}
    for test in table.PERSONS["code"].values():
        path, _, name = test.partition("::")
        assert path in refused or f"def {name}(" in (ROOT / path).read_text()


def test_each_beginning_is_of_a_sentence():
    written = [one for ones in table.PERSONS["reasons"].values() for one in ones]
    texts = [verdict.sentence.text for verdict in table.verdicts()]
    for beginning in (*written, *table.PERSONS["code"]):
        assert any(text.startswith(beginning) for text in texts), beginning
