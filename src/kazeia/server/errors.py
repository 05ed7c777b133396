"""Refusals in the shape that OpenAI's clients read.

{"error": {"message": …, "type": …, "param": …, "code": …}}
"""

from __future__ import annotations

import logging
import math
from typing import Any

from starlette.responses import JSONResponse

from kazeia.errors import (
    EngineClosedError,
    InputError,
    KazeiaError,
    LanguageError,
    MissingDependencyError,
    TextError,
    VoiceError,
)

log = logging.getLogger("kazeia.server")

INVALID = "invalid_request_error"


class ApiError(Exception):
    """A refusal: what the client is told, and with which status."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        kind: str = INVALID,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.kind = kind
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        """The JSON document."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        """The answer to a request."""
        return JSONResponse(self.body(), self.status, self.headers)


def unavailable(message: str, code: str, retry_after_s: float) -> ApiError:
    """A refusal for now: 503 with the seconds after which to try again."""
    wait = str(max(1, math.ceil(retry_after_s)))
    return ApiError(503, message, code=code, kind="server_error", headers={"Retry-After": wait})


def from_library(error: BaseException) -> ApiError:
    """The refusal for an error; what the client did not cause is logged, and told without details."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, TextError):
        # Well-formed, but nothing that can be said.
        return ApiError(422, str(error), code="unspeakable_text", param="input")
    if isinstance(error, VoiceError):
        return ApiError(400, str(error), code="voice_not_found", param="voice")
    if isinstance(error, LanguageError):
        return ApiError(400, str(error), code="language_not_found", param="language")
    if isinstance(error, InputError):
        return ApiError(400, str(error), code="invalid_value")
    if isinstance(error, EngineClosedError):
        return unavailable("the server is shutting down; try again later", "shutting_down", 10)
    if isinstance(error, MissingDependencyError):
        return ApiError(
            501,
            "this server lacks the package that encodes this format; ask for wav or pcm",
            code="format_not_installed",
            param="response_format",
            kind="server_error",
        )
    if isinstance(error, KazeiaError):
        log.error("%s", error)
        message = "speaking failed inside the server; its log says more"
        return ApiError(500, message, code="generation_failed", kind="server_error")
    log.error("an error that nobody expected", exc_info=error)
    message = "an error inside the server; its log says more"
    return ApiError(500, message, code="internal", kind="server_error")
