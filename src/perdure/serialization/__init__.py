"""How values, arguments and errors become text in a row, and come back.

The rule every codec here keeps: what was stored decodes to an equal value of equal type at every
depth, or storing it is refused with the path of the offending part. Nothing here knows a database
or an engine, imports a module because a text names it, or reads a pickle unless told to.
"""

from perdure.serialization.arguments import ArgumentsCodec
from perdure.serialization.custom import Serializer
from perdure.serialization.failures import ErrorCodec
from perdure.serialization.hints import annotations_of
from perdure.serialization.registry import Serialization
from perdure.serialization.values import ValueCodec

__all__ = [
    "ArgumentsCodec",
    "ErrorCodec",
    "Serialization",
    "Serializer",
    "ValueCodec",
    "annotations_of",
]
