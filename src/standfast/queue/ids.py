"""Job ids: UUIDv7, minted by the caller, so that the newest sort last and a retry brings the same id."""

from __future__ import annotations


def job_id(wall: float, chance: bytes) -> str:
    """Mint an id from the wall clock (48 bits of milliseconds) and ten bytes of chance."""
    luck = int.from_bytes(chance)
    value = int(wall * 1000) << 80 | 0x7 << 76 | (luck >> 68) << 64 | 0b10 << 62 | luck & (1 << 62) - 1
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
