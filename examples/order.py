"""An order: a payment that is tried again, a pause, and a shipment as a child workflow.

Stop it at any moment, with Ctrl-C or `kill -9`, and start it again: the customer is charged once,
and what was done is not done again. A number on the command line names another order.
"""

import asyncio
import sys
from dataclasses import dataclass
from decimal import Decimal

from perdure import Engine, current, gather, sleep, step, workflow


@dataclass(frozen=True)
class Item:
    """What a customer wants."""

    name: str
    price: Decimal


@dataclass(frozen=True)
class Receipt:
    """What the customer gets."""

    order: str
    paid: Decimal
    parcels: list[str]


class CardDeclined(Exception):
    """Trying again would not help."""


def is_worth_another(error: BaseException) -> bool:
    """A network may recover, a declined card does not."""
    return not isinstance(error, CardDeclined)


@step(max_attempts=4, interval=0.2, retry_if=is_worth_another)
async def charge(amount: Decimal) -> Decimal:
    """Take the money. This payment provider answers at the third attempt only.

    The workflow's id goes along, so that the provider too takes the money once.
    """
    here = current()
    print(f"charging {amount} for {here.workflow_id}, attempt {here.attempt}")
    if here.attempt in {1, 2}:
        raise ConnectionError("the payment provider does not answer")
    return amount


@step
def pack(item: str) -> str:
    """A `def` step runs in a worker thread, so it may block."""
    return f"parcel with {item}"


@workflow
async def ship(items: list[str]) -> list[str]:
    """Each call takes its place in the history when it is built, so they may run together."""
    return await gather(*(pack(item) for item in items))


@workflow
async def order(items: list[Item]) -> Receipt:
    """Durable: after any death it goes on behind the last recorded step."""
    paid = await charge(sum((item.price for item in items), Decimal(0)))
    await sleep(seconds=1)  # the customer may change their mind; it could be days
    parcels = await ship([item.name for item in items])
    return Receipt(current().workflow_id or "", paid, parcels)


async def main() -> None:
    number = sys.argv[1] if len(sys.argv) > 1 else "1001"
    basket = [Item("kettle", Decimal("39.90")), Item("cup", Decimal("4.50"))]
    async with Engine("sqlite:///orders.db"):
        handle = await order.options(id=f"order-{number}").start(basket)
        receipt = await handle.result()
        print(f"{receipt.order}: paid {receipt.paid}, {' and '.join(receipt.parcels)}")


if __name__ == "__main__":
    asyncio.run(main())
