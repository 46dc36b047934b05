"""Records of a model and of each of its versions; the model's has the aliases.

Pure functions, called within the store's transactions.
"""

from vertex_local import Json
from vertex_local.api.etags import etag_of
from vertex_local.api.fields import VERSIONS
from vertex_local.errors import failed_precondition, invalid_argument

DEFAULT_ALIAS = "default"
MODEL_FIELDS = ("displayName", "description")
EXPORTABLE = {
    "supportedExportFormats": [{"id": "custom-trained", "exportableContents": ["ARTIFACT"]}]
}
# Fields of an upload that the service sets, besides those that only responses have.
SET_FIELDS = ("name", "etag", "pipelineJob", "versionAliases", "artifactUri")


def new_record(name: str, *, folder: str, model: Json, time: str) -> Json:
    """Return a model without versions; `model` is the upload of the first version.

    The files of its versions are in ROOT/models/FOLDER. The folder is its id, unless a model of
    another project has the same id. `aliases` has the id of the version of each alias, and
    `versionLabels` the labels of the default version, by which the model is filtered.
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
        "aliases": {},
        "versionLabels": {},
    }


def next_version_id(record: Json) -> str:
    """Return the id of the next version; ids are never reused."""
    return str(record["lastVersion"] + 1)


def add_version(record: Json, *, model: Json, artifact_uri: str, time: str) -> Json:
    """Count the uploaded `model` as the newest version, with its aliases; return the version."""
    hidden = {*SET_FIELDS, *MODEL_FIELDS}
    version_id = next_version_id(record)
    version = {
        "name": version_name(record, version_id),
        **{field: value for field, value in model.items() if field not in hidden},
        "versionId": version_id,
        "versionCreateTime": time,
        "versionUpdateTime": time,
    }
    if artifact_uri:
        version["artifactUri"] = artifact_uri
    is_first = not record["aliases"]
    record.update(lastVersion=record["lastVersion"] + 1, updateTime=time)
    aliases = [*model.get("versionAliases", [])]
    if is_first:
        aliases.append(DEFAULT_ALIAS)
    move_aliases(record, version, aliases)
    return version


def version_name(record: Json, version_id: str) -> str:
    """Return the name of a version's record."""
    return f"{record['name']}/{VERSIONS}/{version_id}"


def move_aliases(record: Json, version: Json, aliases: list[str]) -> None:
    """Move aliases to a version from the versions that have them."""
    has = aliases_of(record, version)
    kept = {key: one for key, one in record["aliases"].items() if key in has or key not in aliases}
    record["aliases"] = kept | dict.fromkeys(aliases, version["versionId"])
    set_version_labels(record, version)


def set_version_labels(record: Json, version: Json) -> None:
    """Set the labels of the default version, by which its model is filtered, if it is this one."""
    if record["aliases"].get(DEFAULT_ALIAS) == version["versionId"]:
        record["versionLabels"] = version.get("labels", {})


def merge_aliases(record: Json, version: Json, changes: list[str]) -> None:
    """Apply changes: `golden` moves the alias here, `-golden` removes it; both do nothing."""
    removed = {change[1:] for change in changes if change.startswith("-")}
    added = [change for change in changes if not change.startswith("-")]
    if DEFAULT_ALIAS in removed - set(added):
        raise invalid_argument(
            'versionAliases: "-default" is not valid: a model always has one default version; '
            'add "default" to another version instead.'
        )
    move_aliases(record, version, [alias for alias in added if alias not in removed])
    for alias in set(aliases_of(record, version)) & (removed - set(added)):
        del record["aliases"][alias]


def remove_version(record: Json, version: Json, *, newest: Json | None) -> None:
    """Remove a version that is not the only one; `newest` is the newest of the others.

    "Deleting the only version in the Model is not allowed. Use DeleteModel" (ModelService's
    reference); deleting the default version hands its alias to the next most recent version
    (cloud.google.com/vertex-ai/docs/model-registry/model-alias).
    """
    if newest is None:
        raise failed_precondition(
            f"Version {version['versionId']} is the only one of {record['name']}; "
            "delete the model instead."
        )
    removed = aliases_of(record, version)
    for alias in removed:
        del record["aliases"][alias]
    if DEFAULT_ALIAS in removed:
        move_aliases(record, newest, [DEFAULT_ALIAS])


def aliases_of(record: Json, version: Json) -> list[str]:
    """Return the aliases of a version, in the order in which it got them."""
    aliases = record["aliases"].items()
    return [alias for alias, version_id in aliases if version_id == version["versionId"]]


def version_id_of(record: Json, reference: str) -> str:
    """Return the id of a version that is named by it or by an alias; of the default for ""."""
    return str(record["aliases"].get(reference or DEFAULT_ALIAS, reference))


def etag(record: Json, version: Json) -> str:
    """Return the etag of a version: of what updates change, not of aliases and other versions."""
    fields = (*MODEL_FIELDS, "labels", "versionDescription")
    return etag_of(*({field: part.get(field) for field in fields} for part in (record, version)))


def view(record: Json, version: Json) -> Json:
    """Return a version as `models.get` shows it, with the labels of model and version merged."""
    common = {field: record[field] for field in MODEL_FIELDS if field in record}
    labels = record["labels"] | version.get("labels", {})
    shown = {
        **version,
        "name": record["name"],
        **common,
        "versionAliases": aliases_of(record, version),
        "createTime": record["createTime"],
        "updateTime": record["updateTime"],
        "etag": etag(record, version),
        "supportedDeploymentResourcesTypes": ["DEDICATED_RESOURCES"],
    }
    if labels:
        shown["labels"] = labels
    if "artifactUri" in version:
        shown |= EXPORTABLE
    return shown
