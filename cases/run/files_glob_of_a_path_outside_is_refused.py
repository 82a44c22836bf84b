from pathlib import Path
list(Path("/etc").glob("*"))
