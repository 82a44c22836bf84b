async def main():
    return demo.text()
main()