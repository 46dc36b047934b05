"""Plan of a run before its start: tasks, reasons, time, price, resources; the same on Vertex AI."""
