"""trainingPipelines: custom jobs whose model is uploaded at their end."""
