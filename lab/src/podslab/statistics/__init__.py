"""Statistics of comparisons: learning curves of arms, speed-ups, and what a step is worth."""
