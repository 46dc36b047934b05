"""Facts of a run for people: the metadata of its artifact `summary`.

Any pipeline may write such an artifact; README.md, "What the console reads", has the names.
"""

from vertex_local import Json

ARTIFACT = "summary"


def run_context(events: list[Json]) -> Json:
    """Return the `jobDetail` of an ended run, with its facts in the context; {} without any."""
    ends = [event for event in events if event["event"] == "task_ended"]
    for event in reversed(ends):
        for artifact in event["output_artifacts"].get(ARTIFACT, []):
            facts = {
                key: value
                for key, value in artifact.get("metadata", {}).items()
                if isinstance(value, str | int | float) and not isinstance(value, bool)
            }
            facts["summary_uri"] = artifact["uri"]
            return {"jobDetail": {"pipelineRunContext": {"metadata": facts}}}
    return {}
