"""RevFRF: a vertical federated random forest whose participants can leave."""

__version__ = "0.1.0.dev0"
