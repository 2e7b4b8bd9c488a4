#!/usr/bin/env python3
"""Real chat templates, many shapes of conversation: mica against Transformers' own renderer.

Usage: compare-templates.py BUILD_DIR
Templates: those of template_sources.py, kept under MICA_ORACLE_DIR (default build/oracle), and of
the tokenizer_config files under MICA_SHARED (default ../shared), where there are any. Each is
rendered with every shape and variant below by tests/text/template/render.c; `mica template` renders
some of them, and final messages that go on. What Jinja refuses to compile must be refused. Prints
each difference that is not one of KNOWN and exits 1 if there is any."""
import calendar
import datetime
import json
import os
import subprocess
import sys

from transformers.utils import chat_template_utils as hf

import template_sources

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
ORACLE = os.environ.get("MICA_ORACLE_DIR", os.path.join(ROOT, "build", "oracle"))
SHARED = os.environ.get("MICA_SHARED", os.path.join(ROOT, "..", "shared"))
NOW = datetime.datetime(2025, 3, 7, 8, 9, 10)

# Where Transformers fails and mica renders on purpose: lists of the template's own may grow, and
# generators have JSON.
KNOWN = ("SecurityError: access to attribute 'append'", "Object of type generator is not JSON")


TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Get <weather> & \"stuff\"",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "The city", "enum": ["Paris", "Z\u00fcrich"]},
            "days": {"type": "integer", "default": 3}, "opts": {"type": ["string", "null"]},
            "list": {"type": "array", "items": {"type": "number"}},
            "obj": {"type": "object", "properties": {"a": {"type": "boolean"}}}},
            "required": ["city"]}}},
    {"type": "function", "function": {"name": "noargs", "description": "",
                                      "parameters": {"type": "object", "properties": {}}}}]
ARGS = {"city": "Paris", "days": 2, "list": [1, 2.5], "obj": {"a": True, "n": None}}
USER = {"role": "user", "content": "Hello, world!"}
ASSISTANT = {"role": "assistant", "content": "Hi there."}
SYSTEM = {"role": "system", "content": "You are helpful."}


