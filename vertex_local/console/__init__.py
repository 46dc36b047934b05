"""The console: pages for people. Each page works without its script, which only refreshes it."""

from vertex_local.console import compare, endpoints, jobs, models, overview, runs, schedules

ROUTES = [
    view.route
    for module in (overview, runs, compare, jobs, models, endpoints, schedules)
    for view in module.VIEWS
]
