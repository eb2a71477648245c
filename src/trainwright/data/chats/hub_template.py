"""Chat templates as transformers reads them: jinja that writes what our own templates write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from trainwright.core.files import Json
from trainwright.data.chats.chat_messages import ROLES
from trainwright.data.chats.chat_template import MARKS, ChatTemplate

_BODY: Final = (
    "{% set said = 'Tools:\\n' + (tools if tools is string else tools | tojson) if tools else '' %}"
    "{% set system = said and roles[messages[0].role] == 'system' %}"
    "{{ begin }}"
    "{% if said and not system %}{{ heads['system'] + said + end + between }}{% endif %}"
    "{% for message in messages %}{% set role = roles[message.role] %}"
    "{{ (between if not loop.first else '') + heads[role] + wraps[role][0] + message.content"
    " + ('\\n\\n' + said if loop.first and system else '') + wraps[role][1] + end }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ between + heads['assistant'] }}{% endif %}"
)


def write_jinja(template: ChatTemplate) -> str:
    """The template as `chat_template.jinja`: its own program, or ours as one."""
    if not isinstance(template.program, str):
        program = template.program
        named = {"bos_token": program.begin, "eos_token": program.end_of_text}
        return _write_constants(named) + program.source
    marks, roles = MARKS[template.name], sorted(set(ROLES.values()))
    constants = {
        "roles": dict(ROLES),
        "heads": {role: marks.head_of(role) for role in roles},
        "wraps": {role: marks.wraps.get(role, "{}").split("{}") for role in roles},
        "begin": marks.begin,
        "end": marks.end,
        "between": marks.between,
    }
    return _write_constants(constants) + _BODY


def _write_constants(values: Mapping[str, Json]) -> str:
    return "".join(f"{{% set {name} = {json.dumps(value)} %}}" for name, value in values.items())
