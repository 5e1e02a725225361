"""Options that several commands have in common, written once."""

from collections.abc import Callable
from inspect import Signature, signature
from typing import Any, TypeVar

T = TypeVar("T")


def sharing(
    shared: Callable[..., Any], *, last: bool = False
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Give a function the parameters of `shared` as well; what that returns is its first argument.

    They come before the function's own, or behind them if `last`. A function that shares twice has
    what the outer one returns as its second argument. The parser sees one function with all of the
    parameters, and calls it by their names.
    """
    common = signature(shared).parameters

    def share(function: Callable[..., T]) -> Callable[..., T]:
        own = list(signature(function).parameters.values())[1:]
        both = [*own, *common.values()] if last else [*common.values(), *own]
        every = sorted(both, key=lambda parameter: parameter.kind)

        def called(*outer: Any, **given: Any) -> T:
            first = shared(**{name: given.pop(name) for name in common})
            return function(first, *outer, **given)

        called.__name__, called.__doc__ = function.__name__, function.__doc__
        called.__annotations__ = {each.name: each.annotation for each in every}
        called.__signature__ = Signature(every)  # type: ignore[attr-defined]
        return called

    return share
