#!/usr/bin/env python3
"""Makes tests/golden/templates/conformance.json: small templates and what Transformers' own
renderer gives for them. Each case is a template, or a template and a context; without one it is
rendered with CONTEXT. OURS are the deliberate differences: what mica gives instead, with the
reason. Needs transformers and jinja2."""
import json
import os
import re
import sys

from transformers.utils.chat_template_utils import _compile_jinja_template

CONTEXT = {
    "s": "Hello World", "u": "na\u00efve \u00df \u01c6\u03a3 \U0001f469\u200d\U0001f467 x", "e": "",
    "sp": "  pad\t\n", "html": "<a href=\"x\">'&</a>", "n": 5, "z": 0, "neg": -7, "f": 2.5, "t": True,
    "no": False, "nul": None, "xs": [3, 1, 2], "words": ["b", "A", "c", "B"], "empty": [], "ed": {},
    "d": {"a": 1, "b": {"c": [10, 20]}, "items": "KEY", "_x": 7, "z": None},
    "nest": [[1, 2], [3, [4, 5]]], "big": 123456789012345678901234567890, "tiny": 1e-7,
    "rows": [{"name": "Bo", "age": 3, "tag": {"k": "x"}}, {"name": "al", "age": 1},
             {"name": "Cy", "age": 2, "ok": True}],
    "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "hi"},
                 {"role": "assistant", "content": "yo", "tool_calls": [
                     {"type": "function", "function": {"name": "f", "arguments": {"x": [1, "\u00e9\n"]}}}]},
                 {"role": "tool", "content": "42"}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d <b>", "parameters": {
        "type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}}}],
    "bos_token": "<s>", "add_generation_prompt": True,
    "tree": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}],
}

CASES = {}

CASES["white space"] = [
    "a\nb", "a\nb\n", "a\nb\n\n", "a\r\nb\rc\n", "", "\n", "\n\n", "  {{ n }}  \n  x",
    "a\n  {% if t %}\n  b\n  {% endif %}\nc", "a  {% if t %}  b  {% endif %}  c",
    "a\n  {%- if t -%}\n  b\n  {%- endif -%}\n c", "a\n  {%+ if t +%}\n  b\n  {%+ endif +%}\n c",
    "a\n  {# c #}\n  b", "a\n  {#- c -#}\n  b", "a {# x\ny #} b", "{# #}a", "a\n{#+ c +#}\nb",
    "x {{- n -}} y", "x \n {{- n -}} \n y", "x {{+ n }} y", "{{ n }}\n{{ n }}", "{{ n -}}\n\n z",
    "{% set q = 1 %}\n{% set r = 2 %}\n{{ q }}{{ r }}", "{% set q = 1 -%}\n   \n{{ q }}",
    "{% raw %}{{ x }} {% if %}{% endraw %}", "{% raw %}\n a\n{% endraw %}\n b", "{%- raw -%} {{ }} {%- endraw -%} z",
    "a\n  {% raw %}x{% endraw %}", "a\n   {% raw %}\n   x\n   {% endraw %}\nb", "{% raw %} a {% endraw -%} \n b",
    "\t{% if t %}x{% endif %}", "\u00a0{% if t %}x{% endif %}", "a\u2003{%- if t %}b{% endif %}",
    "{{ n }}  {% if t %}x{% endif %}", "{% if t %}x{% endif %}  {% if t %}y{% endif %}\n  {% if t %}z{% endif %}",
    "{%if t%}a{%endif%}", "{{n}}{{'a'}}", "{{ '}}' }}", "{{ \"%}\" }}", "{{ {'a': {'b': 1}} }}", "{{{'a':1}}}",
    "{{ '{{' }}", "a{", "a{ {", "}} %} #}", "{ { n } }", "a\x0b{% if t %}b{% endif %}", "{% if t -%}\x1c x{% endif %}",
    "{% for i in xs %}\n  {{ i }}\n{% endfor %}\nend", "{% for i in xs -%}\n  {{ i }}\n{%- endfor %}\nend",
    "  {% for i in xs %}{{ i }}{% endfor %}  \n",
    "{%- for i in xs %}\n{{- i }}\n{%- endfor %}\n", "line\n\n\n{%- if t %}\n\nx{% endif %}",
    "a {%- raw %} b {% endraw %} c", "a{% if t %}\n\nb{% endif %}", "{#- a -#}\n\n{#- b -#} c",
    "{% raw -%}  a{% endraw %}", "{{ 'x' ~\n 'y' }}", "{% if t\n %}x{% endif %}",
]

CASES["literals"] = [
    "{{ 1 }} {{ 1_000 }} {{ 0x1f }} {{ 0b101 }} {{ 0o17 }} {{ 0XFF }} {{ 00 }} {{ 0_0 }}",
    "{{ 1.5 }} {{ 1e3 }} {{ 1.5e-3 }} {{ 1E5 }} {{ 1_0.2_5 }} {{ 1e16 }} {{ 1e15 }} {{ 1e-4 }} {{ 1e-5 }} {{ 0.1 }}",
    "{{ 123456789012345678901234567890 }}", "{{ 9223372036854775807 }} {{ 9223372036854775808 }}",
    "{{ 'a' 'b' \"c\" }}", r"{{ 'a\nb\tc\\d\'e\"f' }}", r"{{ '\x41\u00e9\U0001F600' }}", r"{{ '\q\.\ ' }}",
    r"{{ '\101\60\7' }}", "{{ 'a\\\nb' }}", "{{ 'a\nb' }}", "{{ '\u00e9\u4e2d' }}", "{{ '\\\u00e9' }}", "{{ '\\\u4e2d' }}",
    r"{{ '\x4' }}", r"{{ '\u12' }}", r"{{ '\a\b\f\v' }}", "{{ true }} {{ True }} {{ false }} {{ False }} {{ none }} {{ None }}",
    "{{ [] }} {{ [1] }} {{ [1, 'a', none, 1.0] }} {{ [1,] }}", "{{ () }} {{ (1,) }} {{ (1, 2) }} {{ 1, 2 }} {{ 1, }}",
    "{{ {} }} {{ {'a': 1} }} {{ {'a': 1, 2: 'b', none: 3,} }}", "{{ {1: 'a', 1.0: 'b', true: 'c'} }}", "{{ (1) }} {{ ((2)) }}",
    "{{ {'a': [1, {'b': ()}]} }}", "{{ {[1]: 2} }}", "{{ TRUE }}|{{ NONE }}", "{{ 007 }}", "{{ 1.}}", "{{ .5 }}", "{{ 1__0 }}",
    "{{ 'abc }}", "{{ \"it's\" }} {{ [\"it's\"] }} {{ ['\"'] }} {{ ['\\'\"'] }}", "{{ ['\\n\\t\\x00\\x7f\u00e9\u200b\u00ad\U0001f600\u2028'] }}",
    "{{ 1e400 }}", "{{ [1e22, 1e21, 123456789.123, 1e100, 5e-324] }}", "{{ 0.1 + 0.2 }}", "{{ 1 if t }}",
    "{{ 0b12 }}", "{{ 1e }}", "{{ x.0 }}", "{{ xs.0 }} {{ nest.1.1.0 }}", "{{ 'a' 1 }}", "{{ @ }}", "{{ a ! b }}", "{{ $ }}",
    "{{ {'a' 1} }}", "{{ [1 2] }}", "{{ big }} {{ [big] }}",
]

