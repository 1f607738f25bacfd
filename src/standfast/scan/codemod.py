"""`scan --fix`: rewrites that change only which tasks are kept and which errors are logged.

A task without a reference is kept until it ends, and an unseen error is logged. What runs, in which order, and what is
raised stay the same, so that a file still imports and its tests still pass. How work can survive the process is a
design decision, and is left to a person: the report says where.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import libcst as cst
from libcst.codemod import CodemodContext
from libcst.codemod.visitors import AddImportsVisitor
from libcst.metadata import MetadataWrapper, PositionProvider

from standfast.scan.code_finding import Finding
from standfast.scan.codemod_names import HelperNames, NamedHelper, names_in
from standfast.scan.known_names import CALLBACK_METHODS
from standfast.scan.scan_rules import DANGLING_TASK, DROPPED_FUTURE, LOST_GATHER, SWALLOWED_ERROR, UNREAD_GATHER

WRAPPED_BY = {
    DANGLING_TASK.id: "_keep_task",
    LOST_GATHER.id: "_keep_task",
    DROPPED_FUTURE.id: "_log_error_of",
    UNREAD_GATHER.id: "_log_errors_in",
}
"""The helper that a call, or the await around it, is passed to."""
WITHOUT_CALLBACKS = frozenset({"apply_async", "map_async", "starmap_async", "map"}) | (
    CALLBACK_METHODS.keys() - {"run_in_executor"}
)
"""Their results take no callback afterwards: left to a person, like `asyncio.wait`, which returns two sets of tasks."""

Span = tuple[int, int, int, int]
"""Line and column of the beginning and of the end. For an exception handler, the beginning twice."""


class Rewritten(NamedTuple):
    """A file after the rewrite, and the findings that it fixes."""

    source: bytes
    fixed: list[Finding]


def rewrite(source: bytes, findings: Iterable[Finding]) -> Rewritten:
    """Rewrite what is safe to rewrite, and leave the rest."""
    wanted = {_span(each): each for each in findings if _is_fixable(each)}
    wrapper = MetadataWrapper(cst.parse_module(source))
    changes = _Changes(wanted, HelperNames(wrapper))
    module = wrapper.visit(changes)
    if not changes.fixed:
        return Rewritten(source, [])
    return Rewritten(_with_helpers(module, changes.helpers).bytes, changes.fixed)


def _span(finding: Finding) -> Span:
    return finding.line, finding.column - 1, finding.last_line, finding.last_column - 1


def _is_fixable(finding: Finding) -> bool:
    return finding.rule in WRAPPED_BY or finding.rule == SWALLOWED_ERROR.id


class _Changes(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, wanted: dict[Span, Finding], names: HelperNames) -> None:
        super().__init__()
        self.wanted = wanted
        self.names = names
        self.fixed: list[Finding] = []
        self.helpers: dict[str, NamedHelper] = {}
        self.awaited: set[cst.BaseExpression] = set()

    def visit_Await(self, node: cst.Await) -> None:  # noqa: N802 - libcst's name
        """Remember what is awaited: the await is passed on, not the call in it."""
        self.awaited.add(node.expression)

    def leave_Await(self, original_node: cst.Await, updated_node: cst.Await) -> cst.BaseExpression:  # noqa: N802 - libcst's name
        """Pass an awaited value to its helper."""
        finding = None if _name_of(original_node.expression) == "wait" else self._found(original_node.expression)
        return updated_node if finding is None else self._wrap(finding, updated_node)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:  # noqa: N802 - libcst's name
        """Pass a value to its helper."""
        is_left = original_node in self.awaited or _name_of(original_node) in WITHOUT_CALLBACKS
        finding = None if is_left else self._found(original_node)
        return updated_node if finding is None else self._wrap(finding, updated_node)

    def leave_ExceptHandler(  # noqa: N802 - libcst's name
        self, original_node: cst.ExceptHandler, updated_node: cst.ExceptHandler
    ) -> cst.ExceptHandler:
        """Log a swallowed error."""
        finding = self._found(original_node)
        if finding is None:
            return updated_node
        body = _logged(updated_node.body, self.names.of("_log_swallowed").name)
        if body is None:
            return updated_node
        self._fix(finding, "_log_swallowed")
        return updated_node.with_changes(body=body)

    def _found(self, node: cst.CSTNode) -> Finding | None:
        """Return the finding for exactly this node: in a chain of calls, all calls begin at the same place."""
        place = self.get_metadata(PositionProvider, node)
        start = place.start.line, place.start.column
        if isinstance(node, cst.ExceptHandler):
            finding = self.wanted.get((*start, *start))
            return finding if finding is not None and finding.rule == SWALLOWED_ERROR.id else None
        finding = self.wanted.get((*start, place.end.line, place.end.column))
        is_call = isinstance(node, cst.Call) and finding is not None and finding.rule in WRAPPED_BY
        return finding if is_call else None

    def _wrap(self, finding: Finding, value: cst.BaseExpression) -> cst.BaseExpression:
        helper = self._fix(finding, WRAPPED_BY[finding.rule])
        return cst.Call(cst.Name(helper.name), [cst.Arg(value)])

    def _fix(self, finding: Finding, name: str) -> NamedHelper:
        self.fixed.append(finding)
        return self.helpers.setdefault(name, self.names.of(name))


def _name_of(expression: cst.BaseExpression) -> str:
    """Return the last part of a called name."""
    function = expression.func if isinstance(expression, cst.Call) else expression
    name = function.attr if isinstance(function, cst.Attribute) else function
    return name.value if isinstance(name, cst.Name) else ""


def _logged(body: cst.BaseSuite, log_swallowed: str) -> cst.BaseSuite | None:
    """Insert a log call before the body of a handler; a debug line is left as it is."""
    call = cst.Expr(cst.Call(cst.Name(log_swallowed)))
    if isinstance(body, cst.IndentedBlock):
        return _logged_block(body, call)
    if isinstance(body, cst.SimpleStatementSuite) and all(isinstance(each, cst.Pass) for each in body.body):
        return body.with_changes(body=[call])
    return None


def _logged_block(body: cst.IndentedBlock, call: cst.Expr) -> cst.BaseSuite:
    first = body.body[0]
    is_pass = isinstance(first, cst.SimpleStatementLine) and isinstance(first.body[0], cst.Pass)
    if is_pass and len(body.body) == 1 and isinstance(first, cst.SimpleStatementLine):
        return body.with_changes(body=[first.with_changes(body=[call])])
    return body.with_changes(body=[cst.SimpleStatementLine([call]), *body.body])


def _with_helpers(module: cst.Module, helpers: dict[str, NamedHelper]) -> cst.Module:
    """Put the helpers, and their imports, below the imports of the file."""
    missing = [helper for helper in helpers.values() if not helper.is_there]
    place = _after_imports(module, {helper.name for helper in helpers.values()})
    for helper in missing:
        module = _insert(module, helper, place)
    context = CodemodContext()
    for alias in sorted({helper.needs_logging_as for helper in missing if helper.needs_logging_as}):
        AddImportsVisitor.add_needed_import(context, "logging", asname=None if alias == "logging" else alias)
    return AddImportsVisitor(context).transform_module(module)


def _insert(module: cst.Module, helper: NamedHelper, place: int) -> cst.Module:
    statements = cst.parse_module(helper.source, config=module.config_for_parsing).body
    following = module.body[place : place + 1]
    inserted = [_set_apart(statements[0]), *statements[1:], *(_set_apart(each) for each in following)]
    return module.with_changes(body=[*module.body[:place], *inserted, *module.body[place + 1 :]])


def _set_apart(
    statement: cst.SimpleStatementLine | cst.BaseCompoundStatement,
) -> cst.SimpleStatementLine | cst.BaseCompoundStatement:
    """Put two empty lines before a statement."""
    lines = list(statement.leading_lines)
    while lines and lines[0].comment is None:
        lines.pop(0)
    return statement.with_changes(leading_lines=[cst.EmptyLine(indent=False), cst.EmptyLine(indent=False), *lines])


def _after_imports(module: cst.Module, helpers: set[str]) -> int:
    """Return the place below the imports, but above the first statement that may call a helper at import time."""
    place = 0
    for number, statement in enumerate(module.body):
        if helpers & names_in(statement):
            break
        if _is_import(statement):
            place = number + 1
        elif not _is_docstring(statement) and not isinstance(statement, cst.If | cst.Try):
            break
    if place == 0 and module.body and _is_docstring(module.body[0]):
        return 1
    return place


def _is_import(statement: cst.BaseStatement) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and all(
        isinstance(each, cst.Import | cst.ImportFrom) for each in statement.body
    )


def _is_docstring(statement: cst.BaseStatement) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine) or not isinstance(statement.body[0], cst.Expr):
        return False
    return isinstance(statement.body[0].value, cst.SimpleString | cst.ConcatenatedString)
