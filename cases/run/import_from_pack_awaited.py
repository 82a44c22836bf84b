import asyncio
from brave import search
await asyncio.gather(search("a"), search("b"))