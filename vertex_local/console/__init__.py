"""The console: pages for people. Each page works without its script, which only refreshes it."""

from vertex_local.console import compare, endpoints, jobs, models, runs, schedules
from vertex_local.console.web import route_of

MODULES = (runs, compare, jobs, models, endpoints, schedules)
ROUTES = [route_of(view) for module in MODULES for view in module.VIEWS]