CASES["operators"] = [
    "{{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 7 - 2 - 1 }} {{ 2 * 3 % 4 }} {{ 7 / 2 }} {{ 8 / 2 }} {{ 7 // 2 }} {{ 7 % 3 }}",
    "{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 // -2 }} {{ 7 % -3 }} {{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ 1e300 * 1e10 }}",
    "{{ 2 ** 3 ** 2 }} {{ -1 ** 2 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }} {{ 0 ** 0 }} {{ 2.0 ** 3 }} {{ 4 ** 0.5 }}",
    "{{ 1 ~ 2 ~ 'a' ~ none ~ true ~ 1.0 }}",
    "{{ 1 + 2 ~ 3 }}", "{{ '1' ~ 2 * 3 }}", "{{ -2|abs }} {{ -d.a }} {{ -xs[0] }} {{ - 3 }} {{ --3 }} {{ +3 }} {{ -+-3 }}",
    "{{ 1 + 2|string|length }}", "{{ 'a' + 'b' }} {{ 'a' * 3 }} {{ 3 * 'a' }} {{ 'a' * -1 }}|{{ [1] * 2 }} {{ (1,) * 2 }}",
    "{{ [1] + [2] }} {{ (1,) + (2,) }}", "{{ [1] + (2,) }}", "{{ 'a' + 1 }}", "{{ 1 + 'a' }}", "{{ none + 1 }}", "{{ {} + {} }}",
    "{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ 1.0 / 0 }}", "{{ 0 ** -1 }}", "{{ true + true }} {{ true * 3 }} {{ -true }}",
    "{{ 1 < 2 }} {{ 2 <= 2 }} {{ 3 > 4 }} {{ 4 >= 4 }} {{ 1 == 1.0 }} {{ 1 != 2 }} {{ 'a' < 'b' }} {{ true == 1 }} {{ none == false }}",
    "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 > 1 == 1 }} {{ 1 < 2 == true }}", "{{ [1, 2] < [1, 3] }} {{ (1, 2) < (1, 2, 3) }} {{ [2] > [1, 5] }}",
    "{{ 1 < 'a' }}", "{{ none < 1 }}", "{{ [1] < [none] }}", "{{ {} < {} }}", "{{ [] < () }}", "{{ 1 == 'a' }} {{ [1] == (1,) }} {{ {'a': 1} == {'a': 1.0} }}",
    "{{ 'b' in 'abc' }} {{ '' in 'a' }} {{ 1 in [1] }} {{ 1 in (2,) }} {{ 'a' in d }} {{ 'q' not in d }} {{ true in [1] }} {{ 2 in range(3) }}",
    "{{ 1 in 'abc' }}", "{{ 1 in none }}", "{{ 'a' in 5 }}", "{{ [1] in {} }}", "{{ nope in 'abc' }}", "{{ 'a' in nope }} {{ nope in [nope] }}",
    "{{ 1 in [1] == true }}", "{{ not t }} {{ not not t }} {{ not e }} {{ not 1 == 2 }} {{ not n in xs }}", "{{ t and 5 }} {{ no and 5 }} {{ e or 'x' }} {{ 0 or none or [] }}",
    "{{ t or no and no }} {{ (t or no) and no }} {{ no or not no }}", "{{ 'y' if t else 'n' }} {{ 'y' if no else 'n' }} {{ 'y' if no }}|",
    "{{ 1 if no else 2 if no else 3 }} {{ (1 if t else 2) if t else 3 }}", "{{ 'a' if t else undefined_thing.x }}", "{{ ('a' if no) is defined }} {{ ('a' if no).x }}",
    "{{ 1 if 0 if 1 else 2 else 3 }}", "{{ 'a' 'b' if t }}", "{{ 'a' ~ 'b' if t else 'c' }}", "{{ n is number and n > 3 }}",
    "{{ '%s-%d' % ('a', 3) }} {{ '%s' % 'x' }} {{ '%05.2f|%x|%X|%o|%e' % (3.14159, 255, 255, 8, 12345.678) }}",
    "{{ '%(a)s %(b)r' % {'a': 1, 'b': 'x'} }} {{ '%5s|%-5s|%.2s' % ('ab', 'cd', 'efg') }} {{ '%%' % () }} {{ '%c%c' % ('a', 98) }}",
    "{{ '%s' % (1, 2) }}", "{{ '%s %s' % 1 }}", "{{ '%d' % 'a' }}", "{{ '%y' % 1 }}", "{{ '%+d % d %05d %-5d|' % (3, 3, -3, 3) }}", "{{ '%#x %#o %g %G' % (255, 8, 0.0001, 1e20) }}",
    "{{ '%*d|%.*f' % (5, 3, 2, 1.23456) }} {{ '%s' % [1, 2] }} {{ '%s' % {'a': 1} }} {{ '%i' % 3.9 }} {{ '%r' % ['a'] }}", "{{ 'a' % 1 }}", "{{ '%s' % nope }}|",
    "{{ '%.3d|%5.3d' % (5, 7) }} {{ '%s' % none }}", "{{ 1 if }}", "{{ 1 + }}", "{{ * 1 }}", "{{ not }}", "{{ a b }}", "{{ 1 is not }}",
    "{{ 10 // 3.0 }} {{ 10 % 3.5 }} {{ 2 - 5 }} {{ 2.0 }} {{ 1e2 }} {{ 3.0 * 2 }}", "{{ nope + 1 }}", "{{ 1 + nope }}", "{{ -nope }}", "{{ nope < 1 }}", "{{ nope == none }} {{ nope == nope2 }} {{ nope != 1 }}",
    "{{ nope ~ 'x' }}", "{{ 9007199254740993 == 9007199254740992.0 }} {{ 9007199254740993 > 9007199254740992.0 }}", "{{ big == big }} {{ big > 1 }} {{ big < 1.5 }} {{ -1 < big }} {{ big in [1, big] }}",
    "{{ 'a' * 2.0 }}", "{{ [1, 2] - [1] }}", "{{ not nope }}", "{{ 5 is divisibleby 5 and 1 }}", "{{ 1 - -1 }} {{ 1--1 }}", "{{ 6 // 4 * 2 }} {{ 2 * 6 // 4 }} {{ 100 / 10 / 5 }}",
]

CASES["access"] = [
    "{{ d.a }} {{ d['a'] }} {{ d.b.c[1] }} {{ d['b']['c'][0] }} {{ d.b.c.1 }} {{ d.nope }}|{{ d['nope'] }}|", "{{ d['items'] }}",
    "{{ d.items is string }} {{ d['items'] is string }} {{ d.items() is iterable }}", "{{ d._x }} {{ d['_x'] }} {{ d.__class__ }}|{{ s.__class__ }}|{{ d.__init__ is defined }}",
    "{{ d.nope.x }}", "{{ d['nope']['x'] }}", "{{ nope.x }}", "{{ nope[0] }}", "{{ nope }}|", "{{ nope() }}", "{{ nul.a }}|{{ nul[0] }}|{{ 5['a'] }}|{{ n.a }}|", "{{ nul.a.b }}",
    "{{ xs[0] }} {{ xs[-1] }} {{ xs[9] }}|{{ xs['a'] }}|{{ xs[true] }}|{{ xs[1.0] }}|", "{{ s[0] }} {{ s[-1] }} {{ s[99] }}|{{ u[2] }} {{ u['x'] }}|",
    "{{ s[1:] }} {{ s[:3] }} {{ s[-3:] }} {{ s[::-1] }} {{ s[::2] }} {{ s[5:1:-1] }} {{ s[1:99] }} {{ s[:] }}", "{{ u[::-1] }} {{ u[2:4] }} {{ u[-3:] }}",
    "{{ xs[1:] }} {{ xs[:-1] }} {{ xs[::-1] }} {{ xs[10:] }} {{ (1,2,3)[1:] }} {{ range(5)[1:3] }} {{ range(9)[::-3]|list }} {{ xs[none:2] }} {{ xs[true:] }}",
    "{{ xs[::0] }}", "{{ xs['a':] }}", "{{ d[1:] }}", "{{ nul[1:] }}", "{{ nope[1:] }}", "{{ n[1:] }}", "{{ xs[1.0:] }}", "{{ d[[1]] }}|", "{{ nest[1][1][0] }}",
    "{{ d['a', 'b'] }}|{{ {('a', 'b'): 1}['a', 'b'] }}", "{{ d.items().0 }}|{{ d.keys()[0] }}|", "{{ messages[-1].content }} {{ messages[2].tool_calls[0].function.name }}",
    "{{ s.upper().lower() }} {{ 'a,b'.split(',')[1] }}", "{{ s['upper']() }} {{ xs['index'](1) }}", "{{ d.get('a') }} {{ d.get('q') }} {{ d.get('q', 5) }}", "{{ d.keys() }} {{ d.values() }} {{ {'a': 1}.items() }}",
    "{{ d.b.copy() }} {{ xs.count(1) }} {{ xs.index(2) }} {{ (1, 1).count(1) }}", "{{ xs.index(99) }}", "{{ d.keys()|list }} {{ d.items()|list|length }} {{ d.values()|list }}", "{{ 1 in d.values() }} {{ 'a' in d.keys() }} {{ ('a', 1) in d.items() }}",
    "{{ d.items()|length }} {{ d.keys() is sequence }} {{ d.keys() is iterable }} {{ d.keys() is mapping }}", "{{ s.nope }}|{{ s.nope() }}", "{{ xs.append(1) }}", "{{ d.update({'q': 1}) }}", "{{ d.pop }}|{{ xs.sort is defined }}",
    "{{ d.pop('a') }}", "{% set m = d.items %}{% for k, v in m() %}{{ k }};{% endfor %}", "{{ dict(a=1).a }} {{ dict({'b': 2}, c=3) }} {{ dict([('x', 1)]) }} {{ dict.fromkeys(['a', 'b'], 0) }} {{ dict() }}", "{{ dict(1) }}",
    "{{ xs.0 }} {{ d.0 }}|{{ s.0 }}", "{{ 'abc'.1 }}", "{{ xs . 0 }} {{ d . a }}", "{{ (xs)[0] }} {{ [1,2,3][1] }} {{ {'a': 5}.a }} {{ 'abc'[1] }} {{ (1,2).1 }}", "{{ xs[:2][0] }} {{ s[:5].upper() }}", "{{ loop }}|", "{{ e[0] }}|{{ e[:1] }}|",
    "{{ range(3) }} {{ range(1, 7, 2) }} {{ range(5, 0, -2)|list }} {{ range(0)|list }} {{ range(3)|length }} {{ range(3)[1] }} {{ range(4)[-1] }}", "{{ range(100001) }}", "{{ range() }}", "{{ range(1, 2, 0) }}", "{{ range('a') }}", "{{ range(1.0) }}", "{{ range(3) == range(3) }} {{ range(2) == [0, 1] }}",
    "{{ d|attr('a') }}|{{ s|attr('upper') is callable }}|{{ d|attr('keys') is callable }}", "{{ d.b['c'] is sequence }}", "{{ tools[0]['function'].name }} {{ tools.0.function.parameters.required[0] }}", "{{ {true: 1}[1] }} {{ {1: 'x'}[1.0] }} {{ {none: 'n'}[none] }}", "{{ d.a.b }}|{{ d.a['b'] }}|",
    "{{ (xs|map('string')|list)[0] }}", "{{ xs[0:2]|join }}", "{{ xs[n] }}|", "{{ xs[neg] }}|", "{{ xs[-99:2] }} {{ xs[1:-99] }} {{ s[99:] }}|{{ s[:-99] }}|{{ s[-2::-1] }} {{ xs[99::-1] }}", "{{ xs[0, 1] }}|",
]

