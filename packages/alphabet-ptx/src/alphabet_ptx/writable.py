"""Whether memory of this process may be written: a file that is mapped for reading only may not."""

import os

from alphabet_ptx.datatypes import Array


def may_write(octets: Array) -> bool:
    """Whether the first of these bytes may be written; it keeps its value.

    The kernel is asked to put it there from a pipe: where it cannot, it answers with an error, and nothing crashes.
    """
    if not octets.size:
        return True
    source, sink = os.pipe()
    try:
        os.write(sink, octets[:1].tobytes())
        os.readv(source, [octets[:1].data])
    except OSError:
        return False
    finally:
        os.close(source)
        os.close(sink)
    return True
