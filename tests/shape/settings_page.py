"""Write docs/settings.md from the docstrings of the rules: `python tests/shape/settings_page.py > docs/settings.md`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from standfast.profiles import PROFILES
from standfast.rules import DEFAULTS, Backoff, Breaker

RULES = Path(__file__).parents[2] / "src/standfast/rules.py"

HEAD = """# Settings

Arguments (`Standfast(url)`, `--url`) override the environment, which overrides `standfast.toml`, which overrides the
defaults. For the rules of a queue it is the other way round: `[queues.NAME]` overrides `sf.queue("NAME", …)`, rule by
rule, because the file belongs to the operator and the code has only the program's defaults. What is overridden is
logged once. Below both comes the queue's ready-made profile, if its name has one, then the default. `standfast config`
prints every setting with its source: `argument`, `environment`, `file` or `default`; and `store` for a `replay` that
another process published. Of a queue it prints only the rules that the file names, because the code may declare others:
`standfast queue list --json` prints the rules in force.

Rules live in the store, and every process uses them. Processes that work or serve publish them: an application that
enqueues, `standfast worker`, `standfast serve`, `standfast mcp`, and `standfast run` and `submit` with `APP:SF`. All
other commands publish nothing, whatever file lies in their directory. A process that has the code of a queue
(`sf.queue` or a handler) publishes that code with its file on top; a rule that is removed from the file falls back to
the code. A process without the code publishes only the rules that its file names, and leaves all others as they were.
What one file names also overrides the code of processes that read another file. Two live processes that disagree are an
issue in `health`.

| variable | meaning | default |
|---|---|---|
| `STANDFAST_URL` | the store: `queue.db`, `sqlite:///rel.db`, `sqlite:////abs.db`, `:memory:` | `standfast.db` |
| `STANDFAST_CONFIG` | the settings file | `standfast.toml`, if it exists |
| `STANDFAST_SPOOL` | the file for jobs while PostgreSQL is away; or `off` | a file in `$XDG_STATE_HOME/standfast` |
| `STANDFAST_POLICY` | the [policy](policy.md): rules for dead letters | `standfast-policy.yaml`, if it exists |
| `STANDFAST_LOG` | `text` or `json` | `text` on a terminal, else `json` |
| `STANDFAST_LOG_LEVEL` | `debug`, `info`, `warning` or `error`, for [your own lines](failures.md#logs) too | `info` |
| `STANDFAST_OTEL` | `1` [traces](tracing.md) every enqueue and attempt with OpenTelemetry | `0` |

`[store]` of the file takes `url`, `spool` (a file's name, or `false`: then a call that finds PostgreSQL away gets
`StoreUnavailable`, or its `otherwise=` is called), `strict_queues` (refuse an undeclared queue; default `false`),
`audit_file` (where the heads of the audit chain of a store on PostgreSQL are noted; a database file has its own beside
it), `approval_ttl` (how long an approval waits for its answer, such as `"12h"`; default a day), `keep_inbox` (how long
a [message](sessions.md) is kept that was read; default seven days), `consent_lifetime` (how long a consent lives at
most; default 30 days), `replay` (what follows an [unknown outcome](effects.md) of a handler that has no `replay=` of
its own: `"replay"`, the default, repeats it; `"manual"` leaves it to a person; `"verify_first"` looks at its effects,
and refuses at its registration a handler that declares none; see [below](#the-default-replay-mode))
and `otel` (the same as `STANDFAST_OTEL`).
`[server]` takes `hosts`: the names the
[server](rest.md) answers to, beside the loopback's, and `readers`: how many [live views](notices.md) it serves at once
(default 500); `connections` (1000) and `connections_per_address` (250), its [limits](rest.md#limits);
`session_idle` (`"1h"`) and `session_lifetime` (`"12h"`), after which a
[browser](dashboard.md#signing-in) is signed out.
`metrics = "loopback"` opens [`/metrics`](alerts.md#metrics) to the server's own host without a token.
`viewer_payloads = false` leaves payloads, results and receipts out of everything that viewers are shown (default
`true`: they see them [without secrets](rest.md#what-is-hidden)).
`elicitation = false` has no MCP client [ask its user](sessions.md#who-answers) for consent (default `true`).
`[notify]` says [where alerts go](sessions.md#alerts), with `pain` where [pain signals](alerts.md#pain-signals) go, and
who [subscribes to notices](notices.md#webhooks). `[groups]` names the groups of each person, such as
`bea = ["platform-governance"]`: who may approve what. `[redact] keys = ["iban"]` names further keys whose values are
hidden wherever secrets are. Both are published in the store by workers, servers and applications, replace what was
published before, and hold for every process that opens the store later; commands publish nothing. `[commands.NAME]` is
a program that does a queue's work ([commands](commands.md)), `[ingest.NAME]` a source of webhooks
([ingest](ingest.md)).

## The default replay mode

`[store] replay` is published, so that it holds for processes whose own file names none. A process that has handlers
publishes what its file names; producers and processes that only serve publish nothing of it. The last one that named
it counts. A worker whose file names none takes it from the store when it starts, and looks again every ten seconds:
its handlers are declared anew, and its next claims follow the new mode. With a published `"verify_first"`, a handler
without effects is `"manual"`. `health` says when the files of two live processes name different modes.

The store keeps the mode when the line is deleted from the file. To take it back, write `replay = "replay"` and restart
the process; then the line may go. A mode that this version does not know holds as `"manual"`, with a warning in the
log.

## Queues

`sf.queue("name", …)` in code, or `[queues.name]` in the file. A second `sf.queue("name", …)` changes only the rules
that it names. Durations are seconds, or text such as `"90s"`, `"15m"`, `"2h"`, `"7d"`.

Eleven names have a profile, that is, other defaults that suit their purpose (`standfast queue list --profiles` prints
the numbers, `standfast/profiles.py` has the reasons). Use another name if you want the plain defaults: PROFILED.

| setting | default | meaning |
|---|---|---|
"""


def documented() -> Iterator[tuple[str, str]]:
    """Give each field of QueueRules with the sentence under it."""
    tree = ast.parse(RULES.read_text())
    rules = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "QueueRules")
    for field, below in zip(rules.body, rules.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            value = below.value if isinstance(below, ast.Expr) else None
            said = value.value if isinstance(value, ast.Constant) else ""
            yield field.target.id, " ".join(str(said).split())


def shown(value: object) -> str:
    """Write a default as a user would."""
    if isinstance(value, Backoff):
        return f"`exponential(base={value.base:g}, cap={value.cap:g})`"
    if isinstance(value, Breaker):
        return f'`{{"failures": {value.failures}, "open_for": {value.open_for:g}}}`'
    return f"`{value:g}`" if isinstance(value, float) else f"`{value!r}`"


def page() -> str:
    """Write the page."""
    return HEAD.replace("PROFILED", ", ".join(f"`{name}`" for name in PROFILES)) + "".join(
        f"| `{name}` | {shown(getattr(DEFAULTS, name))} | {said} |\n" for name, said in documented()
    )


if __name__ == "__main__":
    sys.stdout.write(page())
