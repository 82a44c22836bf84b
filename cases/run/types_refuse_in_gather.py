import asyncio
n = 1 + 1
await asyncio.gather(file.info('app'), file.info(n))