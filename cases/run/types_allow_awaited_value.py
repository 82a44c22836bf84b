listing = await file.list(path='app', details=True)
(await file.info(path=listing['path']))['type']