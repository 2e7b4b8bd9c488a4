"""Packs of re-ordered weights: one start leaves them, the next ones use them, and whatever is wrong with them costs
nothing but time. Every start must give the ids of a start without a pack."""
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile

from cli import check, check_error, finish, run

exe = sys.argv[1]
IDS = "300,301,302,303"


def ids_of(model, env, *args):
    code, out, err = run(exe, "generate", model, "--ids", IDS, "--max-tokens", "6", "--ignore-eos", "--json", *args, env=env)
    check(code == 0 and not err, "generate: %d %s" % (code, err))
    return json.loads(out)["ids"] if code == 0 else None


def packs(env):
    code, out, err = run(exe, "pack", "list", "--json", env=env)
    check(code == 0, "pack list: " + err)
    return json.loads(out)["packs"]


def states(env):
    return [p["state"] for p in packs(env)]


def patch(path, at, data):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def check_life(root, model, env, weights=None):
    weights = weights or model
    want = ids_of(model, env, "--no-pack")
    check(not packs(env), "--no-pack leaves nothing")
    check(ids_of(model, env) == want, "the start that makes the pack")
    listed = packs(env)
    check(len(listed) == 1 and listed[0]["state"] == "good" and listed[0]["model"] == os.path.realpath(model), listed)
    path = listed[0]["path"]
    made = os.stat(path)
    check(made.st_mode & 0o77 == 0 and abs(made.st_size / os.path.getsize(weights) - 1) < 0.05, "mode and size of the pack")
    check(ids_of(model, env) == want and ids_of(model, env, "--threads", "3") == want, "starts with the pack")
    check(os.stat(path).st_ino == made.st_ino, "a good pack is kept")
    code, out, _ = run(exe, "pack", "verify", model, env=env)
    check(code == 0 and b"good" in out, "pack verify")

    patch(path, made.st_size // 2, b"\x5a\xa5\x5a")  # what no start sees, verifying does
    code, _, err = run(exe, "pack", "verify", env=env)
    check(code == 1 and "not those that were written" in err and ".weight" in err, "damaged data: " + err)
    check(run(exe, "pack", "remove", model, env=env)[0] == 0 and not packs(env), "pack remove MODEL")

    for what, at, data in (("head", 16, b"\xff"), ("table", 4000, b"\xff"), ("layout", 8, b"\x07"), ("magic", 0, b"X")):
        ids_of(model, env)
        patch(path, at, data)
        check(states(env) == ["damaged"], "damaged %s: %s" % (what, packs(env)))
        check(ids_of(model, env) == want and states(env) == ["good"], "a damaged %s is made anew" % what)
    with open(path, "r+b") as file:
        file.truncate(made.st_size - 4096)
    check(ids_of(model, env) == want and states(env) == ["good"], "a short pack is made anew")

    os.utime(weights, ns=(1, 10**9))
    check(states(env) == ["stale"], "another time of the model")
    check(ids_of(model, env) == want and states(env) == ["good"], "a stale pack is made anew")
    os.rename(model, model + ".away")
    check(states(env) == ["stale"], "no model")
    check(run(exe, "pack", "remove", env=env)[0] == 0 and not packs(env), "remove takes what is stale")
    os.rename(model + ".away", model)


def check_same_size(root, model, env):
    """Another model of the same size and time under the same name: the head differs, or nothing does."""
    other = os.path.join(root, "other.gguf")
    run(exe, "synth", "--arch", "llama", "--params", "135m", "--layers", "2", "--gguf", "q8_0", "--seed", "5", other)
    ids_of(model, env)
    stamp = os.stat(model)
    os.rename(other, model)
    want = ids_of(model, env, "--no-pack")
    os.utime(model, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))
    check(ids_of(model, env) == want, "another model in its place")


def check_leftovers(root, model, env):
    run(exe, "pack", "remove", "--all", env=env)
    ids_of(model, env)
    path = packs(env)[0]["path"]
    left = path + ".999999999.tmp"
    with open(left, "wb") as file:
        file.write(b"x" * 100)
    check(sorted(states(env)) == ["good", "partial"], packs(env))
    os.unlink(path)
    ids_of(model, env)
    check(not os.path.exists(left) and states(env) == ["good"], "what a dead process left is removed")


def check_no_place(root, model, env):
    want = ids_of(model, env, "--no-pack")
    a_file = os.path.join(root, "file")
    open(a_file, "w").close()
    for cache in (a_file, "/proc/none", "/dev/null"):
        check(ids_of(model, {"XDG_CACHE_HOME": cache}) == want, "cache folder %s" % cache)
    check(ids_of(model, {"XDG_CACHE_HOME": "", "HOME": ""}) == want, "no home")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    full = os.path.join(root, "full")
    done = subprocess.run([exe, "generate", model, "--ids", IDS, "--max-tokens", "6", "--ignore-eos", "--json"], capture_output=True,
                          env=dict(os.environ, XDG_CACHE_HOME=full), preexec_fn=limit, timeout=120)
    check(done.returncode == 0 and json.loads(done.stdout)["ids"] == want, "no room: %s" % done.stderr)
    check(not packs({"XDG_CACHE_HOME": full}), "no room leaves nothing")


def check_together(root, model, env):
    run(exe, "pack", "remove", "--all", env=env)
    want = ids_of(model, env, "--no-pack")
    command = [exe, "generate", model, "--ids", IDS, "--max-tokens", "6", "--ignore-eos", "--json"]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ, **env)) for _ in range(4)]
    for process in started:
        out, _ = process.communicate(timeout=120)
        check(process.returncode == 0 and json.loads(out)["ids"] == want, "four starts at once")
    check(states(env) == ["good"] and run(exe, "pack", "verify", env=env)[0] == 0, "one pack of four")


with tempfile.TemporaryDirectory(prefix="mica-test-") as root:
    model = os.path.join(root, "model.gguf")
    env = {"XDG_CACHE_HOME": os.path.join(root, "cache")}
    code, _, err = run(exe, "synth", "--arch", "llama", "--params", "135m", "--layers", "2", "--gguf", "q8_0", model)
    check(code == 0, err)
    for part in (check_life, check_leftovers, check_no_place, check_together, check_same_size):
        part(root, model, env)
    folder = os.path.join(root, "mlx")
    code, _, err = run(exe, "synth", "--arch", "llama", "--params", "135m", "--layers", "2", "--bits", "4", folder)
    check(code == 0, err)
    run(exe, "pack", "remove", "--all", env=env)
    check_life(root, folder, env, os.path.join(folder, "model.safetensors"))
    check_error(exe, ["pack", "verify", "no-such-model"], 1, "no-such-model", env=env)
for args, needle in ((["pack"], "usage"), (["pack", "fly"], "fly"), (["pack", "list", "x"], "together"),
                     (["pack", "remove", "--all", "x"], "together"), (["pack", "verify", "--json"], "together")):
    check_error(exe, args, 2, needle)
finish()
