"""RevFRF: a vertical federated random forest whose participants can leave."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from revfrf.estimators import RevocableForestClassifier, RevocableForestRegressor

__version__ = "0.1.0.dev0"
__all__ = ["RevocableForestClassifier", "RevocableForestRegressor"]


def __getattr__(name: str) -> Any:
    """The estimators, when they are first asked for: worker processes do without scikit-learn and Numba."""
    if name in __all__:
        from revfrf import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'revfrf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
