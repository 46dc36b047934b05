"""Running of Beam pipelines, and Beam's flags."""
