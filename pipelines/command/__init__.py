"""The commands of `trainyard`, a module for each subject."""