CASES["statements"] = [
    "{% if t %}a{% elif no %}b{% else %}c{% endif %}", "{% if no %}a{% elif t %}b{% else %}c{% endif %}", "{% if no %}a{% elif no %}b{% else %}c{% endif %}", "{% if no %}a{% endif %}",
    "{% if e %}a{% endif %}{% if empty %}b{% endif %}{% if ed %}c{% endif %}{% if nul %}d{% endif %}{% if nope %}e{% endif %}{% if z %}f{% endif %}{% if ' ' %}g{% endif %}", "{% if 0.0 %}a{% endif %}{% if d %}b{% endif %}{% if range(0) %}c{% endif %}",
    "{% if t: %}x{% endif %}", "{% for i in xs: %}{{ i }}{% endfor %}", "{% if t, %}x{% endif %}", "{% if t if no %}x{% endif %}",
    "{% for i in xs %}{{ i }}{% endfor %}", "{% for i in empty %}{{ i }}{% else %}none{% endfor %}", "{% for i in nope %}{{ i }}{% else %}none{% endfor %}", "{% for i in nul %}{{ i }}{% endfor %}", "{% for i in 5 %}{% endfor %}",
    "{% for k in d.b %}{{ k }}{% endfor %}", "{% for c in 'h\u00e9\U0001f600' %}[{{ c }}]{% endfor %}", "{% for a, b in [(1, 2), [3, 4]] %}{{ a }}-{{ b }};{% endfor %}", "{% for k, v in {'x': 1, 'y': [2]}.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in ['xy'] %}{{ a }}{{ b }}{% endfor %}", "{% for (a, b) in [(1, 2)] %}{{ a }}{{ b }}{% endfor %}", "{% for a, in [(1,)] %}{{ a }}{% endfor %}",
    "{% for i in xs if i > 1 %}{{ i }}/{{ loop.index }}/{{ loop.length }}/{{ loop.last }} {% endfor %}", "{% for i in xs if i > 9 %}x{% else %}none{% endfor %}", "{% for i in range(6) if i is even %}{{ loop.first }}{{ i }}{{ loop.nextitem }}{{ loop.previtem }} {% endfor %}",
    "{% for i in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}", "{% for i in xs %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}", "{% for i in xs %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}",
    "{% for i in xs %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for i in [1, 1, 2, 2, 1] %}{{ loop.changed(i) }} {% endfor %}", "{% for i in xs %}{{ loop.depth }}{{ loop.depth0 }}{% for j in xs %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}", "{% for i in xs %}{{ loop }} {% endfor %}",
    "{% for i in xs %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "{% for i in xs %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in xs %}{% for j in xs %}{% if j == 1 %}{% break %}{% endif %}{{ j }}{% endfor %}{{ i }} {% endfor %}", "{% break %}", "{% continue %}", "{% macro m() %}{% break %}{% endmacro %}",
    "{% for i in [1] %}{% continue %}{% else %}E{% endfor %}", "{% for i in [1, 2] %}{% break %}{% else %}E{% endfor %}", "{% for i in [1, 2] %}{% if i == 2 %}{% break %}{% endif %}{% else %}E{% endfor %}", "{% for i in xs %}{% macro q() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for n in tree recursive %}{{ n.v }}[{{ loop(n.kids) }}]{{ loop.depth }}{% endfor %}", "{% for n in tree recursive %}{% for k in n.kids %}{{ k.v }}{% endfor %}{% endfor %}", "{% for i in xs %}{{ loop(xs) }}{% endfor %}", "{% for n in tree recursive %}{{ n.v }}{% if n.kids %}({{ loop(n.kids) }}){% endif %}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for n in tree recursive %}{{ loop(n.kids) }}{% else %}-{% endfor %}", "{% set x = 1 %}{{ x }}{% set x = x + 1 %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [1, 2] %}{{ b }}{{ a }}", "{% set a, b = 1 %}", "{% set (a, b), c = (1, 2), 3 %}{{ a }}{{ b }}{{ c }}", "{% set x = 1, 2 %}{{ x }}", "{% set x = 1, %}{{ x }}",
    "{% set x %}a{{ n }}b{% endset %}{{ x }}|{{ x is string }}", "{% set x | upper %}ab{% endset %}{{ x }}", "{% set x | replace('a', 'b') | length %}aa{% endset %}{{ x + 1 }}", "{% set x %}\n  a\n{% endset %}[{{ x }}]", "{% set x %}{{ s }}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y }}",
    "{% set ns = namespace(a=1, b=[]) %}{% for i in xs %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}|", "{% set ns = namespace() %}{% set ns.x = 1 %}{% set ns.x, ns.y = 2, 3 %}{{ ns.x }}{{ ns.y }}{{ ns['x'] }}", "{% set ns = namespace({'q': 1}) %}{{ ns.q }} {{ ns }}", "{% set d.a = 5 %}", "{% set nope.a = 5 %}", "{% set ns = namespace(a=1) %}{% set ns._x = 1 %}",
    "{% set ns = namespace(_x=1) %}", "{% set ns = namespace() %}{% set ns.x %}cap{{ n }}{% endset %}{{ ns.x }}", "{{ namespace(a=1).a }} {{ namespace() is mapping }} {{ namespace(a=1) is iterable }}", "{% set ns = namespace(a=1) %}{% set ns2 = ns %}{% set ns2.a = 9 %}{{ ns.a }}", "{% set 1 = 2 %}", "{% set true = 2 %}", "{% set x.y.z = 2 %}", "{% set x[0] = 2 %}", "{% set x %}", "{% set x = %}", "{% set %}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}|", "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x }}|", "{% set a = 5 %}{% with a = a + 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with a, b = (1, 2) %}{{ a }}{{ b }}{% endwith %}", "{% with (a, b) = (1, 2) %}{{ a }}{{ b }}{% endwith %}",
    "{% filter upper %}ab{{ s }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}aXa{% endfilter %}", "{% filter indent(2) %}a\nb{% endfilter %}", "{% filter trim %}  a {% set q = 1 %}{{ q }}  {% endfilter %}{{ q }}|", "{% for i in xs %}{% filter upper %}a{{ i }}{% if i == 1 %}{% break %}{% endif %}{% endfilter %}{% endfor %}",
    "{% generation %}x{{ n }}{% endgeneration %}", "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}\n{{ m.content }}{% endgeneration %}\n{% else %}{{ m.content }}{% endif %}{% endfor %}", "{% generation %}{% set q = 3 %}{{ q }}{% endgeneration %}{{ q }}|", "{%- generation -%} a {%- endgeneration -%} b",
    "{% print 1, 'a' %}{% print s %}", "{% print %}", "{% do x %}", "{% unknown %}", "{% endif %}", "{% if t %}", "{% if t %}{% endfor %}", "{% for i in xs %}{% endif %}", "{% else %}", "{%%}", "{% 1 %}", "{{ }}", "{{ n", "{% if t", "{# x", "{% raw %}x", "{{ (1 }}", "{{ 1) }}", "{{ [1) }}", "{% if %}x{% endif %}", "{% for in xs %}{% endfor %}", "{% for x xs %}{% endfor %}", "{% for x in %}{% endfor %}", "{% for 1 in xs %}{% endfor %}", "{% for x.y in xs %}{% endfor %}", "{% endfor %}",
    "{% if t %}a{% else %}b{% else %}c{% endif %}", "{% if t %}a{% else %}b{% elif no %}c{% endif %}", "{% for i in xs %}{% set loop = 1 %}{% endfor %}", "{% for loop in xs %}{% endfor %}", "{% set loop = 5 %}{{ loop }}{% for i in [1] %}{{ loop.index }}{% endfor %}{{ loop }}", "{% for i in xs if loop.index %}{{ i }}{% endfor %}", "{% for i in 'ab' %}{% for j in xs if i == 'a' %}{{ i }}{{ j }}{% endfor %}{% endfor %}",
    "{% set ns = namespace(stop=false) %}{% for i in range(5) if not ns.stop %}{{ i }}{% if i == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}", "{% for i in xs|sort %}{{ i }}{% endfor %}", "{% for i in xs|reverse %}{{ i }}{{ loop.length }}{% endfor %}", "{% for i in xs, 5 %}{{ i }}{% endfor %}", "{% for x in xs recursive if x %}{% endfor %}", "{% for x in (xs if t else []) %}{{ x }}{% endfor %}", "{% for x in xs if t else [] %}{{ x }}{% endfor %}",
    "{% for a, b in [[1, 2], [3, 4]] if b > 2 %}{{ a }}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}", "{% for a, b in [[1, 2], [3, 4]] if a %}{{ loop.nextitem }}{% endfor %}", "{% for x in xs %}{% else %}{% endfor %}z", "{% for x in xs|map('string') %}{{ loop.last }}{{ loop.length }}{{ x }} {% endfor %}",
]

