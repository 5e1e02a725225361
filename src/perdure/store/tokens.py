"""Which claims were tried before."""

from collections import OrderedDict

from perdure.model.ids import OwnerToken

_KEPT = 1024


class RecentTokens:
    """The tokens of the last claims: only one seen before can have rows already.

    No index finds rows by their token, so looking for them would cost each claim a walk over all
    PENDING rows. The answer of a claim can be lost only between a store and its caller.
    """

    def __init__(self) -> None:
        self._tokens: OrderedDict[OwnerToken, None] = OrderedDict()

    def note(self, token: OwnerToken) -> bool:
        """Remember the token; says whether it was used before."""
        known = token in self._tokens
        self._tokens[token] = None
        if len(self._tokens) > _KEPT:
            self._tokens.popitem(last=False)
        return known
