"""Start of a run: the champion, the files of the run's date, and whether there is news in them."""
