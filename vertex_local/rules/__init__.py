"""Rules of Vertex AI for which a client needs no service; they import nothing else of ours.

The wheel of trainyard-pipelines has this package, too: without vertex-local it is all that is here.
"""

from typing import Any

Json = dict[str, Any]
