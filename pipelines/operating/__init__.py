"""Tools for whoever runs pipelines every night: facts of runs, differences, hints, alarms."""
