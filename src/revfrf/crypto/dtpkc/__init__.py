"""DT-PKC, the paper's cryptosystem."""
