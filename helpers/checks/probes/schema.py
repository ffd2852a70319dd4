"""The schema of a reply: the type that a function says it returns, as its value comes back (a tuple as a list)."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, get_type_hints

from helpers.checks.probes.codec import NotPlainDataError


@lru_cache
def schema_of(function: Callable[..., Any]) -> Any:
    """Return the type that a function returns; Any where it does not say one, and its callers take any plain data."""
    return get_type_hints(function).get("return", Any)


def fitting(value: Any, function: Callable[..., Any]) -> Any:
    """Return the value of a reply that has the function's schema in all its parts.

    Raises:
        NotPlainDataError: it has not: somebody else answered.
    """
    from typeguard import CollectionCheckStrategy, TypeCheckError, check_type  # a tenth of a second, on this side only

    try:
        return check_type(value, schema_of(function), collection_check_strategy=CollectionCheckStrategy.ALL_ITEMS)
    except TypeCheckError as error:
        raise NotPlainDataError(f"the reply is none of this lab's: {str(error)[:200]}") from error
