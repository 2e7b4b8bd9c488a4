#!/usr/bin/env python3
"""Holds the rules about the tree that no compiler knows: who may include whom, names, lengths.

Usage: layout.py --root ROOT [--cc 'CC ...'] [--nm NM] [LIBRARY.a ...]
Prints one line for each breach and exits 1 if there is any. Without libraries (sanitizer and cross
builds) the rules about symbols are left out.
"""

import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys

# From low to high; a module may include what stands on a lower line, and nothing beside it.
LEVELS = [
    ['base'],
    ['format'],
    ['weights'],
    ['graph'],
    ['plan'],
    ['backend'],
    ['kv'],
    ['model'],
    ['engine'],
    ['train', 'quant', 'eval', 'store'],
    ['server'],
    ['cli'],
]
RANK = {module: rank for rank, modules in enumerate(LEVELS) for module in modules}
# The text module stands beside the chain: it sees little, and the engine and all above it see it.
TEXT_SEES = {'base', 'format'}
LOWEST_THAT_SEES_TEXT = RANK['engine']

KERNEL_FOLDERS = {('backend', 'cpu', isa) for isa in ('ref', 'x86', 'arm')}
MAX_LINES = 1000
SOURCE_SUFFIXES = {'.c', '.h', '.cu'}

# The library never prints, exits or takes signals, and allocates through base/alloc.c alone.
FORBIDDEN = {
    'exit', '_exit', '_Exit', 'quick_exit', 'abort', 'printf', 'vprintf', 'puts', 'putchar',
    'perror', 'stdout', 'stderr', 'signal', 'sigaction', 'setlocale',
}
ALLOCATION = {
    'malloc', 'calloc', 'realloc', 'reallocarray', 'aligned_alloc', 'posix_memalign', 'strdup',
    'strndup', 'asprintf', 'vasprintf', 'getline', 'getdelim',
}
ALLOCATOR = 'base_alloc.c.o'


def may_include(module, other):
    if module == other:
        return True
    if module == 'text':
        return other in TEXT_SEES
    if other == 'text':
        return RANK[module] >= LOWEST_THAT_SEES_TEXT
    return RANK[other] < RANK[module]


def source_files(src):
    return sorted(p for p in src.rglob('*') if p.suffix in SOURCE_SUFFIXES and p.is_file())


def included_module(path, name, src):
    """The module that `#include "name"` of `path` leads to, or None when it is in no module."""
    for folder in (path.parent, src):
        found = (folder / name).resolve()
        if found.is_file() and src in found.parents:
            return found.relative_to(src).parts[0]
    first = name.split('/')[0]
    return first if '/' in name and (first in RANK or first == 'text') else None


def check_includes(src):
    pattern = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
    for path in source_files(src):
        module = path.relative_to(src).parts[0]
        if module not in RANK and module != 'text':
            yield f'{path}: the module {module} has no place in the order of modules'
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = pattern.match(line)
            other = match and included_module(path, match.group(1), src)
            if other and not may_include(module, other):
                yield f'{path}:{number}: {module} must not include {match.group(1)}'


def check_names(src):
    by_name = collections.defaultdict(list)
    for path in source_files(src):
        folder = path.relative_to(src).parts[:3]
        if path.suffix == '.c' and folder not in KERNEL_FOLDERS:
            by_name[path.name].append(str(path))
    for name, paths in sorted(by_name.items()):
        if len(paths) > 1:
            yield f'{name}: several files have this name: ' + ', '.join(paths)


def check_lengths(src):
    for path in source_files(src):
        n_lines = len(path.read_text().splitlines())
        if n_lines > MAX_LINES:
            yield f'{path}: {n_lines} lines, at most {MAX_LINES}'


def read_symbols(nm, library):
    """(object, type letter, name) of each symbol that an object defines or wants from others."""
    run = subprocess.run([nm, '-A', '-g', library], capture_output=True, text=True, check=True)
    for line in run.stdout.splitlines():
        place, _, rest = line.rpartition(':')
        fields = rest.split()
        if len(fields) >= 2:
            yield re.split(r'[/:]', place)[-1], fields[-2], fields[-1]


def check_symbols(nm, library):
    n_defined = 0
    for unit, letter, name in read_symbols(nm, library):
        if letter != 'U':
            n_defined += letter not in 'wv'
            if not name.startswith('mica_') and letter not in 'wv':
                yield f'{library}: {unit} defines {name}, expected a name that starts with mica_'
        elif name in FORBIDDEN or (name in ALLOCATION and unit != ALLOCATOR):
            yield f'{library}: {unit} calls {name}, which the library must not'
    if n_defined == 0 and 'core' in library:
        yield f'{library}: no symbols were found, expected some'


def compiles(command):
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return run.returncode == 0, run.stderr.strip()


def check_header(header, cc):
    warnings = ['-Wall', '-Wextra', '-pedantic', '-Werror', '-fsyntax-only']
    good, output = compiles([*cc, '-std=c11', *warnings, '-x', 'c', str(header)])
    if not good:
        yield f'{header}: does not compile alone as C11: {output}'
    candidates = [cc] + [[c] for c in ('c++', 'g++', 'clang++', 'clang') if shutil.which(c)]
    for compiler in candidates:
        good, output = compiles([*compiler, '-std=c++11', *warnings, '-x', 'c++', str(header)])
        if good:
            return
        if 'cc1plus' not in output:  # else: a C compiler without its C++ part
            yield f'{header}: does not compile alone as C++: {output}'
            return
    print('note: no C++ compiler here; the header was not tried as C++')


def check_tree(root, cc, nm, libraries):
    src = root / 'src'
    yield from check_includes(src)
    yield from check_names(src)
    yield from check_lengths(src)
    for library in libraries:
        yield from check_symbols(nm, library)
    if cc:
        yield from check_header(root / 'include' / 'mica.h', cc)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--root', type=pathlib.Path, required=True)
    parser.add_argument('--cc', default='')
    parser.add_argument('--nm', default='nm')
    parser.add_argument('libraries', nargs='*')
    args = parser.parse_args()
    breaches = list(check_tree(args.root.resolve(), args.cc.split(), args.nm, args.libraries))
    for breach in breaches:
        print(breach)
    return 1 if breaches else 0


if __name__ == '__main__':
    sys.exit(main())
