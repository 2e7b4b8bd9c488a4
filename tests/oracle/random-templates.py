#!/usr/bin/env python3
"""Random small templates: mica against Transformers' own renderer.

Usage: random-templates.py BUILD_DIR [COUNT [SEED]]
Expressions and statements are drawn from a grammar that knows every filter, test and method;
most fail somewhere, and then both must fail. Prints differences and exits 1 if there are any."""
import functools
import json
import os
import random
import re
import subprocess
import sys

from jinja2.defaults import DEFAULT_FILTERS
from transformers.utils.chat_template_utils import _cached_compile_jinja_template

CONTEXT = {
    "s": "Hello World", "u": "na\u00efve \u00df\u03a3 \U0001f600x", "e": "", "p": "  a b,c\n d ", "n": 5,
    "z": 0, "k": -3, "f": 2.5, "t": True, "no": False, "nul": None, "xs": [3, 1, 2, 1],
    "ws": ["b", "A", "c"], "el": [], "ed": {}, "d": {"a": 1, "b": {"c": [10, 20]}, "Z": "q"},
    "rows": [{"k": "b", "v": 2}, {"k": "A", "v": 1}, {"v": 3}], "nest": [[1, 2], [3, [4]]],
    "html": "<a>&'\"", "fmt": "%s-%d", "big": 12345678901234567890}
NAMES = list(CONTEXT) + ["nope"]
FILTERS = """upper lower title capitalize trim trim('lo') trim(chars=' ') length count first last list string int
 int(7) int(base=16) float float(1.5) abs round round(1) round(2,'floor') round(0,'ceil') default('D') d(1,true) default
 join join(',') join('-',attribute='k') replace('l','L') replace('o','',1) reverse sort sort(reverse=true)
 sort(attribute='v') sort(case_sensitive=true) sort(attribute='k') unique unique(true) min max sum sum(attribute='v') sum(start=2)
 dictsort dictsort(true) dictsort(by='value') dictsort(reverse=true) items map('upper') map(attribute='k')
 map(attribute='v',default=0) map('length') map('string') map('default','x') select select('odd') select('string')
 select('gt',1) reject reject('none') selectattr('k') selectattr('v','gt',1) selectattr('k','defined') rejectattr('k')
 rejectattr('v','==',1) batch(2) batch(2,'-') slice(2) slice(3,0) groupby('k') groupby('v',default=0) indent indent(2,true)
 indent('>',blank=true) wordcount truncate(5) truncate(6,true) truncate(4,end='',leeway=0) center(9) tojson tojson(indent=2)
 tojson(sort_keys=true) tojson(separators=(',',':')) tojson(ensure_ascii=true) safe e escape format(1) format('a',2)
 attr('a') string|length list|length list|first list|sort list|tojson""".split()
TESTS = """defined undefined none string mapping iterable sequence number integer float boolean true false odd even
 callable lower upper escaped eq(1) ne('a') lt(2) gt(1) ge(2) le(5) in([1,2]) in('abc') sameas(none) divisibleby(2)
 divisibleby(0) equalto('b')""".split()
METHODS = """upper() lower() title() capitalize() swapcase() strip() lstrip() rstrip() strip('Hd') split() split(',')
 split('l',1) split(none,1) rsplit(None,1) rsplit('o') splitlines() splitlines(true) startswith('H') endswith(('d','x'))
 replace('l','_') replace('','.') replace('l','',1) find('o') find('o',5) rfind('o') index('l') count('l') count('')
 join(['x','y']) join(ws) zfill(14) ljust(13,'.') rjust(3) center(16,'*') isdigit() isalpha() isupper() islower() isspace()
 isalnum() istitle() removeprefix('He') removesuffix('ld') partition('o') rpartition('o') partition('#') format(1) format(n=1)
 items() keys() values() get('a') get('zz') get('zz',9) copy() index(1) count(1) index(99)""".split()