CASES["scope"] = [
    "{% set x = 1 %}{% for i in xs %}{% set x = i %}{{ x }}{% endfor %}{{ x }}", "{% for i in xs %}{{ x }}{% set x = i %}{{ x }};{% endfor %}{{ x }}|", "{% if t %}{% set x = 1 %}{% endif %}{{ x }}", "{% if no %}{% set n = 1 %}{% endif %}{{ n }}", "{% if t %}{% set n = 1 %}{% else %}{% set n = 2 %}{% endif %}{{ n }}", "{% for i in xs %}{% if i == 1 %}{% set x = 'one' %}{% endif %}{{ x }}|{% endfor %}",
    "{{ n }}{% set n = 1 %}{{ n }}", "{% set n = n + 1 %}{{ n }}", "{% for i in [1] %}{% set n = n + 1 %}{{ n }}{% endfor %}{{ n }}", "{% for n in xs %}{{ n }}{% endfor %}{{ n }}", "{% for xs in xs %}{{ xs }}{% endfor %}{{ xs }}", "{% set n %}{{ n }}x{% endset %}{{ n }}", "{% set n = 3 %}{% set n %}{{ n }}x{% endset %}{{ n }}", "{% macro m() %}{{ n }}{% endmacro %}{{ m() }}{% set n = 1 %}{{ m() }}", "{% set q = 1 %}{% macro m() %}{{ q }}{% endmacro %}{{ m() }}{% set q = 2 %}{{ m() }}",
    "{% macro m() %}{{ q }}{% endmacro %}{% for q in xs %}{{ m() }}{% endfor %}|", "{% for q in xs %}{% macro m() %}{{ q }}{% endmacro %}{{ m() }}{% endfor %}", "{% for q in xs %}{% macro m() %}x{% endmacro %}{% endfor %}{{ m is defined }}", "{% if t %}{% macro m() %}x{% endmacro %}{% endif %}{{ m() }}", "{{ m() }}{% macro m() %}x{% endmacro %}", "{% macro m() %}{% set n = 9 %}{{ n }}{% endmacro %}{{ m() }}{{ n }}", "{% macro m(n) %}{{ n }}{% endmacro %}{{ m() }}|{{ m(1) }}{{ n }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}", "{% macro m(n=n) %}{{ n }}{% endmacro %}{{ m() }}|", "{% macro m(a=b, b=1) %}{{ a }}{{ b }}{% endmacro %}{{ m() }}", "{% set bos_token = 'X' %}{{ bos_token }}", "{% for i in xs %}{% set ns = namespace(v=i) %}{{ ns.v }}{% endfor %}{{ ns }}|", "{% set x = 1 %}{% if t %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}{% endif %}", "{% if no %}{% set foo = 1 %}{% endif %}{{ foo is defined }}", "{% for i in xs %}{% if loop.first %}{% set a = 1 %}{% endif %}{{ a }};{% endfor %}",
    "{% set a = 0 %}{% for i in xs %}{% if loop.first %}{% set a = 1 %}{% endif %}{{ a }};{% endfor %}{{ a }}", "{% with n = 8 %}{% macro m() %}{{ n }}{% endmacro %}{{ m() }}{% endwith %}", "{% filter upper %}{% set n = 'x' %}{{ n }}{% endfilter %}{{ n }}", "{% set x = 1 %}{% set x %}{{ x }}{% set x = 2 %}{{ x }}{% endset %}{{ x }}", "{% macro outer() %}{% macro inner() %}{{ n }}i{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}", "{% macro fact(k) %}{% if k < 2 %}1{% else %}{{ k * fact(k - 1)|int }}{% endif %}{% endmacro %}{{ fact(5) }}", "{% macro rep(k) %}{% if k %}x{{ rep(k - 1) }}{% endif %}{% endmacro %}{{ rep(4) }}",
    "{% set messages = messages[1:] %}{{ messages|length }}", "{% if messages[0].role == 'system' %}{% set sys = messages[0].content %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}{{ sys }}{{ rest|length }}", "{% for m in messages %}{% set content = m.content %}{% if content is string %}{% set content = content ~ '!' %}{% endif %}{{ content }}{% endfor %}", "{% macro m() %}{{ loop }}{% endmacro %}{% for i in [1] %}{{ m() }}|{% endfor %}", "{% for i in [1, 2] %}{% for j in [1] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}", "{% for i in [1] %}{% for j in [] %}{% else %}{{ loop.index }}{% endfor %}{% endfor %}",
    "{% set x = 5 %}{% macro m() %}{% if no %}{% set x = 1 %}{% endif %}{{ x }}{% endmacro %}{{ m() }}", "{% macro m() %}{% if no %}{% set n = 1 %}{% endif %}{{ n }}{% endmacro %}{{ m() }}", "{% for i in xs %}{% if no %}{% set n = 1 %}{% endif %}{{ n }}{% endfor %}",
]

CASES["macros"] = [
    "{% macro m(a, b) %}[{{ a }},{{ b }}]{% endmacro %}{{ m(1, 2) }}{{ m(1) }}{{ m(b=2, a=1) }}{{ m() }}", "{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m(1, 2, 3) }}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(q=2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}", "{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}{{ m() }}", "{% macro m() %}{{ varargs|join('-') }}{% endmacro %}{{ m(1, 2) }}", "{% macro m() %}{{ kwargs.x }}{{ kwargs|length }}{% endmacro %}{{ m(x=1) }}",
    "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}body{{ n }}{% endcall %}", "{% macro m() %}<{{ caller(1, 2) }}>{% endmacro %}{% call(a, b) m() %}{{ a }}{{ b }}{% endcall %}", "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% macro m(x) %}{{ x }}{% endmacro %}{% call m(1) %}y{% endcall %}", "{% macro m(caller) %}{{ caller() }}{% endmacro %}", "{% macro m(caller=none) %}{{ caller is none }}{% endmacro %}{{ m() }}", "{% macro list_all(xs) %}{% for x in xs %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(i) list_all(xs) %}({{ i }}){% endcall %}", "{% call n %}{% endcall %}", "{% call nope() %}{% endcall %}",
    "{% macro m(a, a) %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m %}{% endmacro %}", "{% macro %}{% endmacro %}", "{% macro m() %}\n  a\n{% endmacro %}[{{ m() }}]", "{%- macro m() -%}\n  a\n{%- endmacro -%}\n[{{ m() }}]", "{% macro m() %}x{% endmacro %}{{ m }}|{{ m.name }}|{{ m is callable }}", "{% macro m(a, b=1) %}{% endmacro %}{{ m.arguments }}", "{% macro m() %}a{% endmacro %}{{ m()|upper }}{{ m() ~ 'b' }}{{ m() is string }}", "{% macro m(x) %}{{ x|safe }}{% endmacro %}{{ m('<') + '<' }}", "{% macro m(*args) %}{% endmacro %}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'a': 2}) }}{{ m(*xs[:1], **{}) }}", "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*(1, 2)) }}{{ m(1, **{'b': 3}) }}", "{{ dict(a=1, a=2) }}", "{{ dict(a=1, 2) }}", "{{ dict(*[], *[]) }}", "{{ dict(**{'a': 1}, b=2) }}",
    "{{ 'x'() }}", "{{ xs() }}", "{{ none() }}", "{{ s.upper(1) }}", "{{ s.upper(a=1) }}", "{% set f = s.upper %}{{ f() }}", "{% set l = range %}{{ l(2)|list }}", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set _ = c.reset() %}{{ c.next() }}", "{% set j = joiner(', ') %}{% for i in xs %}{{ j() }}{{ i }}{% endfor %}", "{% set j = joiner() %}{{ j() }}{{ j() }}", "{{ cycler() }}", "{{ raise_exception('boom') }}", "{{ raise_exception() }}", "{% if no %}{{ raise_exception('x') }}{% endif %}ok", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{% macro m(x='a' ~ 'b', y=[1]) %}{{ x }}{{ y }}{% endmacro %}{{ m() }}", "{% macro m(kwargs) %}{{ kwargs }}{% endmacro %}{{ m(1) }}", "{% macro m(varargs=1) %}{{ varargs }}{% endmacro %}{{ m() }}", "{% macro true() %}{% endmacro %}",
    "{% macro m() %}{% call n2() %}x{% endcall %}{% endmacro %}{% macro n2() %}[{{ caller() }}]{% endmacro %}{{ m() }}", "{% macro m(a) %}{{ a }}{{ caller() }}{% endmacro %}{% call m(1) %}{% call m(2) %}z{% endcall %}{% endcall %}",
]

