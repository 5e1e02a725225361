"""Two queues: files of which two at a time are converted, and mails of which none is sent twice.

Run it twice: the second run prints the recorded results at once.
"""

import asyncio

from perdure import DedupPolicy, Engine, Queue, gather, sleep, step, workflow

media = Queue("media", worker_concurrency=2)  # at most two at a time in this process
mail = Queue("mail", priority_enabled=False)


@step
async def transcode(file: str) -> str:
    print(f"transcoding {file}")
    await asyncio.sleep(0.2)
    return f"{file}.mp4"


@workflow
async def convert(file: str) -> str:
    return await transcode(file)


@step
def deliver(address: str) -> str:
    print(f"a mail to {address}")
    return f"mail to {address}"


@workflow
async def tell(address: str) -> str:
    await sleep(seconds=0.5)  # what else happens meanwhile is told by the same mail
    return await deliver(address)


@workflow
async def tell_all(addresses: list[str]) -> list[str]:
    """While a mail to an address waits or is on its way, another call for it joins that one."""
    handles = [
        await tell.options(
            queue=mail, dedup_id=address, dedup_policy=DedupPolicy.RETURN_EXISTING
        ).start(address)
        for address in addresses
    ]
    return await gather(*(handle.result() for handle in handles))


async def main() -> None:
    files = ["intro", "talk", "outro"]
    async with Engine("sqlite:///queues.db", queues=[media, mail]):
        told = await tell_all.options(id="tell-1").start(["ada", "bob", "ada"])
        converted = await convert.options(queue=media).start_many(
            [(file,) for file in files], ids=[f"convert-{file}" for file in files]
        )
        print(*[await handle.result() for handle in converted], *await told.result(), sep=", ")


asyncio.run(main())