ATTRIBUTES = ["a", "b", "k", "v", "c", "zz", "_x", "0", "1"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in", "not in"]
LITERALS = ["0", "1", "2", "-1", "3.5", "1e3", "'a'", "'l'", "'%s'", "''", "true", "false", "none", "[]", "[1,2]",
            "{}", "{'a':1}", "(1,)", "()", "'x y'", "range(3)", "'<b>'", "['b','a']"]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, values):
        return self.r.choice(values)

    def slice(self, depth):
        part = lambda: self.pick(["", "", "1", "-1", "0", "2", "-3", "n", "99"])
        return f"[{part()}:{part()}{self.pick(['', '', ':' + self.pick(['2', '-1', '-2', '1'])])}]"

    def expr(self, depth):
        r = self.r.random()
        if depth <= 0 or r < 0.12:
            return self.pick(NAMES) if self.r.random() < 0.75 else self.pick(LITERALS)
        inner = lambda: self.expr(depth - 1)
        if r < 0.34:
            return f"{inner()}|{self.pick(FILTERS)}"
        if r < 0.46:
            return f"({inner()}).{self.pick(METHODS)}"
        if r < 0.55:
            return f"({inner()}).{self.pick(ATTRIBUTES)}"
        if r < 0.62:
            return f"({inner()})[{self.pick([inner(), '0', '-1', repr(self.pick(ATTRIBUTES))])}]"
        if r < 0.68:
            return f"({self.pick(NAMES)}){self.slice(depth)}"  # Jinja folds slices of constants
        if r < 0.82:
            return f"({inner()} {self.pick(BINARY)} {inner()})"
        if r < 0.88:
            return f"({inner()} is {self.pick(['', 'not '])}{self.pick(TESTS)})"
        if r < 0.92:
            return f"({inner()} if {inner()} else {inner()})"
        if r < 0.95:
            return f"[{inner()}, {inner()}]"
        if r < 0.97:
            return f"{{'k': {inner()}, 'v': {inner()}}}"
        return f"{self.pick(['-', 'not ', '+'])}({inner()})"

    def name(self):
        return self.pick(["q", "w", "n", "s", "xs", "item"])

    def statement(self, depth):
        r = self.r.random()
        body = lambda: self.body(depth - 1)
        if depth <= 0 or r < 0.45:
            return "{{ " + self.expr(3) + " }}"
        if r < 0.6:
            return f"{{% if {self.expr(2)} %}}{body()}{self.pick(['', '{% else %}' + body()])}{{% endif %}}"
        if r < 0.75:
            over = self.pick(["xs", "ws", "rows", "d", "s", "nest", "range(3)", self.expr(1)])
            loop = self.pick(["", "{{ loop.index }}", "{{ loop.last }}", "{{ loop.length }}", "{{ loop.nextitem }}",
                              "{{ loop.previtem }}", "{{ loop.revindex0 }}", "{{ loop.cycle(1,2) }}"])
            test = self.pick(["", "", " if " + self.expr(1)])
            jump = self.pick(["", "", "{% if " + self.expr(1) + " %}{% break %}{% endif %}",
                              "{% if " + self.expr(1) + " %}{% continue %}{% endif %}"])
            other = self.pick(["", "{% else %}E"])
            return f"{{% for item in {over}{test} %}}{loop}{jump}{body()};{other}{{% endfor %}}"
        if r < 0.85:
            return f"{{% set {self.name()} = {self.expr(2)} %}}"
        if r < 0.9:
            return f"{{% set {self.name()} %}}{body()}{{% endset %}}"
        if r < 0.94:
            return f"{{% macro m(a, b={self.expr(1)}) %}}{body()}{{{{ a }}}}{{% endmacro %}}{{{{ m({self.expr(1)}) }}}}"
        if r < 0.97:
            return f"{{% filter {self.pick(['upper', 'trim', 'replace(1,2)', 'indent'])} %}}{body()}{{% endfilter %}}"
        return f"{{% with q = {self.expr(1)} %}}{body()}{{% endwith %}}"

    def template(self, i):
        return self.body(2) if i % 3 == 0 else "{{ " + self.expr(1 + i % 3) + " }}"

    def body(self, depth):
        space = lambda: self.pick(["", "", " ", "\n", "  \n ", "x"])
        return "".join(space() + self.statement(depth) for _ in range(self.r.randint(1, 3))) + space()


class generator:
    """What a lazy filter gives, but for its text, which has an address in it."""

    def __init__(self, items):
        self.items_ = items

    def __iter__(self):
        return iter(self.items_)

    def __repr__(self):
        raise TypeError("a generator has no text")


def wrap_lazy():
    """In Jinja's own table, so that what is computed while a template is compiled is wrapped too."""
    for name in ("map", "select", "reject", "selectattr", "rejectattr", "items", "unique", "batch",
                 "slice", "reverse"):
        original = DEFAULT_FILTERS[name]

        @functools.wraps(original)
        def lazy(*args, original=original, **kwargs):
            items = original(*args, **kwargs)
            return generator(items) if hasattr(items, "__next__") else items

        DEFAULT_FILTERS[name] = lazy


def render(template):
    try:
        compiled = _cached_compile_jinja_template(template)
        return {"text": compiled.render(**json.loads(json.dumps(CONTEXT)))}
    except Exception as error:  # whatever it raises, there is no rendering
        return {"error": f"{type(error).__name__}: {error}"}


def is_known(theirs, mine):
    """What differs on purpose, or by Python's objects that mica does not have."""
    error = theirs.get("error", "")
    lenient = "generator" in error or "reversed" in error
    limit = "64 bits" in mine.get("error", "") or "steps" in mine.get("error", "") or "memory" in mine.get("error", "")
    shown = theirs.get("text", "")
    objects = re.search("0x7[ef]", shown, re.IGNORECASE) or "<built-in" in shown or "<bound method" in shown or "<function" in shown
    return lenient or limit or objects or "is unsafe" in error or "missing" in shown


def main():
    build, count, seed = sys.argv[1], int((sys.argv + ["5000"])[2]), int((sys.argv + ["", "1"])[3] or 1)
    program = os.path.join(build, "tests", "text", "template", "template_render")
    templates = [Maker(seed * 1000003 + i).template(i) for i in range(count)]
    lines = "".join(json.dumps({"template": t, "context": CONTEXT}) + "\n" for t in templates)
    done = subprocess.run([program, "--lines", "0"], input=lines.encode(), capture_output=True, check=True)
    ours = [json.loads(line) for line in done.stdout.decode().split("\n") if line]
    wrap_lazy()
    n_bad = n_text = n_known = 0
    for template, mine in zip(templates, ours):
        theirs = render(template)
        n_text += "text" in theirs
        if theirs.get("text") == mine.get("text"):
            continue
        if is_known(theirs, mine):
            n_known += 1
            continue
        n_bad += 1
        print(f"{template!r}\n  theirs {str(theirs)[:300]}\n  ours   {str(mine)[:300]}")
    print(f"{count} templates, {n_text} with a rendering, {n_known} known differences, {n_bad} others")
    sys.exit(1 if n_bad else 0)


main()
