"""Error kinds of the application's own: unknown ones fall through to other evidence, declared ones are judged."""

from __future__ import annotations

from typing import Any

import pytest

from standfast import ConfigurationError, Standfast, Transient
from standfast.failure import classify
from standfast.failure.evidence import OWN_KINDS

sf = Standfast(":memory:")


@pytest.fixture(autouse=True)
def _no_kinds():
    yield
    OWN_KINDS.clear()


class VaultError(Exception):
    """An application's own error."""

    def __init__(self, kind: str, **evidence: Any) -> None:
        super().__init__(kind)
        self.error_kind = kind
        vars(self).update(evidence)


class VaultRefused(ConnectionRefusedError):
    error_kind = "vault_odd"


def judged(error: BaseException) -> tuple[str, ...]:
    found = classify.of_exception(error).failure
    return (str(found.cls), str(found.landed), found.reason_code, found.error_kind or "")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (VaultError("vault_odd", status_code=503), ("transient", "no", "dependency_unavailable")),
        (VaultError("vault_odd", status_code=404), ("permanent", "no", "request_rejected")),
        (VaultRefused(), ("transient", "no", "dependency_unavailable")),
        (VaultError("vault_odd"), ("unknown", "maybe", "unclassified_error")),
    ],
    ids=["503", "404", "type", "nothing else"],
)
def test_a_kind_that_is_not_known_leaves_it_to_the_status_or_the_type(error, expected):
    assert judged(error) == (*expected, "vault_odd")


def test_a_kind_that_is_not_known_leaves_it_to_what_the_error_was_raised_from():
    error = VaultError("vault_odd")
    error.__cause__ = ConnectionRefusedError("down")
    assert judged(error) == ("transient", "no", "dependency_unavailable", "vault_odd")


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"error_kind": "vault_odd", "status_code": 503}, ("transient", "no", "dependency_unavailable")),
        ({"error_kind": "vault_odd", "status": 404}, ("permanent", "no", "request_rejected")),
        ({"error_kind": "vault_odd", "status": 200}, ("unknown", "maybe", "unclassified_error")),
        ({"error_kind": "vault_odd", "status": "failed"}, ("unknown", "maybe", "unclassified_error")),
        ({"error_kind": "vault_odd", "verified": False}, ("transient", "maybe", "unverified")),
        ({"error_kind": "denied", "status_code": 503}, ("permanent", "no", "denied")),
    ],
)
def test_a_returned_kind_that_is_not_known_leaves_it_to_the_status(result, expected):
    failed = classify.of_result(result)
    assert failed is not None
    found = failed.failure
    assert (str(found.cls), str(found.landed), found.reason_code) == expected
    assert found.error_kind == result["error_kind"]


@pytest.mark.parametrize(("cls", "landed"), [("transient", "maybe"), ("permanent", "no"), ("unknown", "maybe")])
def test_a_declared_kind_is_judged_by_its_class_raised_and_returned(cls, landed):
    sf.error_kinds({"Vault-Locked": cls})
    assert judged(VaultError("vault_locked", status_code=404)) == (cls, landed, "vault_locked", "vault_locked")
    failed = classify.of_result({"error_kind": "vault_locked"})
    assert failed is not None
    assert (str(failed.failure.cls), failed.failure.reason_code) == (cls, "vault_locked")
    assert failed.failure.advice


def test_what_is_raised_says_more_than_its_kind():
    sf.error_kinds({"vault_locked": "permanent"})
    assert judged(Transient("wait", error_kind="vault_locked"))[0] == "transient"


@pytest.mark.parametrize(
    ("kinds", "why"),
    [
        ({"vault_locked": "transiet"}, "did you mean 'transient'"),
        ({"vault_locked": None}, "unknown class of the error kind 'vault_locked'"),
        ({"timeout": "permanent"}, "standfast knows the error kind 'timeout', as transient"),
        ({"": "transient"}, "an error kind is a name"),
        ({7: "transient"}, "an error kind is a name"),
        (["vault_locked"], "error_kinds takes kinds and their classes"),
    ],
)
def test_a_kind_that_cannot_be_is_refused_and_none_of_the_others_is_taken(kinds, why):
    given = {"fine": "transient", **kinds} if isinstance(kinds, dict) else kinds
    with pytest.raises(ConfigurationError, match=why):
        sf.error_kinds(given)
    assert OWN_KINDS == {}


def test_one_kind_has_one_class_in_a_process():
    sf.error_kinds({"vault_locked": "transient"})
    sf.error_kinds({"vault_locked": "transient"})
    with pytest.raises(ConfigurationError, match="declared as transient already, and now as permanent"):
        sf.error_kinds({"vault_locked": "permanent"})
