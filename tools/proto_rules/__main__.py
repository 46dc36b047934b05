"""Write the table of rules, and print what became of the sentences."""

from collections import Counter

from tools.proto_rules import table


def main() -> None:
    """Write the table and print the counts."""
    table.FILE.write_text(table.text())
    counts = Counter(verdict.way for verdict in table.verdicts())
    for way, count in counts.most_common():
        print(f"{count:4} {way}")
    broken, ruled = (sum(counts[way] for way in ways) for ways in (table.BROKEN, table.RULED))
    print(
        f"{ruled} of {broken} sentences that a client can break have a rule ({ruled / broken:.1%})"
    )
    for verdict in table.verdicts():
        if verdict.way == table.NO_RULE:
            print(f"{verdict.sentence.message}.{verdict.sentence.field}: {verdict.sentence.text}")


if __name__ == "__main__":
    main()
