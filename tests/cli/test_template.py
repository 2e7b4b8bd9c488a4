"""`mica template` from outside: the rendering byte for byte, its options, its errors."""
import json
import os
import shutil
import sys
import tempfile

from cli import check, check_error, finish, run

exe = sys.argv[1]
folder = tempfile.mkdtemp(prefix="mica-template-")
TEMPLATE = ("{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
            "{% if tools %}{{ tools|tojson }}{% endif %}{{ mood }}"
            "{% if add_generation_prompt %}<assistant>{% endif %}")


def write(name, data):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(data if isinstance(data, str) else json.dumps(data))
    return path


def gives(wanted, *args, stdin=b""):
    code, out, err = run(exe, "template", folder, *args, stdin=stdin)
    check(code == 0 and out == wanted.encode(), "%s: %d %r %r" % (args, code, out, err))
    return err


write("tokenizer_config.json", {"bos_token": "<s>", "chat_template": TEMPLATE})
messages = [{"role": "user", "content": "h\u00e9 {{ x }}"}]
chat = write("chat.json", messages)
tools = write("tools.json", [{"name": "f"}])
gives("<s><user>h\u00e9 {{ x }}\n<assistant>", chat)
gives("<s><user>h\u00e9 {{ x }}\n", chat, "--no-generation-prompt")
err = gives("<s><user>h\u00e9 {{ x }}\n[{\"name\": \"f\"}]<assistant>", chat, "--tools", tools)
gives("<s><user>h\u00e9 {{ x }}\n{'a': 1}<assistant>", chat, "--set", 'mood={"a": 1}')
gives("<s><user>h\u00e9 {{ x }}\nglad<assistant>", chat, "--set", 'mood="glad"')
gives("<s><user>x\n[{\"name\": \"g\"}]<assistant>", "-", stdin=json.dumps(
    {"messages": [{"role": "user", "content": "x"}], "tools": [{"name": "g"}]}).encode())
gives("<s><user>a\n<assistant>b", "-", "--continue", stdin=json.dumps(
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]).encode())
mine = write("mine.jinja", "{{ messages[0].content|upper }}{{ strftime_now('%Y') }}\n")
gives("H\u00c9 {{ X }}1970", chat, "--chat-template", mine, "--now", "86400")

# Which source counts: files of their own before tokenizer_config.json.
NAMED = [{"name": "default", "template": "plain"}, {"name": "rag", "template": "rag"},
         {"name": "tool_use", "template": "with tools"}]
gives_plain = lambda wanted, *args: gives(wanted, chat, *args)
write("tokenizer_config.json", {"bos_token": "<s>", "chat_template": NAMED})
gives_plain("plain")
gives_plain("with tools", "--tools", tools)
gives_plain("rag", "--chat-template", "rag")
gives_plain("plain", "--chat-template", "default", "--tools", tools)
write("chat_template.json", {"chat_template": "json"})
gives_plain("json")
write("chat_template.jinja", "jinja\r\n\r\n")
gives_plain("jinja\n")
os.mkdir(os.path.join(folder, "additional_chat_templates"))
write("additional_chat_templates/tool_use.jinja", "additional {{ tools|length }}")
gives_plain("jinja\n")
gives_plain("additional 1", "--tools", tools)
shutil.rmtree(os.path.join(folder, "additional_chat_templates"))
os.remove(os.path.join(folder, "chat_template.jinja"))
os.remove(os.path.join(folder, "chat_template.json"))

# None at all: messages are laid out as ChatML, a prompt alone is continued as it is.
write("tokenizer_config.json", {"bos_token": "<s>"})
err = gives("<|im_start|>user\nh\u00e9 {{ x }}<|im_end|>\n<|im_start|>assistant\n", chat)
check("no chat template; ChatML is used" in err, err)
tiny = os.path.join(folder, "tiny")
shutil.copytree(os.path.join(sys.argv[2], "tiny", "llama-text"), tiny)
write("tiny/tokenizer_config.json", {})
prompt = ["generate", tiny, "-m", "0", "--json", "-p", "ab"]
code, out, err = run(exe, *prompt)
check(code == 0 and "no chat template; the prompt is continued as it is" in err, err)
raw = json.loads(run(exe, *prompt, "--raw")[1])["prompt_ids"]
check(json.loads(out)["prompt_ids"] == raw, out)
code, out, err = run(exe, *prompt, "--system-prompt", "s")
check(code == 0 and "ChatML is used" in err, err)
check(len(json.loads(out)["prompt_ids"]) > len(raw) + 20, out)

write("tokenizer_config.json", {"bos_token": "<s>", "chat_template": TEMPLATE})
check_error(exe, ["template", folder], 2)
check_error(exe, ["template", folder, chat, "--continue", "--no-generation-prompt"], 2)
check_error(exe, ["template", folder, os.path.join(folder, "nosuch")], 1, "nosuch")
check_error(exe, ["template", folder + "x", chat], 1, "no such file")
check_error(exe, ["template", folder, write("bad.json", "[{]")], 1, "bad.json")
check_error(exe, ["template", folder, write("number.json", "5")], 1, "array of messages")
check_error(exe, ["template", folder, chat, "--set", "x"], 1, "key=json")
for slip in ("False", "falsch", "tru", "glad", "", '{"a":1', "'x'", "1,"):
    check_error(exe, ["template", folder, chat, "--set", "mood=" + slip], 1, "no JSON")
check("mood=\"text\"" in run(exe, "template", folder, chat, "--set", "mood=glad")[2],
      "how a text is written")
check_error(exe, ["template", folder, chat, "--tools", write("one.json", {"name": "f"})], 1,
            "tools: expected an array")
for text, place in (([], "messages: expected"), ([{"role": 5, "content": "x"}], "messages[0].role: expected"),
                    ([{"role": "user", "content": 5}], "messages[0].content: expected")):
    check_error(exe, ["template", folder, write("shape.json", text)], 1, place)
check_error(exe, ["template", folder, chat, "--set", "messages=[]"], 1, "cannot be replaced")
check_error(exe, ["template", folder, chat, "--continue"], 1, "final assistant message")
check_error(exe, ["template", folder, chat, "--chat-template", "nosuch"], 1, "no chat template")
broken = write("broken.jinja", "a\n{% if %}")
check_error(exe, ["template", folder, chat, "--chat-template", broken], 1, "broken.jinja:2:7: ")
raising = write("raising.jinja", "{{ raise_exception('roles must alternate') }}")
check_error(exe, ["template", folder, chat, "--chat-template", raising], 1, "roles must alternate")

shutil.rmtree(folder)
finish()
