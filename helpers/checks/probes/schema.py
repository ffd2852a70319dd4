"""The schema of a reply: the return type of its function; tuples come back as lists."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, get_args, get_origin, get_type_hints

from helpers.checks.probes.codec import NotPlainDataError


@lru_cache
def schema_of(function: Callable[..., Any]) -> Any:
    """Return a function's return type; Any without an annotation: then its callers take any plain data."""
    return get_type_hints(function).get("return", Any)


def fitting(value: Any, schema: Any) -> Any:
    """Return a value if it fits a schema in all its parts.

    Raises:
        NotPlainDataError: it does not fit: something else than our probe answered.
    """
    from typeguard import CollectionCheckStrategy, TypeCheckError, check_type  # a tenth of a second, on this side only

    try:
        return check_type(_tuples(value, schema), schema, collection_check_strategy=CollectionCheckStrategy.ALL_ITEMS)
    except TypeCheckError as error:
        raise NotPlainDataError(f"the reply is not in this lab's form: {str(error)[:200]}") from error


def _tuples(value: Any, schema: Any) -> Any:
    """Return a value with tuples instead of lists where the schema has tuples of a fixed length."""
    parts = get_args(schema)
    if not isinstance(value, list) or get_origin(schema) not in (list, tuple):
        return value
    if get_origin(schema) is list:
        return [_tuples(item, parts[0]) for item in value]
    return tuple(map(_tuples, value, parts)) if len(value) == len(parts) else value
