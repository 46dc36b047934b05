"""Side by side with what a user would run instead; `make bench` runs them all."""
