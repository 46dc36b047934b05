"""A trained model is served beside the step and asked, before anybody else can reach it."""
