"""Shared by the tests of the program: running it and counting what fails."""
import json
import os
import subprocess
import sys

failures = 0


def check(ok, what):
    global failures
    if not ok:
        failures += 1
        print("FAILED:", what, flush=True)
    return ok


def finish():
    print("failures:", failures)
    sys.exit(1 if failures else 0)


def run(exe, *args, stdin=b"", env=None, timeout=240):
    """Returns (exit code, stdout bytes, stderr text). A signal shows as a negative code."""
    full = dict(os.environ, **(env or {}))
    done = subprocess.run([exe, *map(str, args)], input=stdin, capture_output=True, env=full,
                          timeout=timeout)
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")


def check_error(exe, args, code, needle="", stdin=b"", env=None):
    """The program must fail with `code` and one clear line on stderr, and print nothing else but, with
    --json, an object with the same message."""
    got, out, err = run(exe, *args, stdin=stdin, env=env)
    label = "%s -> %d %r" % (" ".join(map(str, args))[-160:], got, err[-300:])
    check(got == code, label + ": expected exit code %d" % code)
    check(err.endswith("\n") and err.strip() and "Sanitizer" not in err, label + ": a message")
    if code == 1:
        check(err.count("\n") == 1, label + ": one line")
    check(needle.lower() in err.lower(), label + ": should say %r" % needle)
    options = args[:args.index("--")] if "--" in args else args
    if code == 1 and "--json" in options:
        check("mica: " + json.loads(out)["error"] + "\n" == err, label + ": the message as JSON, got %r" % out[:80])
    else:
        check(not out, label + ": nothing on stdout, got %r" % out[:80])
    return err
