"""Damage to the bytes of the evidence."""


def flip(content, number):
    place = (len(content) * number) // 41 + 3 * number
    return content[:place] + bytes([content[place] ^ (1 << (number % 8))]) + content[place + 1 :]


def edit_lines(change):
    def damage(content, number):
        lines = content.split(b"\n")[:-1]
        change(lines, (number * 211) % (len(lines) - 2) + 1)
        return b"\n".join(lines) + b"\n"

    return damage


def exchange(lines, place):
    lines[place], lines[place + 1] = lines[place + 1], lines[place]


def drop_line(lines, place):
    del lines[place]


def double_line(lines, place):
    lines.insert(place, lines[place])


def write_nan(lines, place):
    lines[place] = lines[place].replace(b'"index":', b'"another":NaN,"index":')


def add_space(lines, place):
    lines[place] = lines[place].replace(b":", b": ", 1)


# Damage to the bytes of the evidence, by name, with how many places it is done at.
DAMAGE = {
    "flip": (flip, 40),
    "drop": (edit_lines(drop_line), 8),
    "double": (edit_lines(double_line), 8),
    "exchange": (edit_lines(exchange), 8),
    "nan": (edit_lines(write_nan), 4),
    "space": (edit_lines(add_space), 4),
    "truncate": (lambda content, number: content[: (len(content) * number) // 9 - 1], 9),
    "cut a record off": (edit_lines(lambda lines, place: lines.pop()), 1),
    "empty": (lambda content, number: b"", 1),
    "garbage behind": (lambda content, number: content + b"\x00\xff\n", 1),
}
