"""The page at `/`: plain files of this package, read once."""

from __future__ import annotations

import hashlib
from functools import partial
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript"}


def page_routes() -> list[Route]:
    """The page and its files. Only names that were found at the start exist, so no path leads elsewhere."""
    folder = files("kazeia.server") / "static"
    found = {
        file.name: (file.read_bytes(), _TYPES[suffix])
        for file in folder.iterdir()
        if (suffix := f".{file.name.rpartition('.')[2]}") in _TYPES
    }
    return [
        Route("/", partial(_file, found, "index.html"), methods=["GET"]),
        Route("/static/{name}", partial(_file, found, None), methods=["GET"]),
    ]


async def _file(found: dict[str, tuple[bytes, str]], name: str | None, request: Request) -> Response:
    body, media_type = found.get(name or request.path_params["name"], (None, None))
    if body is None:
        raise HTTPException(404)
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=media_type, headers=headers)
