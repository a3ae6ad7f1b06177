"""A run with a script in every string that its forms allow, to see what becomes of it on a page."""

import html.parser

from alphabet_audit.declare.declarations import FILES

from alphabet_testing.audit.evidence_copy import read_run

SCRIPT = "<script>alert('run')</script><img src=x onerror=alert(1)>"
# Fields of records whose forms allow any printable words.
RECORD_WORDS = ("design", "opponent", "key", "execution", "detail", "error", "runtime", "clock", "chosen")


def plant(value, script):
    """A value with a script behind every string of it."""
    if isinstance(value, str):
        return value + script
    if isinstance(value, list):
        return [plant(each, script) for each in value]
    if isinstance(value, dict):
        return {name: plant(each, script) for name, each in value.items()}
    return value


def plant_scripts(folder, script=SCRIPT, spared=()):
    """Plant a script into the run in a folder wherever words are free, with the chain closed again; it fails.

    spared: fields that are left alone; with rows and families spared, the page shows their samples as well
    """
    run = read_run(folder, FILES)
    for record in run.records:
        record |= {name: plant(record[name], script) for name in RECORD_WORDS if name in record and name not in spared}
        for each in (*record.get("candidates", ()), *record.get("readings", ())):
            each |= {name: plant(each[name], script) for name in ("name", "quantity", "rule", "reason") if name in each}
    environment = run.manifest["environment"]
    for place in (environment["device"], environment["system"], environment["versions"], environment["settings"]):
        place |= {name: plant(value, script) for name, value in place.items() if name not in ("type", "python")}
    variables = environment["threads"]["variables"]
    variables |= {name: plant("", script) for name in variables}
    run.manifest["plan"] |= {name: plant(run.manifest["plan"][name], script) for name in ("designs", "families")}
    run.manifest["cells"] = {
        plant(design, script)[:100]: {
            family if "opponent" in spared else plant(family, script)[:100]: entry for family, entry in entries.items()
        }
        for design, entries in run.manifest["cells"].items()
    }
    run.begin_again()
    run.write(folder)


class Markup(html.parser.HTMLParser):
    """The tags of a page and the names of their attributes."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def handle_starttag(self, tag, attributes):
        self.found |= {tag, *(name for name, _ in attributes)}


def find_active_markup(page):
    """Tags and attributes of a page that can run or fetch something."""
    markup = Markup()
    markup.feed(page)
    active = {"script", "img", "iframe", "link", "base", "a", "object", "embed", "form", "src", "href", "srcdoc"}
    return {name for name in markup.found if name in active or name.startswith("on")}
