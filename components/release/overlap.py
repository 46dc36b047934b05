"""Comparison with a default version that changed while a run trained and evaluated its model."""

import logging
from collections.abc import Callable

from components.errors import StepError
from components.evaluate.thresholds import Judgement
from components.model_version.champion import Champion, default_champion
from components.shared.vertex.api import VertexApi
from components.shared.vertex.resource_name import ResourceName

logger = logging.getLogger(__name__)

Judge = Callable[[Champion], Judgement]


class Contest:
    """A version's claim to replace the default version, renewed whenever the default changes.

    Another run may promote a version, or a person may roll back, after this run was evaluated: its
    comparison with the default of that moment says nothing about the present one.

    Attributes:
        champion: Resource name of the version that the model was last compared with, "" for none.
        reasons: Reasons of the verdict of that comparison, a line each.
    """

    def __init__(
        self,
        api: VertexApi,
        version: ResourceName,
        *,
        champion: str,
        reasons: str,
        judge: Judge,
    ) -> None:
        self.champion = champion
        self.reasons = reasons
        self._api = api
        self._version = version
        self._judge = judge

    def check(self) -> None:
        """Compare the model with the present default version, unless it was compared with it.

        Raises:
            StepError: The default version has changed, and the model does not pass beside it.
        """
        while True:
            default = default_champion(self._api, self._version.unversioned)
            if default.version in ("", self.champion, self._version.name):
                return
            self._compare(default)

    def _compare(self, default: Champion) -> None:
        number = ResourceName.from_version_name(default.version).version
        logger.warning(
            "version %s became the default during this run: the model is compared with it", number
        )
        judgement = self._judge(default)
        self.champion, self.reasons = default.version, "\n".join(judgement.reasons)
        if not judgement.is_passed:
            raise StepError(
                f"version {number} became the default during this run and stays it: "
                + "; ".join(judgement.reasons)
            )
