datetime.now().year > 2000, datetime.fromisoformat("2024-01-02").day
