"""A Django project whose `celery.py` is as Celery's documentation has it, but for its import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.doors.processes import PACKAGES, WorkerProcess

FILES = {
    "proj/__init__.py": "from .celery import app as celery_app",
    "proj/celery.py": """
        import os
        from standfast.celery import Celery
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "proj.settings")
        app = Celery("proj")
        app.config_from_object("django.conf:settings", namespace="CELERY")
        app.autodiscover_tasks()
    """,
    "proj/settings.py": """
        SECRET_KEY = "of a test"
        USE_TZ = True
        INSTALLED_APPS = ["polls", "polls.extra"]
        DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site.db"}}
        CELERY_BROKER_URL = "redis://localhost"
        CELERY_TASK_DEFAULT_QUEUE = "polls"
        CELERY_TASK_TRACK_STARTED = True
    """,
    "polls/__init__.py": "",
    "polls/tasks.py": """
        from standfast.celery import shared_task
        @shared_task
        def count():
            from django.db import connection
            with connection.cursor() as cursor:
                return cursor.execute("SELECT count(*) FROM vote").fetchone()[0]

        @shared_task(time_limit=30)
        def count_with_a_limit():
            return count.run()
    """,
    "polls/models.py": """
        from django.db import models
        class Choice(models.Model):
            text = models.TextField()
    """,
    "polls/extra/__init__.py": "",
    "polls/extra/tasks.py": """
        from polls.models import Choice
        from proj.celery import app
        @app.task(time_limit=30)
        def name_of_the_table():
            return Choice._meta.db_table
    """,
    "program.py": """
        import django
        import proj
        django.setup()
        from django.db import connection, transaction
        from polls.extra.tasks import name_of_the_table
        from polls.tasks import count, count_with_a_limit
        connection.cursor().execute("CREATE TABLE vote (who TEXT)")
        calls = []
        send = type(count).apply_async
        type(count).apply_async = lambda *given, **options: calls.append(send(*given, **options)) or calls[-1]
        with transaction.atomic():
            connection.cursor().execute("INSERT INTO vote VALUES ('ann')")
            count.delay_on_commit()
            print(len(calls))
        print(calls[0].view.queue, calls[0].get(timeout=30))
        print(count_with_a_limit.delay().get(timeout=30), name_of_the_table.delay().get(timeout=30))
    """,
}


def test_a_django_project_runs_with_its_import_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(dedent(text))
    monkeypatch.chdir(tmp_path)
    path, url = f"{PACKAGES}{os.pathsep}{tmp_path}", f"sqlite:///{tmp_path / 'jobs.db'}"
    with WorkerProcess("proj.celery:app", PYTHONPATH=path, STANDFAST_URL=url):
        done = subprocess.run(
            [sys.executable, "program.py"],
            env={**os.environ, "PYTHONPATH": path, "STANDFAST_URL": url},
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
        )
    assert done.stdout == "0\npolls 1\n1 polls_choice\n", done.stderr
