"""Help for the models of tables: all inputs as one vector."""

from collections.abc import Mapping
from typing import Any

from trainer.runtime.lazy import layers
from trainer.workloads.models.wide_and_deep import sum_embeddings


def combine(inputs: Mapping[str, Any], *, embedding_size: int = 8) -> Any:
    """Return all inputs of a table's model side by side, float32 [batch, size].

    Categories become embeddings, tokens the sum of their embeddings divided by the root of their
    number, and numbers stay as they are.

    Args:
        inputs: the Keras inputs by name, the argument of a table's model.
        embedding_size: size of the embedding of a category or token.
    """
    parts = []
    for tensor in inputs.values():
        size = getattr(tensor, "num_categories", None)
        if size is None:
            parts.append(tensor)
        elif len(tensor.shape) == 1:
            parts.append(layers.Embedding(size, embedding_size)(tensor))
        else:
            parts.append(sum_embeddings(tensor, layers.Embedding(size, embedding_size)))
    return layers.concatenate(parts) if len(parts) > 1 else parts[0]
