import asyncio
asyncio.sleep(0, "done")