"""Programs for the project's developers, which no user needs."""
