"""The query parameter `updateMask`."""

from vertex_local.api.query.fields import camel_case
from vertex_local.api.routes import Call
from vertex_local.errors import invalid_argument


def update_mask(call: Call, allowed: tuple[str, ...]) -> list[str]:
    """Return the fields of `updateMask`, in camelCase.

    Raises:
        ApiError: INVALID_ARGUMENT if it is missing or names a field that cannot be changed.
    """
    mask = [camel_case(field.strip()) for field in call.query.get("updateMask", "").split(",")]
    for field in mask:
        if field not in allowed:
            raise invalid_argument(
                f'updateMask field "{field}" cannot be updated here; allowed are '
                f"{', '.join(allowed)}."
            )
    return mask
