"""Long counts of what reliability promises: kills, full disks, damaged files, hostile requests."""
