"""Output of commands about runs: live and at the end, as tables, and what to try next."""
