listing = await file.list(path='app')
(await file.info(path=listing['path']))['type']