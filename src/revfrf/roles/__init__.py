"""Who takes part: thin objects with keys, state and policy; the formulas are in the protocols."""
