"""RevFRF: a vertical federated random forest whose participants can leave."""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from revfrf.errors import AbsentError, RefusedError
    from revfrf.estimators._base import PartialAnswer
    from revfrf.estimators.forest import RevocableForestClassifier, RevocableForestRegressor
    from revfrf.io.public_key import load_verify_key, save_verify_key
    from revfrf.protocols.certificate import EventCertificate
    from revfrf.protocols.common.request import RequestPolicy

__version__ = "0.1.0.dev0"
__all__ = [
    "AbsentError",
    "EventCertificate",
    "PartialAnswer",
    "RefusedError",
    "RequestPolicy",
    "RevocableForestClassifier",
    "RevocableForestRegressor",
    "load_verify_key",
    "save_verify_key",
]

logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent unless the program wants to hear

_HOMES = {
    "AbsentError": "errors",
    "EventCertificate": "protocols.certificate",
    "PartialAnswer": "estimators._base",
    "RefusedError": "errors",
    "RequestPolicy": "protocols.common.request",
    "load_verify_key": "io.public_key",
    "save_verify_key": "io.public_key",
}


def __getattr__(name: str) -> Any:
    """What the package offers, when it is first asked for: worker processes do without scikit-learn."""
    if name in __all__:
        return getattr(import_module(f"revfrf.{_HOMES.get(name, 'estimators.forest')}"), name)
    raise AttributeError(f"module 'revfrf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
