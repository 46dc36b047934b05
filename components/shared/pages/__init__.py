"""HTML pages that work offline: their template, their parts, and the sections on an evaluation."""
