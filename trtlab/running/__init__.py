"""`trtlab run`: stages, recipes, and what was done before."""
