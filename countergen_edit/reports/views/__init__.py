"""One view of each metric: its tables, figures and sentences, made of rows."""
