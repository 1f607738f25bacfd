"""Names from the standard library and well-known packages that the rules know."""

from __future__ import annotations

import re

LOOP = "asyncio.loop()"
"""Any event loop."""
_LOOPS = frozenset(
    f"asyncio.{name}()"
    for name in ("get_event_loop", "get_running_loop", "new_event_loop", "AbstractEventLoop", "BaseEventLoop")
)
_ASYNCIO_PARTS = re.compile(r"asyncio\.(?:tasks|events|futures|base_events|runners|queues|locks|threads)\.")
_SAME = {
    "asyncio.async_": "asyncio.ensure_future",
    "uvloop.new_event_loop()": LOOP,
    "uvloop.Loop()": LOOP,
    "asyncio.Runner().get_loop()": LOOP,
    "requests.sessions.Session()": "requests.Session()",
    "requests.session()": "requests.Session()",
    "requests.api": "requests",
    **{f"redis.{name}()": "redis.Redis()" for name in ("from_url", "StrictRedis", "Redis.from_url", "client.Redis")},
    **{f"redis.asyncio.{name}()": "redis.asyncio.Redis()" for name in ("from_url", "Redis.from_url", "client.Redis")},
    "fastapi.background.BackgroundTasks()": "fastapi.BackgroundTasks()",
    "starlette.background.BackgroundTasks()": "fastapi.BackgroundTasks()",
    "concurrent.futures.thread.ThreadPoolExecutor()": "concurrent.futures.ThreadPoolExecutor()",
    "concurrent.futures.process.ProcessPoolExecutor()": "concurrent.futures.ProcessPoolExecutor()",
    "concurrent.futures.Executor()": "concurrent.futures.ThreadPoolExecutor()",
    "contextlib.AsyncExitStack().enter_async_context()": "unknown",
}


def same(name: str) -> str:
    """Return one spelling for names that mean the same."""
    if name.startswith("asyncio."):
        name = _ASYNCIO_PARTS.sub("asyncio.", name, count=1)
        if name in _LOOPS:
            return LOOP
    return _SAME.get(name, name)


TASK_MAKERS = frozenset({"asyncio.create_task", "asyncio.ensure_future", f"{LOOP}.create_task"})
THREAD_BRIDGE = "asyncio.run_coroutine_threadsafe"
GATHER = "asyncio.gather"
WAIT = "asyncio.wait"
PASSES_ON = frozenset({"asyncio.shield"})
"""Calls whose result stands for their argument."""

LOOP_NAME = re.compile(r"(?:^|(?<!io)_)(?:event_?loop|loop)$", re.IGNORECASE)
EXECUTOR_NAME = re.compile(r"(?:^|_)(?:executor|thread_?pool|process_?pool)$", re.IGNORECASE)
EXECUTORS = frozenset({"concurrent.futures.ThreadPoolExecutor()", "concurrent.futures.ProcessPoolExecutor()"})
POOLS = frozenset({"multiprocessing.Pool()", "multiprocessing.pool.Pool()", "multiprocessing.pool.ThreadPool()"})

COROUTINES = frozenset(
    {
        *("asyncio.sleep", "asyncio.wait_for", "asyncio.wait", "asyncio.to_thread", "asyncio.open_connection"),
        *("asyncio.start_server", "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell"),
        *("asyncio.Queue().put", "asyncio.Queue().get", "asyncio.Queue().join", "asyncio.Event().wait"),
        *("asyncio.Lock().acquire", "asyncio.Semaphore().acquire", "asyncio.Condition().wait"),
        *(f"httpx.AsyncClient().{verb}" for verb in ("get", "post", "put", "patch", "delete", "request", "send")),
        *("httpx.AsyncClient().aclose", "aiohttp.ClientSession().close"),
    }
)
"""Coroutine functions from outside the tree."""

CALLBACKS: dict[str, tuple[int, str]] = {
    "threading.Timer": (1, "function"),
    "threading.Thread": (1, "target"),
    "atexit.register": (0, "func"),
    "signal.signal": (1, "handler"),
    "weakref.finalize": (1, "func"),
    "asyncio.to_thread": (0, "func"),
}
"""Functions that call their argument without await, with the argument's position and name."""
CALLBACK_METHODS: dict[str, int] = {
    "call_soon": 0,
    "call_later": 1,
    "call_at": 1,
    "call_soon_threadsafe": 0,
    "add_signal_handler": 1,
    "add_reader": 1,
    "add_writer": 1,
    "run_in_executor": 1,
    "add_done_callback": 0,
}
"""Methods of event loops and tasks that do the same, with the argument's position."""

