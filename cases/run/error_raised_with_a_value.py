raise ValueError({'path': file.info(path='app')['path']})