CASES["filters"] = [
    "{{ s|upper }} {{ s|lower }} {{ u|upper }} {{ u|lower }} {{ s|title }} {{ s|capitalize }} {{ nul|upper }} {{ 5|upper }} {{ xs|upper }}", "{{ \"it's a c_d (foo) [bar] x-y {z} <w> A.b\"|title }}", "{{ '\u00df\ufb01x'|title }} {{ '\u00dfx'|capitalize }} {{ '\ufb01x'|capitalize }} {{ '\u01c6'|capitalize }} {{ '\u01c6'|title }}", "{{ '\u039f\u0394\u039f\u03a3'|lower }} {{ '\u03a3'|lower }} {{ 'A\u03a3.B'|lower }} {{ '\u0130'|lower|length }} {{ '\u00df'|upper }} {{ '\u0149'|upper }}",
    "[{{ sp|trim }}] [{{ 'xxaxx'|trim('x') }}] [{{ '\\u00a0a\\u2003'|trim }}] [{{ 5|trim }}] [{{ '\\x1ca'|trim }}] [{{ nope|trim }}]", "{{ s|length }} {{ u|length }} {{ xs|length }} {{ d|length }} {{ nope|length }} {{ e|count }} {{ range(4)|length }}", "{{ nul|length }}", "{{ 5|length }}", "{{ true|length }}",
    "{{ s|replace('o', '0') }} {{ s|replace('o', '0', 1) }} {{ 'aaa'|replace('a', 'b', 2) }} {{ 'ab'|replace('', '-') }} {{ 12321|replace(2, 'x') }} {{ nul|replace('N', 'n') }}|{{ nope|replace('a', 'b') }}|{{ 'abc'|replace('b', nope) }}", "{{ s|replace('a') }}", "{{ s|replace }}", "{{ s|replace(old='o', new='x') }} {{ s|replace('o', 'x', count=1) }}", "{{ s|default('x') }} {{ nope|default('x') }} {{ nope|d('y') }} {{ e|default('x') }}|{{ e|default('x', true) }} {{ nul|default('x') }} {{ nul|default('x', boolean=true) }} {{ nope|default }}|{{ d.q|default('w') }} {{ nope|default(default_value=3) }}", "{{ nope.x|default('a') }}",
    "{{ xs|join }} {{ xs|join(', ') }} {{ words|join('-') }} {{ rows|join(', ', attribute='name') }} {{ s|join('.') }} {{ nope|join }}|{{ d.b|join }} {{ [1, none, 'a', true]|join(',') }} {{ xs|join(1) }} {{ xs|join(d='|') }}", "{{ nul|join }}", "{{ 5|join }}", "{{ rows|map(attribute='name')|join(',') }} {{ rows|map(attribute='tag.k')|list }} {{ rows|map(attribute='q', default='-')|join }} {{ nest|map(attribute=0)|list }} {{ nest|map(attribute='1.0')|list }} {{ words|map('upper')|list }} {{ words|map('replace', 'A', 'z')|list }} {{ xs|map('string')|join }}",
    "{{ rows|map('nosuch')|list }}", "{{ empty|map('nosuch')|list }}", "{{ rows|map()|list }}", "{{ rows|map(attribute='a', q=1)|list }}", "{{ rows|map('attr', 'name')|list }}", "{{ xs|select('odd')|list }} {{ xs|reject('odd')|list }} {{ [0, 1, '', 'a', none]|select|list }} {{ [0, 1, '']|reject|list }} {{ xs|select('greaterthan', 1)|list }} {{ xs|select('>', 1)|list }} {{ xs|select('in', [1, 2])|list }}", "{{ rows|selectattr('ok')|map(attribute='name')|list }} {{ rows|rejectattr('ok')|map(attribute='name')|list }} {{ rows|selectattr('age', '==', 1)|map(attribute='name')|join }} {{ rows|selectattr('tag.k', 'defined')|list|length }} {{ rows|rejectattr('age', 'gt', 1)|map(attribute='name')|list }} {{ rows|selectattr('name', 'in', ['Bo'])|list|length }}", "{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|first }}", "{{ messages|rejectattr('role', 'eq', 'user')|list|length }}", "{{ xs|select('nosuch')|list }}", "{{ rows|selectattr|list }}",
    "{{ xs|select('odd') is iterable }} {{ xs|select('odd') is sequence }} {% if empty|select %}T{% else %}F{% endif %}{% if xs|select('gt', 99) %}T{% endif %}", "{% set g = xs|map('string') %}{{ g|list }}{{ g|list }}", "{{ d|items|list }} {{ nope|items|list }} {% for k, v in d.b|items %}{{ k }}{{ v }}{% endfor %}", "{{ nul|items|list }}", "{{ xs|items|list }}", "{{ d.b|dictsort }} {{ {'b': 1, 'A': 3, 'c': 2}|dictsort }} {{ {'b': 1, 'A': 3}|dictsort(true) }} {{ {'b': 1, 'A': 3, 'c': 2}|dictsort(by='value') }} {{ {'b': 1, 'A': 3}|dictsort(reverse=true) }} {{ {'a': 'B', 'b': 'a'}|dictsort(false, 'value') }}", "{{ d|dictsort(by='q') }}", "{{ xs|dictsort }}", "{{ {1: 1, 'a': 2}|dictsort }}", "{{ nope|dictsort }}",
    "{{ xs|first }} {{ xs|last }} {{ s|first }}{{ s|last }} {{ empty|first }}|{{ empty|last }}|{{ nope|first }}|{{ nope|last }}|{{ d.b|first }} {{ d.b|last }} {{ range(3)|last }}", "{{ nul|first }}", "{{ 5|first }}", "{{ nul|last }}", "{{ s|list }} {{ d|list }} {{ (1, 2)|list }} {{ nope|list }} {{ range(2)|list }}", "{{ nul|list }}", "{{ xs|string }} {{ 5|string }}{{ nul|string }} {{ nope|string }}| {{ d|string }} {{ s|string }} {{ true|string }} {{ 1.0|string }}",
    "{{ '3.7'|int }} {{ '12'|int }} {{ 'abc'|int }} {{ 'abc'|int(5) }} {{ '0x1f'|int(0, 16) }} {{ '1f'|int(base=16) }} {{ '0b11'|int(0, 2) }} {{ '0o17'|int(0, 8) }} {{ nul|int }} {{ 3.9|int }} {{ -3.9|int }} {{ true|int }} {{ ' 42 '|int }} {{ '1_000'|int }} {{ '-5'|int }} {{ '+5'|int }} {{ xs|int(7) }} {{ '1e3'|int }} {{ ''|int }} {{ '12345678901234567890123'|int }} {{ '0x1f'|int }} {{ '08'|int }} {{ '-12345678901234567890123'|int }}", "{{ nope|int }}", "{{ 'inf'|int }} {{ 'nan'|int(3) }}", "{{ 1e20|int }} {{ -1e25|int }} {{ '1e20'|int }}", "{{ 1e400|int }}", "{{ '3.7'|float }} {{ 'x'|float }} {{ 'x'|float(1.5) }} {{ 3|float }} {{ true|float }} {{ '1e3'|float }} {{ ' 2 '|float }} {{ nul|float }} {{ 'inf'|float }} {{ '-Infinity'|float }} {{ '1_0.5'|float }} {{ '.5'|float }} {{ '5.'|float }} {{ xs|float }} {{ 'nan'|float }}", "{{ nope|float }}",
    "{{ -5|abs }} {{ -2.5|abs }} {{ true|abs }} {{ neg|abs }}", "{{ 'a'|abs }}", "{{ nope|abs }}", "{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 5|round }} {{ 15|round(-1) }} {{ 25|round(-1) }} {{ -15|round(-1) }} {{ 42.55|round(1, 'floor') }} {{ 42.55|round(1, 'ceil') }} {{ 42.1|round(method='ceil') }} {{ 2.5|round|int }} {{ 1234.567|round(-2) }} {{ 0.5|round }} {{ 1.5|round }} {{ true|round }} {{ 1e300|round(2) }} {{ 5|round(method='floor') }}", "{{ 'a'|round }}", "{{ 2.5|round(1, 'x') }}", "{{ xs|min }} {{ xs|max }} {{ words|min }} {{ words|max }} {{ empty|min }}|{{ rows|max(attribute='age') }} {{ words|min(case_sensitive=true) }} {{ (3, 1)|max }} {{ 'hello'|max }} {{ nope|max }}|", "{{ [1, 'a']|max }}", "{{ nul|min }}", "{{ xs|sum }} {{ rows|sum(attribute='age') }} {{ xs|sum(start=10) }} {{ [1.5, 2]|sum }} {{ empty|sum }} {{ [[1], [2]]|sum(start=[]) }}", "{{ words|sum }}", "{{ [1, none]|sum }}",
    "{{ xs|sort }} {{ xs|sort(reverse=true) }} {{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ rows|sort(attribute='age')|map(attribute='name')|list }} {{ rows|sort(attribute='name')|map(attribute='name')|list }} {{ words|sort(true) }} {{ 'hello'|sort }} {{ d.b|sort }} {{ nest|sort }} {{ [3, 1.5, true]|sort }}", "{{ [(1, 'b'), (1, 'a'), (0, 'z')]|sort(attribute='0') }} {{ [(1, 'b'), (1, 'a'), (0, 'z')]|sort(attribute='0,1') }} {{ [(1, 'b'), (1, 'a'), (0, 'z')]|sort(attribute=0, reverse=true) }}", "{{ [1, 'a']|sort }}", "{{ [none, 1]|sort }}", "{{ nul|sort }}", "{{ ['a', 'A', 'b', 'a']|unique|list }} {{ ['a', 'A']|unique(true)|list }} {{ [1, 1.0, true, 2]|unique|list }} {{ rows|unique(attribute='age')|list|length }}", "{{ [[1], [1]]|unique|list }}",
    "{{ xs|reverse|list }} {{ s|reverse }} {{ u|reverse }} {{ d|reverse|list }} {{ range(3)|reverse|list }} {{ nope|reverse|list }}", "{{ 5|reverse }}", "{{ 'a\\nb\\n\\nc'|indent }}", "{{ 'a\\nb\\n\\nc'|indent(2, true) }}|{{ 'a\\n\\nb'|indent(2, blank=true) }}|{{ 'a\\nb'|indent('> ') }}|{{ 'a\\nb\\n'|indent(1) }}|{{ ''|indent }}|{{ ''|indent(2, true) }}|{{ 'a\\r\\nb\\x0bc\\u2028d'|indent(1) }}|{{ 'a\\r'|indent }}|", "{{ 5|indent }}", "{{ nope|indent }}", "{{ 'a\\nb'|indent(width=3, first=true) }}", "{{ html|e }} {{ html|escape }} {{ '<'|e|e }} {{ '<'|safe }} {{ '<'|safe|e }} {{ 5|e }} {{ nul|e }} {{ nope|e }}|{{ ['<']|e }}",
    "{{ '<b>'|safe + '<i>' }} {{ '<i>' + '<b>'|safe }} {{ ('<b>'|safe ~ '<i>') + '<' }} {{ ('<b>'|safe)[0:2] + '<' }} {{ ('<b>'|safe|upper) + '<' }} {{ ('<b>'|safe).replace('b', '<') }} {{ '<b>'|safe|replace('b', 'i') + '<' }} {{ '<'|safe * 2 + '<' }}", "{{ ('<%s>'|safe) % '<' }} {{ ('<%s %d>'|safe) % ('&', 3) }} {{ ('<{}>'|safe).format('<') }} {{ ('<'|safe).join(['<', '>']) }} {{ ['<'|safe, '<']|join }} {{ ['<'|safe] }} {{ (' < '|safe).strip() + '<' }} {{ ('<,<'|safe).split(',')[0] + '<' }} {{ ('<'|safe)|trim + '<' }} {{ ('<'|safe)|string + '<' }} {{ ('<'|safe)|title + '<' }} {{ ('a<'|safe)|capitalize + '<' }} {{ ('<'|safe)|indent + '<' }} {{ ('<'|safe)|list }} {{ ('<'|safe)|reverse + '<' }} {{ ('<'|safe)|first + '<' }} {{ '<'|safe is escaped }} {{ '<' is escaped }}", "{{ ('<'|safe)|tojson }} {{ ('<'|safe) == '<' }} {{ {'<': 1}['<'|safe] }} {{ ('x'|safe) in 'xyz' }} {{ ('%s'|safe)|format('<') }} {{ ('<' ~ '>'|safe) + '&' }} {{ ('<'|safe)|length }} {{ 'a'|safe + 1|string }}", "{{ '<'|safe + 1 }}", "{{ ('&'|safe)|center(5) + '&' }}|{{ ('a b c d'|safe)|truncate(5, true, '<', 0) }}",
    "{{ xs|batch(2)|list }} {{ xs|batch(2, 0)|list }} {{ range(5)|batch(2)|map('list')|list }} {{ empty|batch(2)|list }} {{ xs|batch(5, 'x')|list }} {{ xs|batch(0)|list }}", "{{ range(7)|slice(3)|list }} {{ range(7)|slice(3, 'x')|list }} {{ xs|slice(5)|list }} {{ xs|slice(2, none)|list }}", "{{ xs|slice(0)|list }}", "{{ rows|groupby('age')|list|length }} {% for g in [{'c': 'x', 'v': 1}, {'c': 'Y', 'v': 2}, {'c': 'X', 'v': 3}]|groupby('c') %}{{ g.grouper }}:{{ g.list|map(attribute='v')|join(',') }};{{ g[0] }} {% endfor %}{% for k, v in rows|groupby('ok', default=false) %}{{ k }}{{ v|length }} {% endfor %}", "{{ [{'a': 1}]|groupby('a') }}", "{{ rows|groupby('name', case_sensitive=true)|map(attribute='grouper')|list }}", "{{ 'a b  c_d e-f \u00e9t\u00e9'|wordcount }} {{ ''|wordcount }} {{ 5|wordcount }}", "{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9, true) }} {{ 'foo bar baz qux'|truncate(11) }} {{ 'foo bar baz qux'|truncate(11, false, '...', 0) }} {{ 'abcdefghij'|truncate(3, leeway=0) }} {{ s|truncate }} {{ 'abc def ghi jkl mno'|truncate(length=8, end='!') }}", "{{ s|truncate(1) }}", "{{ '%s, %s!'|format('a', 3) }} {{ '%(x)s'|format(x=1) }} {{ '%d%%'|format(5) }} {{ 5|format }}", "{{ '%s'|format }}", "{{ '%s'|format(1, x=2) }}", "{{ 'ab'|center(7) }}|{{ 'abc'|center(6) }}|{{ 5|center(3) }}|{{ 'a'|center|length }}", "{{ s|nosuch }}", "{{ s|nosuch if no else 'ok' }}", "{% if no %}{{ s|nosuch }}{% endif %}ok", "{% if t %}{{ s|nosuch }}{% endif %}", "{% if no %}{% for i in xs %}{{ i|nosuch }}{% endfor %}{% endif %}", "{{ s is nosuch }}", "{{ 1 if s is nosuch else 2 }}", "{% for i in xs %}{{ 'a' if t else i|nosuch }}{% endfor %}", "{{ s|upper|lower|title }}", "{{ s|upper() }} {{ s | upper }}", "{{ s|upper(1) }}", "{{ s|d.e }}", "{{ s| }}", "{{ |upper }}", "{{ 'a'|upper 'b' }}", "{{ (s|upper)[0] }} {{ s|upper|first }}", "{{ [1, 2]|map('float')|sum }}", "{{ xs|map('default', 5)|list }}", "{{ words|map('upper')|join(', ')|lower }}", "{{ xs|sort|first }}{{ xs|sort|last }}", "{{ 'filter' is filter }} {{ 'upper' is filter }} {{ 'odd' is test }} {{ 'tojson' is filter }} {{ 5 is filter }}",
]