BACKGROUND_TASKS = "fastapi.BackgroundTasks()"
BACKGROUND_TASK = frozenset({"starlette.background.BackgroundTask", "fastapi.background.BackgroundTask"})

HTTP_READS = frozenset({"get", "head", "options"})
HTTP_SENDS = frozenset({"post", "put", "patch", "delete", "request"})
_HTTP_OWNERS = frozenset(
    {"requests", "requests.Session()", "httpx", "httpx.Client()", "httpx.AsyncClient()", "aiohttp.ClientSession()"}
    | {"httpx2", "httpx2.Client()", "httpx2.AsyncClient()"}
)
CLIENTS = frozenset(name.removesuffix("()") for name in _HTTP_OWNERS if name.endswith("()"))
"""Classes that send HTTP requests and do not raise for a status on their own."""
_NETWORK = frozenset(
    {
        *("urllib.request.urlopen", "urllib.request.urlretrieve", "aiohttp.request", "socket.create_connection"),
        *("httpx.stream", "websockets.connect", "aiosmtplib.send", "asyncio.open_connection"),
    }
)
_NETWORK_OWNERS: dict[str, frozenset[str]] = {
    "smtplib.SMTP()": frozenset({"sendmail", "send_message", "connect", "login"}),
    "smtplib.SMTP_SSL()": frozenset({"sendmail", "send_message", "connect", "login"}),
    "http.client.HTTPConnection()": frozenset({"request", "getresponse"}),
    "http.client.HTTPSConnection()": frozenset({"request", "getresponse"}),
    "urllib3.PoolManager()": frozenset({"request", "urlopen"}),
    "socket.socket()": frozenset({"sendall", "send", "sendto", "connect"}),
    "redis.Redis()": frozenset({"set", "publish", "lpush", "rpush", "xadd", "hset", "incr", "get", "hget"}),
    "redis.asyncio.Redis()": frozenset({"set", "publish", "lpush", "rpush", "xadd", "hset", "incr", "get", "hget"}),
    "ftplib.FTP()": frozenset({"storbinary", "storlines", "retrbinary"}),
    "kafka.KafkaProducer()": frozenset({"send", "flush"}),
    "slack_sdk.WebClient()": frozenset({"chat_postMessage", "files_upload", "api_call"}),
}
_ANY_METHOD = ("boto3.client()", "boto3.resource()", "boto3.session.Session().client()", "xmlrpc.client.ServerProxy()")
CLEAN_UP = frozenset(
    {"close", "aclose", "shutdown", "disconnect", "quit", "terminate", "kill", "release", "cancel", "wait_closed"}
    | {"unsubscribe", "detach", "stop", "join", "unlink", "remove", "rmtree"}
)


def http_verb(name: str) -> str | None:
    """Return the verb of an HTTP call that returns a response and does not raise for its status."""
    owner, _, verb = name.rpartition(".")
    return verb if owner in _HTTP_OWNERS and verb in HTTP_READS | HTTP_SENDS else None


def is_network(name: str) -> bool:
    """Return whether a function talks to another machine."""
    if name in _NETWORK or http_verb(name):
        return True
    owner, _, verb = name.rpartition(".")
    if verb in CLEAN_UP:
        return False
    return verb in _NETWORK_OWNERS.get(owner, ()) or owner in _ANY_METHOD


_CONNECTS = frozenset({"connect", "create_connection", "open_connection"})


def sends(name: str) -> bool:
    """Return whether a function changes something on another machine."""
    verb = name.rpartition(".")[2]
    return is_network(name) and verb not in HTTP_READS | {"urlopen", "urlretrieve", *_CONNECTS}


_WRITES = frozenset({"json.dump", "pickle.dump", "shutil.copy", "shutil.copyfile", "shutil.move", "os.replace"})
_WRITE_METHODS = frozenset({"write_text", "write_bytes"})
_DATABASES = ("sqlite3.connect()", "psycopg.connect()", "psycopg2.connect()", "pymysql.connect()")


def writes(name: str) -> bool:
    """Return whether a function writes a file or a database."""
    owner, _, verb = name.rpartition(".")
    if name in _WRITES or (verb in _WRITE_METHODS and owner.startswith("pathlib.")):
        return True
    return owner.startswith(_DATABASES) and verb in {"execute", "executemany", "commit"}
