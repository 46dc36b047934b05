"""Record of a model: common fields, versions, and their aliases.

Pure functions, called within the store's transactions.
"""

import re

from vertex_local import Json
from vertex_local.api.etags import etag_of
from vertex_local.errors import failed_precondition, invalid_argument, not_found

DEFAULT_ALIAS = "default"
# Model.version_aliases: "The format is [a-z][a-zA-Z0-9-]{0,126}[a-z0-9]".
ALIAS = re.compile(r"[a-z][a-zA-Z0-9-]{0,126}[a-z0-9]")
MODEL_FIELDS = ("displayName", "description")
EXPORTABLE = {
    "supportedExportFormats": [{"id": "custom-trained", "exportableContents": ["ARTIFACT"]}]
}
# Fields of an upload that the service sets, besides those that only responses have.
SET_FIELDS = ("name", "etag", "pipelineJob", "versionAliases", "artifactUri")


def new_record(name: str, *, folder: str, model: Json, time: str) -> Json:
    """Return a model without versions; `model` is the upload of the first version.

    Its versions are in ROOT/models/FOLDER. The folder is its id, unless a model of another project
    has the same id.
    """
    common = {field: model[field] for field in MODEL_FIELDS if field in model}
    return {
        "name": name,
        "folder": folder,
        **common,
        "labels": {},
        "createTime": time,
        "updateTime": time,
        "lastVersion": 0,
        "versions": [],
    }


def next_version_id(record: Json) -> str:
    """Return the id of the next version; ids are never reused."""
    return str(record["lastVersion"] + 1)


def add_version(record: Json, *, model: Json, artifact_uri: str, time: str) -> Json:
    """Append the uploaded `model` as the newest version, with its aliases; return the version."""
    hidden = {*SET_FIELDS, *MODEL_FIELDS}
    version = {field: value for field, value in model.items() if field not in hidden}
    version.update(
        versionId=next_version_id(record), versionCreateTime=time, versionUpdateTime=time
    )
    if artifact_uri:
        version["artifactUri"] = artifact_uri
    is_first = not record["versions"]
    record["lastVersion"] += 1
    record["versions"].append({**version, "versionAliases": []})
    aliases = [*model.get("versionAliases", []), *([DEFAULT_ALIAS] if is_first else [])]
    move_aliases(record, record["versions"][-1], aliases)
    record["updateTime"] = time
    added: Json = record["versions"][-1]
    return added


def check_aliases(aliases: list[str]) -> None:
    """Raise INVALID_ARGUMENT for an alias that Vertex AI does not allow."""
    for alias in aliases:
        if not ALIAS.fullmatch(alias):
            raise invalid_argument(
                f'versionAliases: "{alias}" is not valid; it must match {ALIAS.pattern}.'
            )


def move_aliases(record: Json, version: Json, aliases: list[str]) -> None:
    """Move aliases to a version from the versions that have them."""
    check_aliases(aliases)
    for other in record["versions"]:
        if other is not version:
            other["versionAliases"] = [a for a in other["versionAliases"] if a not in aliases]
    version["versionAliases"] = list(dict.fromkeys([*version["versionAliases"], *aliases]))


def merge_aliases(record: Json, version: Json, changes: list[str]) -> None:
    """Apply changes: `golden` moves the alias here, `-golden` removes it; both do nothing."""
    removed = {change[1:] for change in changes if change.startswith("-")}
    added = [change for change in changes if not change.startswith("-")]
    check_aliases(sorted(removed))
    if DEFAULT_ALIAS in removed - set(added):
        raise invalid_argument(
            'versionAliases: "-default" is not valid: a model always has one default version; '
            'add "default" to another version instead.'
        )
    move_aliases(record, version, [alias for alias in added if alias not in removed])
    version["versionAliases"] = [
        a for a in version["versionAliases"] if a not in removed or a in added
    ]


def remove_version(record: Json, version: Json) -> None:
    """Remove a version that is not the only one.

    "Deleting the only version in the Model is not allowed. Use DeleteModel" (ModelService's
    reference); deleting the default version hands its alias to the next most recent version
    (cloud.google.com/vertex-ai/docs/model-registry/model-alias).
    """
    if len(record["versions"]) == 1:
        raise failed_precondition(
            f"Version {version['versionId']} is the only one of {record['name']}; "
            "delete the model instead."
        )
    record["versions"] = [v for v in record["versions"] if v is not version]
    if DEFAULT_ALIAS in version["versionAliases"]:
        move_aliases(record, record["versions"][-1], [DEFAULT_ALIAS])


def find_version(record: Json, reference: str) -> Json:
    """Return the version of an id or an alias; the default version for "".

    Raises:
        ApiError: NOT_FOUND.
    """
    reference = reference or DEFAULT_ALIAS
    for version in record["versions"]:
        if version["versionId"] == reference or reference in version["versionAliases"]:
            found: Json = version
            return found
    raise not_found(f"{record['name']}@{reference}")


def etag(record: Json, version: Json) -> str:
    """Return a text that changes with the version or its model's common fields."""
    return etag_of({**record, "versions": []}, version)


def view(record: Json, version: Json) -> Json:
    """Return a version as `models.get` shows it, with the labels of model and version merged."""
    common = {field: record[field] for field in MODEL_FIELDS if field in record}
    labels = {**record["labels"], **version.get("labels", {})}
    return {
        "name": record["name"],
        **common,
        **version,
        **({"labels": labels} if labels else {}),
        "createTime": record["createTime"],
        "updateTime": record["updateTime"],
        "etag": etag(record, version),
        "supportedDeploymentResourcesTypes": ["DEDICATED_RESOURCES"],
        **(EXPORTABLE if "artifactUri" in version else {}),
    }