CASES["tojson"] = [
    "{{ xs|tojson }} {{ d|tojson }} {{ nul|tojson }} {{ t|tojson }} {{ 1.0|tojson }} {{ tiny|tojson }} {{ 1e22|tojson }} {{ big|tojson }} {{ u|tojson }} {{ empty|tojson }} {{ ed|tojson }} {{ (1, 2)|tojson }}", "{{ html|tojson }}", "{{ '\\x00\\x1f\\x7f\\\\\\\"\\n\\r\\t\\x08\\x0c/\\u2028'|tojson }}", "{{ d|tojson(indent=2) }}", "{{ [[], {}, [1, [2]], {'a': {}}]|tojson(indent=4) }}", "{{ d|tojson(2) }}", "{{ u|tojson(ensure_ascii=true) }} {{ '\\x7f\u00e9\U0001f600'|tojson(true) }}", "{{ d|tojson(separators=(',', ':')) }} {{ xs|tojson(separators=['; ', '=']) }}", "{{ {'b': 1, 'a': {'d': 1, 'c': 2}}|tojson(sort_keys=true) }} {{ {'b': 1, 'a': 2}|tojson }}", "{{ {1: 'a', true: 'b', none: 'c', 1.5: 'd'}|tojson }}", "{{ d|tojson(indent='--') }}", "{{ xs|tojson(indent=0) }}", "{{ nope|tojson }}", "{{ [nope]|tojson }}", "{{ range(3)|tojson }}", "{{ d.items()|tojson }}", "{{ {(1, 2): 3}|tojson }}", "{{ namespace(a=1)|tojson }}", "{{ s.upper|tojson }}", "{{ tools|tojson(indent=4) }}", "{{ tools[0]|tojson }}", "{{ messages[2].tool_calls[0].function.arguments|tojson }}", "{{ 'inf'|float|tojson }} {{ 'nan'|float|tojson }} {{ ('-inf'|float)|tojson }}", "{{ {'a': 1}|tojson|length }} {{ d|tojson is string }}", "{{ xs|tojson(indent=2, separators=(',', ': ')) }}", "{{ {'a': [1, 2], 'b': none}|tojson(indent=1) }}", "{{ {'b': 1, 1: 2}|tojson(sort_keys=true) }}", "{{ '\ud7ff\ue000'|tojson }}", "{{ xs|tojson(q=1) }}", "{{ [1, 'a']|map('tojson')|list }}", "{{ 12345678901234567890|tojson }} {{ -0.0|tojson }} {{ 1e16|tojson }}", "{{ s|tojson|tojson }}", "{{ d|tojson|safe }}", "{{ {'k': 'v'}|tojson ~ '\n' }}", "{{ xs|tojson(indent=none) }}",
]

CASES["tests"] = [
    "{{ s is defined }} {{ nope is defined }} {{ d.a is defined }} {{ d.q is defined }} {{ nul is defined }} {{ nope is undefined }} {{ s is not defined }} {{ nope is not undefined }}", "{{ nul is none }} {{ s is none }} {{ nope is none }} {{ nul is not none }}", "{{ s is string }} {{ 5 is string }} {{ nope is string }} {{ s is not string }} {{ xs is not string }}", "{{ d is mapping }} {{ xs is mapping }} {{ nope is mapping }}", "{{ xs is iterable }} {{ s is iterable }} {{ d is iterable }} {{ 5 is iterable }} {{ nul is iterable }} {{ nope is iterable }} {{ range(1) is iterable }}", "{{ xs is sequence }} {{ s is sequence }} {{ d is sequence }} {{ 5 is sequence }} {{ nope is sequence }} {{ (1,) is sequence }} {{ range(1) is sequence }} {{ nul is sequence }}", "{{ 5 is number }} {{ 2.5 is number }} {{ true is number }} {{ '5' is number }} {{ nul is number }} {{ big is number }}", "{{ 5 is integer }} {{ 2.0 is integer }} {{ true is integer }} {{ 2.5 is float }} {{ 5 is float }} {{ big is integer }}", "{{ true is boolean }} {{ 1 is boolean }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 0 is false }} {{ nul is false }}", "{{ 3 is odd }} {{ 4 is odd }} {{ 4 is even }} {{ -3 is odd }} {{ 3.0 is odd }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 0 is even }}", "{{ 'a' is odd }}", "{{ nul is even }}", "{{ nope is odd }}", "{{ 1 is divisibleby 0 }}", "{{ 1 is eq 1 }} {{ 1 is equalto 2 }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 1 is lessthan 0 }} {{ 2 is gt 1 }} {{ 2 is greaterthan 3 }} {{ 2 is ge 2 }} {{ 2 is le 1 }} {{ 'a' is eq 'a' }} {{ 1 is eq(1) }}", "{{ 1 is == 1 }}", "{{ 1 is in [1] }} {{ 'a' is in 'abc' }} {{ 1 is not in [1] }}", "{{ 1 is in 5 }}", "{{ true is sameas true }} {{ 1 is sameas true }} {{ nul is sameas none }} {{ xs is sameas xs }} {{ [] is sameas [] }} {{ xs is sameas(xs) }}", "{{ range is callable }} {{ s is callable }} {{ s.upper is callable }} {{ nope is callable }} {{ namespace is callable }} {{ namespace() is callable }} {{ dict is callable }}", "{{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'aB' is lower }} {{ '123' is lower }} {{ 5 is upper }} {{ '\u00df' is lower }} {{ '\u01c5' is upper }} {{ 'A1' is upper }}", "{{ x is defined and x }} {{ s is defined and s is string }}", "{{ s is defined or nope }} {{ not s is defined }} {{ not nope is defined }}", "{{ 1 is odd is defined }}", "{{ 'a' if s is defined else 'b' }}", "{{ s is defined if t }}", "{{ s is string == true }} {{ 1 + 2 is number }}", "{{ -1 is number }} {{ s|length is number }} {{ s.x is defined }} {{ s['x'] is not defined }}", "{{ xs|length > 2 and xs is iterable }}", "{{ s is }}", "{{ s is 5 }}", "{{ s is defined(1) }}", "{{ 5 is divisibleby }}", "{{ 5 is divisibleby 1, 2 }}", "{{ 5 is divisibleby n }} {{ 10 is divisibleby n - 1 }}", "{{ 3 is in xs }} {{ 3 is in(xs) }}", "{{ 4 is even and 3 is odd and not (3 is even) }}", "{{ (5 is eq 5) if t else 1 }}", "{{ true is integer }} {{ 1.0 is number }} {{ 'x' is test }} {{ 'defined' is test }} {{ '==' is test }}", "{{ s is not none and s is not mapping }}", "{{ [] is defined }} {{ {} is mapping }} {{ () is sequence }} {{ '' is string }}", "{{ d.b.c is iterable and d.b.c is not string and d.b.c is not mapping }}", "{{ s is string() }} {{ n is number () }}", "{{ 2 is lt(3) }} {{ 2 is ge(3) }} {{ 'a' is lt 'b' }}", "{{ 1 is lt 'a' }}", "{{ s is equalto s }} {{ s is equalto 'x' }}", "{{ nope is eq nope2 }}",
]

