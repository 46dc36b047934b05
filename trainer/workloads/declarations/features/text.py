"""The feature Text."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from trainer.workloads.declarations.features.base import Feature, check_positive
from trainer.workloads.declarations.storage import WORDS
from trainer.workloads.encoding.columns import Column, TableFacts
from trainer.workloads.encoding.lookups import (
    make_vocabulary,
    num_categories,
    number_terms,
    tokenize,
)


@dataclass(frozen=True)
class Text(Feature):
    """Words, stored as bytes; the model gets the sum of the tokens' embeddings, scaled.

    Attributes:
        max_tokens: the size of the vocabulary: the most frequent tokens of the train split, in
            lower case and without punctuation.
        min_count: how often a token of the vocabulary occurs at least.
        max_length: the tokens of a text that the model gets; further ones are left out.
    """

    _: KW_ONLY
    max_tokens: int = 10_000
    min_count: int = 2
    max_length: int = 100

    storage = WORDS
    is_spelled = False

    @property
    def num_listed(self) -> int:
        return self.max_tokens

    def check(self, features: Sequence[Feature]) -> None:
        super().check(features)
        check_positive(self, "max_tokens", "max_length")

    def columns(self, facts: TableFacts) -> list[Column]:
        terms = facts.vocabularies.get(self.name, [])
        tokens = self.column(
            "tokens",
            num_categories(len(terms)),
            compute=_number_tokens,
            vectors={"vocabularies": terms},
            shared={"max_length": self.max_length},
            length=self.max_length,
        )
        return [tokens]

    def learn(self, source: Any, *, has_edges: bool) -> dict[str, Any]:
        counts = source.tokens(self.name)
        terms = make_vocabulary(counts, max_terms=self.max_tokens, min_count=self.min_count)
        return {"vocabularies": terms}


def _number_tokens(texts: Any, *, vocabularies: Sequence[Sequence[str]], max_length: int) -> Any:
    return number_terms(tokenize(texts[:, 0], max_length=max_length), vocabularies=vocabularies)