def call(arguments, name="get_weather", call_id="call00001"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(content, name="get_weather", call_id="call00001"):
    return {"role": "tool", "content": content, "tool_call_id": call_id, "name": name}


def calls(*these, content=""):
    return {"role": "assistant", "content": content, "tool_calls": list(these)}


def text(*parts):
    return [{"type": "text", "text": part} for part in parts]


SHAPES = {
    "user": [USER], "system": [SYSTEM, USER], "two systems": [SYSTEM, SYSTEM, USER],
    "turns": [SYSTEM, USER, ASSISTANT, {"role": "user", "content": "And?"}],
    "assistant last": [USER, ASSISTANT], "assistant first": [ASSISTANT, USER],
    "users": [USER, USER], "developer": [{"role": "developer", "content": "Dev."}, USER],
    "name": [{"role": "user", "name": "Bob", "content": "x"}],
    "critic": [{"role": "critic", "content": "x"}], "empty": [{"role": "user", "content": ""}],
    "none": [],
    "calls": [SYSTEM, USER, calls(call(ARGS)), result("{\"t\": 21}"),
              {"role": "assistant", "content": "It is 21."}, {"role": "user", "content": "ok"}],
    "calls as text": [SYSTEM, USER, calls(call(json.dumps(ARGS)), content="Let me see"), result("21")],
    "calls alone": [USER, calls(call(ARGS), content=None), result("21")],
    "two calls": [USER, calls(call(ARGS), call({}, "noargs", "call00002"), content=None),
                  result("a"), result("b", "noargs", "call00002")],
    "two calls as text": [USER, calls(call(json.dumps(ARGS)), call("{}", "noargs", "call00002")),
                          result("a"), result("b", "noargs", "call00002"), USER],
    "typed result": [USER, calls(call(ARGS)), result(text("x", "y"))],
    "reasoning": [USER, {"role": "assistant", "content": "4", "reasoning_content": "two plus\ntwo"},
                  {"role": "user", "content": "next"}],
    "reasoning last": [USER, {"role": "assistant", "content": "4", "reasoning_content": "2 +\n2"}],
    "reasoning inline": [USER, {"role": "assistant", "content": "<think>\nhm\n</think>\n\n4"}, USER],
    "reasoning and calls": [SYSTEM, USER, dict(calls(call(ARGS)), reasoning_content="think"),
                            result("5")],
    "typed": [{"role": "user", "content": text("part one", " two")}],
    "typed all": [{"role": "system", "content": text("sys")}, {"role": "user", "content": text("u")},
                  {"role": "assistant", "content": text("a")}, {"role": "user", "content": text("v")}],
    "image": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what?"}]}],
    "unicode": [{"role": "user", "content": "h\u00e9llo \U0001f469\u200d\U0001f467 <|im_end|> \u2028 "
                 "{{ x }} {% if %} \t\x00 \u0130\u00df"}, {"role": "assistant", "content": "  sp \n"},
                {"role": "user", "content": "\u65e5\u672c\n\n\u8a9e  "}],
    "markup": [{"role": "system", "content": "<b>&\"'"}, {"role": "user", "content": "<i>'\"&"}],
}

VARIANTS = [
    {}, {"add_generation_prompt": True}, {"tools": TOOLS, "add_generation_prompt": True},
    {"add_generation_prompt": True, "enable_thinking": True, "thinking": True,
     "reasoning_effort": "high"},
    {"tools": TOOLS, "add_generation_prompt": True, "enable_thinking": False, "thinking": False},
    {"documents": [{"title": "T", "text": "body"}], "add_generation_prompt": True},
    {"tools": TOOLS, "custom_tools": TOOLS, "builtin_tools": ["web_search", "code_interpreter"],
     "date_string": "26 Jul 2024", "add_generation_prompt": True, "reasoning_effort": "low",
     "preserve_thinking": True, "clear_thinking": False, "keep_past_thinking": True,
     "thinking_mode": "thinking", "model_identity": "ID", "tools_in_user_message": False,
     "bos_token": "<B>", "drop_thinking": False}]

CONTINUED = [
    [USER, {"role": "assistant", "content": "The answer"}],
    [USER, {"role": "assistant", "content": " sp \n"}],
    [SYSTEM, USER, ASSISTANT, USER, {"role": "assistant", "content": "x", "reasoning_content": "r"}]]


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def contexts():
    for shape, messages in SHAPES.items():
        for i, variant in enumerate(VARIANTS):
            plain = [{k: v for k, v in m.items() if v is not None} for m in messages]
            yield f"{shape}, variant {i}", {
                "messages": hf._alias_reasoning_fields(plain), "tools": None, "documents": None,
                "add_generation_prompt": False, "bos_token": "<s>", "eos_token": "</s>", **variant}


def compile_hf(source):
    try:
        compiled = hf._compile_jinja_template(source)
    except Exception as error:  # pieces of templates that code puts together
        return f"{type(error).__name__}: {error}"
    compiled.environment.filters["from_json"] = json.loads
    return compiled


def render_hf(compiled, context):
    if isinstance(compiled, str):
        return {"error": compiled}
    try:
        return {"text": compiled.render(**json.loads(json.dumps(context)))}
    except Exception as error:  # whatever it raises, there is no rendering
        return {"error": f"{type(error).__name__}: {error}"}


def compare_renderings(build, templates):
    program = os.path.join(build, "tests", "text", "template", "template_render")
    jobs = [(name, what, context) for name in templates for what, context in contexts()]
    lines = "".join(json.dumps({"template": templates[name], "context": context}) + "\n"
                    for name, _, context in jobs)
    done = subprocess.run([program, "--lines", str(calendar.timegm(NOW.timetuple()))],
                          input=lines.encode(), capture_output=True, check=True,
                          env=dict(os.environ, TZ="UTC"))
    ours = [json.loads(line) for line in done.stdout.decode().split("\n") if line]
    assert len(ours) == len(jobs)
    compiled, n_bad, n_errors, n_known = {}, 0, 0, 0
    for (name, what, context), mine in zip(jobs, ours):
        if name not in compiled:
            compiled[name] = compile_hf(templates[name])
        theirs = render_hf(compiled[name], context)
        n_errors += "error" in theirs
        if theirs.get("text") == mine.get("text"):
            continue
        if "text" in mine and any(known in theirs.get("error", "") for known in KNOWN):
            n_known += 1
            continue
        n_bad += 1
        print(f"{name}: {what}\n  theirs {str(theirs)[:300]}\n  ours   {str(mine)[:300]}")
    print(f"{len(templates)} templates, {len(jobs)} renderings, {n_errors} of them errors; "
          f"{n_known} known differences, {n_bad} others")
    return n_bad


def compare_continued(build, templates):
    n, n_bad = 0, 0
    folder = os.path.join(ORACLE, "llama-cpp-python")
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
        json.dump({"bos_token": "<s>", "eos_token": "</s>"}, file)
    for name, source in templates.items():
        path = os.path.join(folder, "template")
        with open(path, "w", newline="") as file:
            file.write(source)
        for messages in CONTINUED:
            try:
                theirs = hf.render_jinja_template(
                    [json.loads(json.dumps(messages))], chat_template=source,
                    continue_final_message=True, bos_token="<s>", eos_token="</s>")[0][0]
            except Exception:  # lost text, roles that it refuses: mica goes on where it can
                continue
            if SYSTEM in messages and SYSTEM["content"] not in theirs:
                continue  # mica shows the text elsewhere
            done = subprocess.run(
                [os.path.join(build, "mica"), "template", folder, "-", "--chat-template", path,
                 "--continue", "--now", str(calendar.timegm(NOW.timetuple()))],
                input=json.dumps(messages).encode(), capture_output=True,
                env=dict(os.environ, TZ="UTC"))
            n += 1
            if done.stdout.decode() != theirs:
                n_bad += 1
                print(f"{name}, continued\n  theirs {theirs[-200:]!r}\n"
                      f"  ours   {done.stdout.decode()[-200:]!r} {done.stderr.decode()}")
    print(f"{n} continued messages, {n_bad} differences")
    return n_bad


def main():
    build = sys.argv[1]
    hf.datetime = Clock
    templates = template_sources.collect(ORACLE, SHARED)
    sys.exit(1 if compare_renderings(build, templates) + compare_continued(build, templates) else 0)


main()