CASES["strings"] = [
    "{{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b '.split() }} {{ 'a b c'.split(none, 1) }} {{ 'a,,b'.split(',') }} {{ ''.split(',') }} {{ ''.split() }} {{ 'abc'.split('abc') }} {{ 'a--b-c'.split('--') }} {{ ' a b  c '.split(none, 1) }} {{ 'a b'.split(maxsplit=1) }} {{ 'a,b'.split(sep=',') }}", "{{ 'a'.split('') }}", "{{ 'a'.split(1) }}", "{{ 'a,b,c'.rsplit(',', 1) }} {{ 'a b c'.rsplit(none, 1) }} {{ 'a,b,c'.rsplit(',') }} {{ ' a  b '.rsplit() }} {{ 'aXbX'.rsplit('X', 1) }} {{ ' a b c '.rsplit(none, 1) }}", "[{{ sp.strip() }}] [{{ sp.lstrip() }}] [{{ sp.rstrip() }}] {{ 'xyaxy'.strip('yx') }} {{ 'xxa'.lstrip('x') }} {{ 'axx'.rstrip('x') }} {{ 'a\\n'.rstrip('\\n') }} [{{ ''.strip() }}] {{ 'aaa'.strip('a') }}| {{ '\u00e9a\u00e9'.strip('\u00e9') }} {{ ' a '.strip(none) }}|", "{{ s.startswith('He') }} {{ s.startswith(('x', 'He')) }} {{ s.endswith('ld') }} {{ s.endswith(('x', 'y')) }} {{ s.startswith('') }} {{ s.startswith('lo', 3) }} {{ s.endswith('lo', 0, 5) }} {{ ''.startswith('a') }} {{ s.startswith(()) }} {{ s.startswith('', 99) }}", "{{ s.startswith(1) }}", "{{ s.startswith(['a']) }}",
    "{{ s.replace('o', '0') }} {{ s.replace('o', '0', 1) }} {{ s.replace('l', '') }} {{ 'ab'.replace('', '-') }} {{ 'ab'.replace('', '-', 2) }} {{ ''.replace('', 'x') }} {{ 'aaa'.replace('aa', 'b') }} {{ '\u00e9\u00e9'.replace('', '-', 1) }}", "{{ s.replace('a') }}", "{{ s.replace(1, 2) }}", "{{ s.upper() }} {{ s.lower() }} {{ \"it's a x1y\".title() }} {{ 'hELLO wORLD'.capitalize() }} {{ 'aBc'.swapcase() }} {{ '\u00df\u0149'.upper() }} {{ '\u01c6x'.title() }}", "{{ s.find('o') }} {{ s.find('o', 5) }} {{ s.find('z') }} {{ s.rfind('o') }} {{ s.index('W') }} {{ s.count('l') }} {{ s.count('') }} {{ u.find('x') }} {{ s.find('o', -3) }} {{ s.find('') }} {{ s.find('', 99) }} {{ s.rfind('') }} {{ s.find('H', 1) }} {{ s.count('o', 5) }} {{ s.find('o', 5, 2) }} {{ s.find('', 5, 2) }} {{ s.count('l', 0, 4) }} {{ s.rindex('l') }}", "{{ s.index('z') }}", "{{ s.find(1) }}", "{{ ','.join(['a', 'b']) }} {{ ''.join(words) }} {{ ', '.join(d.b) }} {{ '-'.join('abc') }} {{ ','.join([]) }}|{{ ','.join(words|map('upper')) }}", "{{ ','.join([1]) }}", "{{ ','.join(nul) }}", "{{ '{} {}'.format(1, 'a') }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{x}'.format(x=1) }} {{ '{{}}'.format() }} {{ '{:>5}|{:<5}|{:^5}'.format('a', 'b', 'c') }} {{ '{:05d} {:.2f} {:x} {:,}'.format(42, 3.14159, 255, 1234567) }} {{ '{!r}'.format('a') }} {{ '{0[a]} {0.a}'.format({'a': 1}) }} {{ '{:*^9}'.format('mid') }} {{ '{:+d}'.format(3) }} {{ '{:%}'.format(0.25) }} {{ '{:>{w}}'.format('a', w=4) }} {{ '{:e}'.format(12345.678) }} {{ '{:10.3}|'.format('abcdef') }} {{ '{}'.format(none) }} {{ '{:d}'.format(true) }} {{ '{!s:>4}'.format(1) }} {{ '{:.3}'.format(3.14159) }} {{ '{:g}'.format(1e10) }} {{ '{:#x}'.format(255) }} {{ '{:b}'.format(5) }} {{ '{:6}|{:<6}|'.format(3, 4) }} {{ '{0[1]}'.format([1, 2]) }} {{ '{:08.3f}'.format(-3.14159) }} {{ '{:=+6d}'.format(3) }}", "{{ '{}'.format() }}", "{{ '{x}'.format(1) }}", "{{ '{'.format(1) }}", "{{ '}'.format(1) }}", "{{ '{0} {}'.format(1, 2) }}", "{{ '{:d}'.format('a') }}", "{{ '{:>5}'.format(none) }}", "{{ '{.__class__}'.format('a') }}|",
    "{{ 'a\\nb\\r\\nc\\rd'.splitlines() }} {{ 'a\\n'.splitlines() }} {{ 'a\\nb'.splitlines(true) }} {{ ''.splitlines() }} {{ '\\n\\n'.splitlines() }} {{ 'a\\x0bb\\x0cc\\x1cd\\x85e\\u2028f'.splitlines() }}", "{{ '12'.isdigit() }} {{ '\u0661'.isdigit() }} {{ '\u00b2'.isdigit() }} {{ '\u00bd'.isdigit() }} {{ ''.isdigit() }} {{ 'ab'.isalpha() }} {{ '\u00e9\u4e2d'.isalpha() }} {{ 'a1'.isalnum() }} {{ 'a_'.isalnum() }} {{ '\u00bd'.isalnum() }} {{ 'AB'.isupper() }} {{ 'ab'.islower() }} {{ ' \\t\\n'.isspace() }} {{ '\\u00a0\\u3000'.isspace() }} {{ '\\u200b'.isspace() }} {{ 'Ab Cd'.istitle() }} {{ '\u00b2'.isdecimal() }} {{ 'a'.isascii() }} {{ '\u00aa'.islower() }} {{ '\u2160'.isupper() }} {{ 'A b'.istitle() }} {{ ''.isascii() }}", "{{ '5'.zfill(3) }} {{ '-5'.zfill(4) }} {{ '+a'.zfill(5) }} {{ 'abc'.zfill(2) }} {{ 'a'.ljust(3) }}|{{ 'a'.rjust(3, '.') }}|{{ 'a'.center(4, '*') }}|{{ 'ab'.center(5) }}|{{ 'a'.ljust(2, '\u00e9') }}", "{{ 'a'.ljust(3, 'ab') }}", "{{ 'abc'.removeprefix('ab') }} {{ 'abc'.removesuffix('bc') }} {{ 'abc'.removeprefix('x') }} {{ 'abc'.removesuffix('') }} {{ 'a'.removesuffix('abc') }}", "{{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.partition('-') }} {{ 'abc'.rpartition('-') }}", "{{ 'a'.partition('') }}", "{{ s.upper is callable }}", "{{ '</think>' in 'a</think>b' }} {{ 'a</think>b'.split('</think>')[-1].lstrip('\\n') }} {{ 'a</think>b'.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') }}", "{{ ('a' ~ 'b').upper() }} {{ 'abc'[1:].upper() }} {{ ('a', 'b')[0].upper() }} {{ 'a'.upper().lower().title() }}", "{{ 'ABC'.lower().split('b')|join('-') }}", "{{ s.nosuch }}|", "{{ ' x '.strip().center(5, '-') }}", "{{ 'abc'.strip(1) }}", "{{ 'a'.startswith() }}", "{{ s.count() }}",
]

