"""R, the average relative probability, of every set (CounterGen, section 2.1)."""
