"""RevFRF: a vertical federated random forest whose participants can leave."""

from revfrf.estimators import RevocableForestClassifier, RevocableForestRegressor

__version__ = "0.1.0.dev0"
__all__ = ["RevocableForestClassifier", "RevocableForestRegressor"]