CASES["printing"] = [
    "{{ none }}{{ true }}{{ false }}{{ 1 }}{{ 1.0 }}{{ 1e20 }}{{ 1e-5 }}{{ 0.1 }}{{ -0.0 }}{{ 100000000000000000000.0 }}{{ 1e15 }}{{ 1e16 }}{{ 123456.789e3 }}", "{{ [none, true, 1.5, 'a', \"b'c\", 'd\"e'] }} {{ {'a': none} }} {{ (1,) }} {{ [[]] }} {{ [()] }} {{ {'a': {'b': [1]}} }}", "{{ ['\\\\', '\\n', '\\x01', '\u00e9', '\\u200d', '\\ue000', '\\u0378'] }}", "{{ [nope] }} {{ {'a': nope} }} {{ nope }}|", "{{ [range(2)] }} {{ [u] }} {{ [big, tiny] }}", "{{ messages[1] }} {{ messages[2].tool_calls }}", "{{ d }} {{ nest }} {{ rows[0] }}", "{{ 'inf'|float }} {{ 'nan'|float }} {{ -('inf'|float) }}", "{{ 5 // 2 }} {{ 5 / 2 }} {{ 4 / 2 }} {{ 2 ** 62 }} {{ 1 / 3 }} {{ 2 / 3 }} {{ 10 ** 15 * 1.0 }} {{ 1e23 }} {{ 9007199254740993.0 }}", "{{ {1: 2, 'a': (1, 2)} }} {{ {'x': 'y'}|string }} {{ xs|string ~ d.b|string }}", "{{ namespace(a='b') }}", "{{ [namespace()] }}", "{{ {true: 1, none: 2, 1.5: 3} }}",
]

CASES["chat"] = [
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}", "{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{% endif %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}{% elif m.role == 'assistant' %}{{ m.content + eos_token }}{% endif %}{% endfor %}", "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{{ message['role'] ~ ': ' ~ content.strip() }}|{% endfor %}",
    "{%- set ns = namespace(is_first=true, found=false) -%}\n{%- for message in messages -%}\n  {%- if message.tool_calls is defined and message.tool_calls -%}\n    {%- for tc in message.tool_calls -%}\n      {%- set fn = tc.function -%}\n      {{- '\\n<tool_call>\\n{\"name\": \"' ~ fn.name ~ '\", \"arguments\": ' }}\n      {{- fn.arguments | tojson }}\n      {{- '}\\n</tool_call>' }}\n    {%- endfor -%}\n  {%- endif -%}\n{%- endfor -%}", "{% for t in tools %}{{ t.function | tojson(indent=4) }}{{ '\\n\\n' }}{% endfor %}", "{%- for message in messages[::-1] %}{%- set index = (messages|length - 1) - loop.index0 %}{{ index }}{{ message.role }}{% endfor %}", "{%- macro render(x, first=true) -%}{%- if x is mapping -%}{%- for k, v in x.items() -%}{{ k }}({{ render(v, false) }}){%- endfor -%}{%- elif x is iterable and x is not string -%}[{%- for i in x -%}{{ render(i) }}{{ ',' if not loop.last }}{%- endfor -%}]{%- else -%}{{ x }}{%- endif -%}{%- endmacro -%}{{ render(tools) }}", "{{ strftime_now is defined }} {{ (strftime_now('%Y')|int) > 2000 }}", "{% set today = strftime_now('%d %b %Y') if strftime_now is defined else '26 Jul 2024' %}{{ today|length }}", "{% if tools is not none and tools %}T{% endif %}{% if documents is defined and documents %}D{% endif %}{% if enable_thinking is defined and enable_thinking is false %}N{% endif %}", "{%- if not tools %}a{%- elif tools | length > 0 %}{%- for tool in tools %}{{- tool.function.parameters.properties | dictsort }}{%- endfor %}{%- endif %}", "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{{ ns.last }}", "{% for m in messages if m.role != 'system' %}{{ loop.index }}{{ m.role }}{{ loop.nextitem.role if loop.nextitem is defined }} {% endfor %}", "{{ messages | map(attribute='role') | unique | sort | join(',') }}", "{% for m in messages %}{{ m.get('name', m.role) }}{{ m.get('tool_calls')|length if m.get('tool_calls') else 0 }}{% endfor %}", "{% set t2 = tools|selectattr('type', 'equalto', 'function')|list %}{{ t2|length }}{{ t2[0].function['name'] }}", "{{ messages[0].content if messages and messages[0].role == 'system' else 'none' }}", "{% if messages[0]['role'] not in ['user'] %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}",
]

CASES["comparison tests"] = [
    "{{ xs|select('!=', 1)|list }}{{ xs|select('<=', 2)|list }}{{ xs|select('>=', 2)|list }}{{ xs|select('==', 3)|list }}"
    "{{ xs|select('<', 2)|list }}{{ xs|select('>', 2)|list }}",
    "{{ xs|reject('!=', 1)|list }}{{ rows|selectattr('age', '<=', 2)|map(attribute='name')|list }}",
    "{{ 1 is != 2 }}", "{{ '!=' is test }}{{ '<=' is test }}{{ 'nosuch' is test }}{{ 'upper' is filter }}",
    "{{ 'T' if nope|reverse else 'F' }}{{ 'T' if []|reverse else 'F' }}{{ nope|reverse|list }}",
]

# Filters and methods of Jinja and Python that no chat template uses and mica does not have.
ABSENT_FILTERS = ["filesizeformat", "forceescape", "pprint", "random", "striptags", "urlencode", "urlize",
                  "wordwrap", "xmlattr"]
ABSENT_METHODS = ["casefold", "encode", "expandtabs", "format_map", "isidentifier", "isnumeric", "isprintable",
                  "maketrans", "translate"]

# template, context, what mica gives, why
OURS = [
    *[("{{ s|%s }}" % name, {"s": "a b"}, None, "filters that no chat template uses are absent")
      for name in ABSENT_FILTERS],
    *[("{{ s.%s(s) }}" % name, {"s": "a b"}, None, "methods that no chat template uses are absent")
      for name in ABSENT_METHODS],
    ("{{ lipsum() }}", {}, None, "no text of its own"),
    ("{% set l = [1] %}{{ l.append(2) }}{{ l }}", {}, "None[1, 2]", "lists that the template made may be changed"),
    ("{% set l = [3, 1] %}{% set _ = l.sort() %}{% set _ = l.insert(0, 9) %}{{ l }}{{ l.pop() }}{{ l.pop(0) }}{{ l }}", {}, "[9, 1, 3]39[1]", "the same"),
    ("{% set l = [1, 2, 3] %}{% set _ = l.reverse() %}{% set _ = l.remove(2) %}{% set _ = l.extend([7]) %}{{ l }}{% set _ = l.clear() %}{{ l }}", {}, "[3, 1, 7][]", "the same"),
    ("{% set d = {'a': 1} %}{% set _ = d.update(b=2) %}{{ d.pop('a') }}{{ d.setdefault('c', 3) }}{{ d }}{{ d.popitem() }}{% set _ = d.clear() %}{{ d }}", {}, "13{'b': 2, 'c': 3}('c', 3){}", "the same"),
    ("{{ (xs|map('string'))|length }}{{ xs|select|tojson }}{{ xs|map('string')|last }}", {"xs": [1, 2]}, "2[1, 2]2", "lazy filters give lists where Jinja would fail"),
    ("{{ '{\"a\": [1]}'|from_json }}{{ ('[1.5, null]'|from_json)[1] is none }}", {}, "{'a': [1]}True", "from_json is llama.cpp's"),
    ("{{ 'from_json' is filter }}", {}, "True", "the same"),
    ("{{ 9223372036854775807 + 1 }}", {}, None, "arithmetic has 64 bits"),
    ("{% block x %}a{% endblock %}", {}, None, "no inheritance"),
    ("{% if false %}{% include 'x' %}{% endif %}", {}, None, "no other files"),
    ("{% if false %}{% extends 'x' %}{% endif %}", {}, None, "no other files"),
    ("{% if false %}{% import 'x' as y %}{% endif %}", {}, None, "no other files"),
    ("{% autoescape true %}{{ '<' }}{% endautoescape %}", {}, None, "no autoescape"),
    ("{% set l = [] %}{% for i in [1] %}{% set _ = l.append(l) %}{% endfor %}{{ l }}", {}, None, "a list in itself is too deep to print"),
]


def expected(template, context):
    try:
        compiled = _compile_jinja_template(template)
    except Exception as error:  # whatever it raises, the template is refused
        return {"error": "compile", "why": f"{type(error).__name__}: {error}"[:120]}
    try:
        return {"text": compiled.render(**context)}
    except Exception as error:
        return {"error": "render", "why": f"{type(error).__name__}: {error}"[:120]}


def check_coverage(templates):
    """Every filter, test, global and method of Jinja and Python stands in some template."""
    text, environment = "\n".join(templates), _compile_jinja_template("").environment
    missing = [f for f in environment.filters
               if not re.search(r"[|(]\s*%s\b|filter %s\b|'%s'" % (f, f, f), text)]
    missing += [t for t in environment.tests
                if not re.search(r"is\s+(not\s+)?%s|'%s'" % (re.escape(t), re.escape(t)), text)]
    missing += [g for g in environment.globals if not re.search(r"\b%s\b" % g, text)]
    missing += [m for kind in (str, list, dict, tuple) for m in dir(kind)
                if m[0] != "_" and not re.search(r"\.%s\b" % m, text)]
    assert not missing, missing


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(
        os.path.dirname(__file__), "..", "golden", "templates", "conformance.json")
    groups = []
    for name, templates in CASES.items():
        cases = [{"template": t, **expected(t, json.loads(json.dumps(CONTEXT)))} for t in templates]
        groups.append({"name": name, "cases": cases})
    ours = []
    for template, context, text, why in OURS:
        result = {"text": text} if text is not None else {"error": "any"}
        ours.append({"template": template, "context": context, **result, "why": why})
    groups.append({"name": "deliberate differences", "cases": ours})
    check_coverage([c["template"] for g in groups for c in g["cases"]])
    os.makedirs(os.path.dirname(out), exist_ok=True)
    with open(out, "w") as f:
        json.dump({"context": CONTEXT, "groups": groups}, f, indent=1, ensure_ascii=True)
        f.write("\n")
    n = sum(len(g["cases"]) for g in groups)
    print(f"{n} templates, {sum('error' in c for g in groups for c in g['cases'])} of them errors")


main()
