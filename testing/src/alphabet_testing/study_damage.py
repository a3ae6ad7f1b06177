"""Damage to files, of the kinds that they suffer in transit, in editors and in faulty exports; drawn from a seed."""

import gzip
import random
from collections.abc import Mapping

from alphabet_testing.study_files import pack

TOKENS = [
    *(b"\0", b"inf", b"-inf", b"Infinity", b"nan", b"NaN", b"1e400", b"-1e400", b"1e39", b"?", b"(", b"_", b"-", b"."),
    *(b"\r", b"\n", b"\n\n", b" ", b"\t", b":", b",", b"|", b"@", b"#", b"-1", b"0", b"\xff", b"9" * 400, b"e", b"1_0"),
    *("é".encode(), "٣".encode(), "\u2028".encode(), b"\xef\xbb\xbf", b"true", b"false", b"2016-13-01", b"24:61"),
]


def mutate(content: bytes, draw: random.Random) -> bytes:
    """The bytes with one to three faults of the kinds that files suffer from."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        content = draw.choice(MUTATIONS)(content, draw) if content else content
    return content


def flip(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << draw.randrange(8))]) + content[at + 1 :]


def delete(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content))
    return content[:at] + content[at + draw.choice((1, 1, 2, 5, 20)) :]


def truncate(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content))]


def insert(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    return content[:at] + draw.choice(TOKENS) + content[at:]


def swap_separator(content: bytes, draw: random.Random) -> bytes:
    places = [at for at, byte in enumerate(content) if byte in b",:;\t| \n"]
    if not places:
        return content
    at = draw.choice(places)
    return content[:at] + draw.choice((b",", b":", b";", b"\t", b"|", b" ", b"\n", b"")) + content[at + 1 :]


def change_lines(content: bytes, draw: random.Random) -> bytes:
    lines = content.split(b"\n")
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    match draw.randrange(4):
        case 0:
            lines.insert(other, lines[one])
        case 1:
            del lines[one]
        case 2:
            lines[one], lines[other] = lines[other], lines[one]
        case _:
            lines = [line + b"\r" for line in lines]
    return b"\n".join(lines)


def inflate(content: bytes, draw: random.Random) -> bytes:
    """One number replaced by a huge one, as in a header that promises 10**12 values."""
    digits = [at for at, byte in enumerate(content) if byte in b"0123456789"]
    if not digits:
        return content
    at = draw.choice(digits)
    return content[:at] + str(10 ** draw.choice((3, 9, 11, 12, 30))).encode() + content[at + 1 :]


MUTATIONS = (flip, delete, truncate, insert, insert, swap_separator, change_lines, inflate)


def damage(name: str, content: bytes | Mapping[str, bytes], draw: random.Random) -> bytes:
    """A file's damaged bytes; of an archive mostly a member, else the archive before or after compression."""
    if isinstance(content, bytes):
        return mutate(content, draw)
    place = draw.random()
    if place < 0.7:
        member = draw.choice(list(content))
        return pack(name, {**content, member: mutate(content[member], draw)})
    if place < 0.85 and name.endswith(".tar.gz"):
        return gzip.compress(mutate(pack("x.tar", content), draw), 1)
    return mutate(pack(name, content), draw)
