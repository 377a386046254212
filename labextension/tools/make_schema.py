"""Writes the JSON Schemas of a snapshot and of messages, from which the view's TypeScript types are made.

Run as `python labextension/tools/make_schema.py [FOLDER]`; without FOLDER it replaces `snapshot.schema.json` and
`messages.schema.json` in `labextension/src/view/model/`.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec

from nbdist.contract import page as messages
from nbdist.contract.snapshot import Snapshot

FOLDER = Path(__file__).parents[1] / "src" / "view" / "model"
# json-schema-to-typescript reads draft 7; msgspec writes 2020-12, which differs here only in
# how a list of fixed length is written.
DRAFT = "http://json-schema.org/draft-07/schema#"


def texts() -> dict[str, str]:
    """Each schema as JSON with a trailing newline, by the name of its file."""
    return {
        "snapshot.schema.json": _text(_schema(Snapshot)),
        "messages.schema.json": _text(_messages()),
    }


def _schema(kind: Any) -> dict[str, Any]:
    schema = msgspec.json.schema(kind)
    definitions = schema["$defs"]
    return {**definitions.pop(kind.__name__), "$defs": definitions}


def _messages() -> dict[str, Any]:
    """What goes to a page, and the union of what a page sends."""
    sent = [
        messages.Frame,
        messages.Values,
        messages.Outputs,
        messages.CellMode,
        messages.ViewTraits,
    ]
    definitions: dict[str, Any] = {}
    for kind in (*sent, *get_args(messages.Request)):
        schema = _schema(kind)
        definitions |= schema.pop("$defs", {})
        definitions[kind.__name__] = schema
    # Sections of a snapshot, whose types are in another file.
    definitions["Frame"]["properties"]["snapshot"] = {"tsType": "Partial<Snapshot>"}
    requests = [{"$ref": f"#/$defs/{one.__name__}"} for one in get_args(messages.Request)]
    definitions["Request"] = {"title": "Request", "oneOf": requests}
    every = [{"$ref": f"#/$defs/{name}"} for name in (*(one.__name__ for one in sent), "Request")]
    return {"title": "Message", "oneOf": every, "$defs": definitions}


def _text(schema: dict[str, Any]) -> str:
    return json.dumps({"$schema": DRAFT, **_draft_7(schema)}, indent=2, ensure_ascii=False) + "\n"


def _draft_7(schema: Any) -> Any:
    """The same schema in draft 7, objects closed and all their fields required."""
    if isinstance(schema, list):
        return [_draft_7(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    converted = {key: _draft_7(value) for key, value in schema.items() if key != "default"}
    # Python before 3.13 keeps the indentation of docstrings; versions of msgspec differ in the order of a union.
    if "description" in converted:
        converted["description"] = inspect.cleandoc(converted["description"])
    if "anyOf" in converted:
        converted["anyOf"].sort(key=lambda one: one.get("type") == "null")
    if "prefixItems" in converted:
        converted["items"] = converted.pop("prefixItems")
    if converted.get("type") == "object" and "properties" in converted:
        converted["additionalProperties"] = False
        # What `nbdist.contract.wire.encode` writes has every field, those with a default included.
        converted["required"] = list(converted["properties"])
    return converted


def main() -> None:
    """Writes into the folder named on the command line, or into the repository."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, text in texts().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
