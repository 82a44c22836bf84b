import asyncio
async def kind(path):
    return (await file.info(path=path))['type']
await asyncio.gather(kind('app'), kind('app/src'))