"""A framework's module without its extra: one line that says what to install."""

import subprocess
import sys

import pytest

WITHOUT = "import sys\nsys.modules[{missing!r}] = None\nfrom standfast.{module} import {name}\n"


@pytest.mark.parametrize(
    ("module", "name", "missing", "extra"),
    [
        ("fastapi", "mount", "starlette", "server"),
        ("flask", "init_app", "flask", "flask"),
        ("django", "StandfastBackend", "django", "django"),
    ],
)
def test_a_framework_module_without_its_extra_says_what_to_install(module, name, missing, extra):
    program = WITHOUT.format(missing=missing, module=module, name=name)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=50)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ModuleNotFoundError: standfast.{module} needs {missing}")
    assert last.endswith(f"; run: pip install 'standfast[{extra}]'")
    assert done.stderr.count("Traceback") == 1
