"""Which version this is can be asked of the package, and nothing else that it does not have."""

from importlib.metadata import version

import pytest

import standfast


def test_the_package_knows_its_version():
    assert standfast.__version__ == version("standfast")


def test_what_the_package_does_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'enqueue'"):
        standfast.enqueue  # type: ignore[attr-defined]  # noqa: B018 - that it raises is the point
