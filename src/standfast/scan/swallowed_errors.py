"""Network calls whose errors are swallowed, and suppress(Exception) around input and output."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from standfast.scan.caught_errors import is_broad
from standfast.scan.code_finding import Finding
from standfast.scan.codebase import own_nodes
from standfast.scan.file_view import FileView
from standfast.scan.known_names import HTTP_READS
from standfast.scan.parsed_module import Function
from standfast.scan.scan_rules import SUPPRESSED_ERROR, SWALLOWED_ERROR, Rank
from standfast.scan.value_use import is_logging, last_name

NETWORK_ERRORS = frozenset(
    {"RequestException", "HTTPError", "RequestError", "ClientError", "URLError", "TransportError"}
)
"""Errors that HTTP libraries raise for anything that can go wrong with a request."""
LOST_SENDS = frozenset(
    {"ConnectionError", "Timeout", "ConnectTimeout", "ReadTimeout", "TimeoutException", "ConnectError", "TimeoutError"}
    | {"OSError", "SMTPException", "NetworkError", "ClientConnectionError", "ClientConnectorError", "RedisError"}
)
"""Errors after which a sent message did not arrive. For a read, they are ordinary."""
QUIET = frozenset({"debug", "trace"})


def find(view: FileView) -> Iterator[Finding]:
    """Look at every try and every suppress."""
    for attempt in view.module.nodes(ast.Try):
        yield from _swallowed(attempt, view)
    for block in view.module.nodes(ast.With):
        yield from _suppressed(block, view)


def _swallowed(attempt: ast.Try, view: FileView) -> Iterator[Finding]:
    silent = [each for each in attempt.handlers if _is_silent(each, view)]
    if not silent or view.cleans_up(attempt) or _has_fallback(attempt, attempt.body, view):
        return
    broad = [each for each in silent if is_broad(each) or _catches(each, NETWORK_ERRORS)]
    call = view.io_calls.network(attempt.body, view.module, depth=1) if broad else None
    sent = view.io_calls.sends(attempt.body, view.module, depth=1)
    if sent is None and _stores_result(attempt.body):
        return
    handlers = broad or ([each for each in silent if _catches(each, LOST_SENDS)] if sent else [])
    if handlers and (call or sent):
        lost = f"If {call or sent} fails, {_how(handlers[0])} and it is not tried again."
        is_sent = sent is not None or _posts(attempt, view)
        yield view.finding(SWALLOWED_ERROR if is_sent else FAILED_READ, handlers[0], lost)


FAILED_READ = SWALLOWED_ERROR._replace(rank=Rank.NOTE)
"""A failed read loses no work."""


def _posts(attempt: ast.Try, view: FileView) -> bool:
    """Return whether the function makes a urllib request with a body or an explicit method."""
    function = view.module.function_of(attempt) or view.module.tree
    calls = [each for each in ast.walk(function) if isinstance(each, ast.Call)]
    requests = [each for each in calls if view.callee(each) in {"urllib.request.Request", "urllib.request.urlopen"}]
    return any(len(each.args) > 1 or _has_body(each) for each in requests)


def _has_body(call: ast.Call) -> bool:
    given = {each.arg: each.value for each in call.keywords}
    method = given.get("method")
    is_read = isinstance(method, ast.Constant) and str(method.value).lower() in HTTP_READS
    return "data" in given or (method is not None and not is_read)


def _stores_result(body: list[ast.stmt]) -> bool:
    """Return whether the result goes into an attribute or an item, which keeps its earlier value on failure."""
    nodes = (node for each in body for node in ast.walk(each))
    return any(isinstance(each, ast.Attribute | ast.Subscript) and isinstance(each.ctx, ast.Store) for each in nodes)


def _how(handler: ast.ExceptHandler) -> str:
    is_logged = any(isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) for each in handler.body)
    return "only a debug line says so" if is_logged else "nobody is told"


def _catches(handler: ast.ExceptHandler, errors: frozenset[str]) -> bool:
    if handler.type is None:
        return False
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(last_name(each) in errors for each in caught)


def _is_silent(handler: ast.ExceptHandler, view: FileView) -> bool:
    *before, last = handler.body
    is_end = _says_nothing(last) or (_returns_none(last) and not _answers(handler, view))
    return is_end and all(_says_nothing(statement) for statement in before)


def _returns_none(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Return) and isinstance(statement.value, ast.Constant) and not statement.value.value


def _answers(handler: ast.ExceptHandler, view: FileView) -> bool:
    """Return whether another path of the function returns something else: then None or False informs the caller."""
    function = view.module.function_of(handler)
    returns = [each for each in own_nodes(function) if isinstance(each, ast.Return)] if function else []
    return any(each.value is not None and not _returns_none(each) for each in returns)


def _says_nothing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Continue() | ast.Return(value=None):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call() as call):
            return is_logging(call, QUIET)
    return False


def _has_fallback(block: ast.stmt, body: list[ast.stmt], view: FileView) -> bool:
    """Return whether the code has another path if the block fails: its result is checked afterwards."""
    if _is_tried_again(block, view) or any(_leaves(node) for each in body for node in ast.walk(each)):
        return True
    function = view.module.function_of(block) or view.module.tree
    inside = [node for each in body for node in ast.walk(each)]
    bound = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    after = block.end_lineno or block.lineno
    reads = (node for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    return any(node.id in bound and node.lineno > after for node in reads)


def _is_tried_again(block: ast.stmt, view: FileView) -> bool:
    """Return whether a while loop repeats the block: polling loses nothing."""
    around = (each for each in view.module.ancestors(block) if isinstance(each, ast.While | ast.For | Function))
    return isinstance(next(around, None), ast.While)


def _leaves(node: ast.AST) -> bool:
    """Return whether success leaves the function or the loop, so that the code after it is for failure."""
    return isinstance(node, ast.Break | ast.Return | ast.Yield)


def _suppressed(block: ast.With, view: FileView) -> Iterator[Finding]:
    calls = [item.context_expr for item in block.items if isinstance(item.context_expr, ast.Call)]
    broad = [call for call in calls if _suppresses_everything(call, view)]
    if not broad or view.cleans_up(block) or _has_fallback(block, block.body, view):
        return
    io_calls = view.io_calls
    call = io_calls.network(block.body, view.module, depth=1) or io_calls.changes(block.body, view.module, depth=1)
    if call is not None:
        lost = f"If {call} fails, the error is suppressed: nobody is told and it is not tried again."
        yield view.finding(SUPPRESSED_ERROR, broad[0], lost)


def _suppresses_everything(call: ast.Call, view: FileView) -> bool:
    named: Iterable[str] = (last_name(each) for each in call.args)
    return view.callee(call) == "contextlib.suppress" and any(each in {"Exception", "BaseException"} for each in named)
