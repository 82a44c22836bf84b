import asyncio

class Base:
    pass

class Doubler(Base):
    async def twice(self, n):
        return 2 * n

d = Doubler()
asyncio.gather(d.twice(1), d.twice(2))
