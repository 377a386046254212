"""Writes the JSON Schemas of a snapshot and of messages, from which the view's TypeScript types are made.

Run as `python labextension/tools/make_schema.py [FOLDER]`; without FOLDER it replaces `snapshot.schema.json` and
`messages.schema.json` in `labextension/src/view/model/`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from nbdist.contract import page as messages
from nbdist.contract.snapshot import Snapshot

FOLDER = Path(__file__).parents[1] / "src" / "view" / "model"
# json-schema-to-typescript reads draft 7; pydantic writes 2020-12, which differs here only in
# how a list of fixed length is written.
DRAFT = "http://json-schema.org/draft-07/schema#"


class _WithoutFieldTitles(GenerateJsonSchema):
    """Leaves out the titles of fields: each would become a TypeScript type of its own."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Answers pydantic's question for every field."""
        return False


def texts() -> dict[str, str]:
    """Each schema as JSON with a trailing newline, by the name of its file."""
    return {
        "snapshot.schema.json": _text(_schema(Snapshot)),
        "messages.schema.json": _text(_messages()),
    }


def _schema(kind: Any) -> dict[str, Any]:
    return TypeAdapter(kind).json_schema(mode="serialization", schema_generator=_WithoutFieldTitles)


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
