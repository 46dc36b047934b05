"""Files of rows: which parts they are cut into, and how a part is read."""
