"""C2SP Wycheproof: with our check first, OpenSSL and libsodium answer every Ed25519 case alike, and right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import nacl.exceptions
import nacl.signing
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from causebook.domain.ed25519 import public_key_fault, signature_fault

from .shared import shared

STRICTER = frozenset[int]()
"""The cases that are valid and that our check refuses: there are none."""


def cases() -> Iterator[tuple[bytes, dict[str, Any]]]:
    path = shared("vectors", "wycheproof", "testvectors_v1", "ed25519_test.json")
    for group in json.loads(path.read_text())["testGroups"]:
        for case in group["tests"]:
            yield bytes.fromhex(group["publicKey"]["pk"]), case


def openssl(public: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def libsodium(public: bytes, signature: bytes, message: bytes) -> bool:
    try:
        nacl.signing.VerifyKey(public).verify(message, signature)
    except nacl.exceptions.BadSignatureError:
        return False
    return True


def test_both_libraries_agree_with_each_other_and_with_the_expected_result() -> None:
    seen = {"valid": 0, "invalid": 0}
    refused = set()
    for public, case in cases():
        message, signature = bytes.fromhex(case["msg"]), bytes.fromhex(case["sig"])
        assert public_key_fault(public) is None, case["tcId"]
        seen[case["result"]] += 1
        if signature_fault(signature) is not None:
            if case["result"] == "valid":
                refused.add(case["tcId"])
            continue
        answers = {openssl(public, signature, message), libsodium(public, signature, message)}
        assert answers == {case["result"] == "valid"}, case
    assert refused == STRICTER
    assert seen == {"valid": 88, "invalid": 63}
