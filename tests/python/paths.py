"""Where the repository is; importing this makes `ops` importable from any working directory."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


def golden(name: str) -> dict:
    """A golden file of tests/golden/chat."""
    return json.loads((ROOT / "tests/golden/chat" / name).read_text(encoding="utf-8"))
