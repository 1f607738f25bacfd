"""standfast in a Flask application: `init_app(app, sf)`. docs/flask.md has a whole application."""

try:
    from standfast.flask.extension import current_standfast, init_app
except ModuleNotFoundError as error:
    needed = f"standfast.flask needs {error.name}; run: pip install 'standfast[flask]'"
    raise ModuleNotFoundError(needed, name=error.name) from None

__all__ = ["current_standfast", "init_app"]
