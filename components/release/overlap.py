"""Comparison with a default version that changed while a run trained and evaluated its model."""

import logging
from collections.abc import Callable

from components.errors import StepError
from components.evaluate.thresholds import Judgement
from components.model_version.champion import Champion, champion_of
from components.model_version.decisions import stop_of
from components.model_version.registry import list_versions, version_name
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import MODEL_LABEL, REJECTED, WAITING
from components.shared.vertex.resource_name import ResourceName

logger = logging.getLogger(__name__)

Judge = Callable[[Champion], Judgement]


class Contest:
    """A version's claim to replace the default version, renewed whenever the default changes.

    Another run may promote a version, or a person may roll back, after this run was evaluated: its
    comparison with the default of that moment says nothing about the present one. A person may also
    hold the model or reject the version; `lifts_rejection` if that person is the same.

    Attributes:
        api, version: The service and the version.
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
        lifts_rejection: bool = False,
    ) -> None:
        self.champion = champion
        self.reasons = reasons
        self.api = api
        self.version = version
        self._judge = judge
        self._lifts_rejection = lifts_rejection

    def check(self) -> None:
        """Compare the model with the present default version, unless it was compared with it.

        Raises:
            StepError: The default version has changed, and the model does not pass beside it; or a
                person holds the model or rejected this version.
        """
        while default := self._rival():
            self._compare(default)

    def confirm(self) -> None:
        """Check that nothing has changed since `check`, and the version was labelled as promoted.

        Raises:
            StepError: The default version has changed, or a person has decided otherwise.
        """
        self._lifts_rejection = False  # by the label; a rejection is a later one
        if default := self._rival():
            number = ResourceName.from_version_name(default.version).version
            raise StepError(
                f"version {number} became the default in the moment of this version's promotion;"
                " start the run again to compare them"
            )

    def _rival(self) -> Champion | None:
        """Return the present default version if the model was not compared with it."""
        versions = list_versions(self.api, self.version.unversioned)
        ours = [v.get("labels", {}) for v in versions if version_name(v) == self.version]
        stop = stop_of(versions, ours[0].get(MODEL_LABEL, "") if ours else "")
        is_lifted = self._lifts_rejection and stop.startswith(REJECTED)
        if stop and not stop.startswith(WAITING) and not is_lifted:
            raise StepError(f"not promoted, {stop}")
        default = champion_of(versions)
        is_known = default.version in ("", self.champion, self.version.name)
        return None if is_known else default

    def _compare(self, default: Champion) -> None:
        number = ResourceName.from_version_name(default.version).version
        logger.warning(
            "version %s became the default since the evaluation: the model is compared with it",
            number,
        )
        judgement = self._judge(default)
        self.champion, self.reasons = default.version, "\n".join(judgement.reasons)
        if not judgement.is_passed:
            raise StepError(
                f"version {number} became the default since the evaluation and stays it: "
                + "; ".join(judgement.reasons)
            )
