import asyncio
await asyncio.gather(brave.search(query='a'), context7.search(query='b'))