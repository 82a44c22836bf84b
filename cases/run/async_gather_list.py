import asyncio
tasks = [brave.search(query=str(i)) for i in range(3)]
await asyncio.gather(*tasks)