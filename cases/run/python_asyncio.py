import asyncio
async def work(n):
    await asyncio.sleep(0.001)
    return n * 2
async def main():
    print(await asyncio.gather(*[work(i) for i in range(3)]))
    try:
        await asyncio.wait_for(asyncio.sleep(5), 0.01)
    except asyncio.TimeoutError:
        print("timeout")
asyncio.run(main())