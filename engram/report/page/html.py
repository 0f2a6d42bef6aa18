"""The page's file: template, style, scripts and data in one, closed to anything from outside."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

PAGE_SCRIPTS = (
    "dom", "charts", "figures", "tables", "studies", "papers", "paired", "compare", "memory", "tuning", "streams",
    "classes", "sections", "details", "page",
)  # fmt: skip
"""In the order in which they need each other."""


@cache
def asset(name: str) -> str:
    return resources.files("engram.report.page").joinpath("assets", name).read_text(encoding="utf-8")


def html(data: Mapping[str, Any]) -> str:
    """The whole page. What comes from records is data alone: it cannot end its script tag, and is never markup."""
    style = "\n" + asset("style.css")
    script = "\n".join(['\n"use strict";', "(() => {", *(asset(f"{name}.js") for name in PAGE_SCRIPTS), "})();\n"])
    parts = {"policy": policy(style, script, live=bool(data.get("live"))), "style": style, "script": script}
    page = asset("template.html")
    for name, text in {**parts, "data": embedded(data)}.items():
        page = page.replace(f"@{name}@", text)
    return page


def embedded(data: Mapping[str, Any]) -> str:
    """JSON that means nothing to an HTML parser, nor to the template."""
    text = json_text(data)
    for sign in "<>&@":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def json_text(data: Mapping[str, Any]) -> str:
    return json.dumps(data, allow_nan=False, separators=(",", ":"))


def policy(style: str, script: str, live: bool) -> str:
    """What the page may do: run its own script, draw its own pictures, and, served, ask its server for news."""
    return "; ".join(
        [
            "default-src 'none'",
            f"style-src {content_policy_hash(style)}",
            f"script-src {content_policy_hash(script)}",
            "img-src data:",
            "connect-src 'self'" if live else "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def content_policy_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
