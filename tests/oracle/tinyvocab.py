"""A byte-level vocabulary of 320 tokens for tiny models that take text.

Three special tokens, the 256 byte letters of the GPT-2 alphabet, and merges learned from a
paragraph by the plain BPE rule (most frequent pair, ties by the letters), so that it needs no
library and never changes.
"""

import collections

SIZE = 320
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEXT = ("the weather in the north was cold and the water in the harbour stood still while the "
        "other men were there on the shore; then the rain came, and in the rain the ship was "
        "seen again, and another one, and they sang until the morning. ") * 2
CHAT_TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
                 "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
                 "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def byte_letters():
    """GPT-2's letter for each byte: printable ones stand for themselves, others from U+0100."""
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters, extra = [], 0
    for b in range(256):
        if b in keep:
            letters.append(chr(b))
        else:
            letters.append(chr(0x100 + extra))
            extra += 1
    return letters


def merges(n):
    letters = byte_letters()
    words = collections.Counter(TEXT.split(" "))
    words = {tuple(letters[b] for b in (" " + w).encode()): c for w, c in words.items() if w}
    out = []
    while len(out) < n:
        pairs = collections.Counter()
        for word, count in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        best = min(pairs, key=lambda p: (-pairs[p], p))
        out.append(best)
        words = {tuple(merge_word(w, best)): c for w, c in words.items()}
    return out


def merge_word(word, pair):
    i = 0
    while i < len(word):
        if tuple(word[i:i + 2]) == pair:
            yield pair[0] + pair[1]
            i += 2
        else:
            yield word[i]
            i += 1


def vocabulary():
    """(tokens, merges): specials first, then bytes, then merged tokens."""
    pairs = merges(SIZE - 256 - len(SPECIALS))
    tokens = SPECIALS + byte_letters() + [a + b for a, b in pairs]
    assert len(set(tokens)) == SIZE
    return tokens, pairs


def tokenizer_json():
    tokens, pairs = vocabulary()
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i, t in enumerate(SPECIALS)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {t: i for i, t in enumerate(tokens)},
                  "merges": [[a, b] for a, b in pairs]}}


def tokenizer_config():
    return {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": SPECIALS[1],
            "eos_token": SPECIALS[2], "pad_token": SPECIALS[2], "unk_token": SPECIALS[0],
            "clean_up_tokenization_spaces": False, "model_max_length": 256,
            "chat_template": CHAT_TEMPLATE}
