#!/usr/bin/env python3
"""The layout test must fail where it should: small trees with one breach each."""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import layout  # noqa: E402


class Breaches(unittest.TestCase):
    def breaches(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            for name, text in files.items():
                path = root / 'src' / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return list(layout.check_tree(root, [], 'nm', []))

    def test_allowed_edges(self):
        self.assertEqual(self.breaches({
            'base/a.h': '#include "mica.h"\n#include <stdio.h>\n',
            'base/a.c': '#include "base/a.h"\n#include "a.h"\n',
            'engine/b.c': '#include "base/a.h"\n#include "text/t.h"\n#include "kv/k.h"\n',
            'text/t.h': '#include "format/gguf.h"\n',
            'cli/c.c': '#include "store/s.h"\n#include "text/t.h"\n',
        }), [])

    def test_forbidden_edges(self):
        for path, include in [('base/a.c', 'format/f.h'), ('kv/k.c', 'model/m.h'),
                              ('text/t.c', 'engine/e.h'), ('text/t.c', 'weights/w.h'),
                              ('model/m.c', 'text/t.h'), ('train/t.c', 'quant/q.h'),
                              ('graph/g.c', 'backend/cpu/table.h'), ('kv/k.c', '../model/m.h')]:
            files = {path: f'\n  # include "{include}"\n', 'model/m.h': ''}
            found = self.breaches(files)
            self.assertEqual(len(found), 1, (path, include))
            self.assertIn(f'{path}:2: ', found[0])

    def test_unknown_module(self):
        self.assertEqual(len(self.breaches({'misc/a.c': ''})), 1)

    def test_equal_names(self):
        self.assertEqual(len(self.breaches({'base/a.c': '', 'kv/a.c': ''})), 1)
        self.assertEqual(self.breaches({'backend/cpu/ref/a.c': '', 'backend/cpu/x86/a.c': '',
                                        'graph/a.c': '', 'base/a.h': '', 'kv/a.h': ''}), [])

    def test_long_files(self):
        self.assertEqual(self.breaches({'base/a.c': 'x\n' * 1000}), [])
        self.assertEqual(len(self.breaches({'base/a.c': 'x\n' * 1001})), 1)

    def test_symbols(self):
        symbols = [('base_alloc.c.o', 'T', 'mica_malloc'), ('base_alloc.c.o', 'U', 'malloc'),
                   ('base_x.c.o', 'U', 'snprintf'), ('base_x.c.o', 'w', '__gmon_start__')]
        bad = [('base_x.c.o', 'T', 'helper'), ('base_x.c.o', 'D', 'table'),
               ('base_x.c.o', 'U', 'malloc'), ('base_x.c.o', 'U', 'printf'),
               ('base_x.c.o', 'U', 'exit')]
        original = layout.read_symbols
        try:
            layout.read_symbols = lambda nm, library: symbols
            self.assertEqual(list(layout.check_symbols('nm', 'libcore.a')), [])
            layout.read_symbols = lambda nm, library: symbols + bad
            self.assertEqual(len(list(layout.check_symbols('nm', 'libcore.a'))), len(bad))
            layout.read_symbols = lambda nm, library: []
            self.assertEqual(len(list(layout.check_symbols('nm', 'libcore.a'))), 1)
        finally:
            layout.read_symbols = original


if __name__ == '__main__':
    sys.exit(unittest.main())
