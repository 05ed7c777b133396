"""The server: OpenAI's speech contract over HTTP. Needs `pip install "kazeia[server]"`."""

from kazeia.server.app import create_app
from kazeia.server.settings import ServerSettings

__all__ = ["ServerSettings", "create_app"]
