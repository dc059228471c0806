"""What turns blocks into text and pictures; it knows tables, figures and words alone."""
