"""Optional packages that write what others read."""

from __future__ import annotations

import importlib
import logging
import warnings
from typing import Any

from hnfc.core.errors import UsageError


def needed(module: str, package: str, what: str) -> Any:
    """A module of an optional package, loaded without what it logs about itself. Raises UsageError where it is missing."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"{what} needs the package {package}, which cannot be loaded ({error}): pip install {package}") from None
    finally:
        logging.disable(before)
