from pathlib import Path
p = Path("app") / "src" / "main.py"
[p.exists(), p.read_text(), p.suffix, [str(x) for x in sorted(Path("app").rglob("*.py"))], Path("nope").exists()]