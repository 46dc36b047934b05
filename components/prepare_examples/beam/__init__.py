"""What every pipeline needs of Beam: its options and its flags."""
