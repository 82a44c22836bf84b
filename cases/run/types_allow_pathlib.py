from pathlib import Path
ot.version()
file.info(path=Path('app') / 'src')['type']