"""The schema of a reply: the type that a function says it returns, as its value comes back (a tuple as a list)."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, get_args, get_origin, get_type_hints

from helpers.checks.probes.codec import NotPlainDataError


@lru_cache
def schema_of(function: Callable[..., Any]) -> Any:
    """Return the type that a function returns; Any where it does not say one, and its callers take any plain data."""
    return get_type_hints(function).get("return", Any)


def fitting(value: Any, schema: Any) -> Any:
    """Return a value that has a schema, such as a function's, in all its parts.

    Raises:
        NotPlainDataError: it has not: somebody else answered.
    """
    from typeguard import CollectionCheckStrategy, TypeCheckError, check_type  # a tenth of a second, on this side only

    try:
        return check_type(_tuples(value, schema), schema, collection_check_strategy=CollectionCheckStrategy.ALL_ITEMS)
    except TypeCheckError as error:
        raise NotPlainDataError(f"the reply is none of this lab's: {str(error)[:200]}") from error


def _tuples(value: Any, schema: Any) -> Any:
    """Return a value with tuples where the schema has tuples of a fixed length: they came as lists."""
    parts = get_args(schema)
    if not isinstance(value, list) or get_origin(schema) not in (list, tuple):
        return value
    if get_origin(schema) is list:
        return [_tuples(item, parts[0]) for item in value]
    return tuple(map(_tuples, value, parts)) if len(value) == len(parts) else value
