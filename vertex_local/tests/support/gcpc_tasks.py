"""Tasks of Google's pipeline components, as their launchers get them."""

from pathlib import Path

from kfp.local import executor_input_utils, placeholder_utils, utils

from vertex_local.tests.support.service import PROJECT_AND_LOCATION


def resolved_command(component, folder: Path, **arguments) -> list[str]:
    """Return the command line of a GCPC task, as kfp.local passes it to its handler."""
    spec = component.pipeline_spec
    [(name, component_spec)] = spec.components.items()
    executor = utils.struct_to_executor_spec(
        spec.deployment_spec["executors"][component_spec.executor_label]
    )
    executor_input = executor_input_utils.construct_executor_input(
        component_spec=component_spec,
        arguments=arguments,
        task_root=str(folder),
        block_input_artifact=False,
    )
    return placeholder_utils.replace_placeholders(
        full_command=[*executor.container.command, *executor.container.args],
        executor_input_dict=executor_input_utils.executor_input_to_dict(
            executor_input, component_spec
        ),
        pipeline_resource_name="run-1",
        task_resource_name=name,
        pipeline_root=str(folder),
        unique_pipeline_id="run-1",
    )


def resource(files: dict, output: str) -> str:
    [artifact] = files["executor_output.json"]["artifacts"][output]["artifacts"]
    return artifact["metadata"]["resourceName"]


def job_arguments(code: str) -> dict:
    container = {"image_uri": "any", "command": ["python", "-c", code], "args": []}
    pool = {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1}
    return {
        "display_name": "j",
        "worker_pool_specs": [{**pool, "container_spec": container}],
        "timeout": "60s",
        "labels": {"own": "yes"},
        "persistent_resource_id": "",
        **PROJECT_AND_LOCATION,
    }
