"""Writes the JSON Schema of a snapshot, from which the view's TypeScript types are made.

Run as `python labextension/tools/make_schema.py [FILE]`; without FILE it replaces
`labextension/src/view/model/snapshot.schema.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from nbdist.contract.snapshot import Snapshot

TARGET = Path(__file__).parents[1] / "src" / "view" / "model" / "snapshot.schema.json"
# json-schema-to-typescript reads draft 7; pydantic writes 2020-12, which differs here only in
# how a list of fixed length is written.
DRAFT = "http://json-schema.org/draft-07/schema#"


class _WithoutFieldTitles(GenerateJsonSchema):
    """Leaves out the titles of fields: each would become a TypeScript type of its own."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Answers pydantic's question for every field."""
        return False


def schema_text() -> str:
    """The schema as JSON with a trailing newline; the same text for the same `snapshot.py`."""
    schema = TypeAdapter(Snapshot).json_schema(
        mode="serialization", schema_generator=_WithoutFieldTitles
    )
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
    """Writes the file named on the command line, or the one in the repository."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    target.write_text(schema_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
