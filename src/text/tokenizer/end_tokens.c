/* end_tokens.c: which tokens of a GGUF vocabulary end a generation, by their texts.
 *
 * The keys of the file name one or two; chat models end with others. A token of the first list ends
 * whatever its type says (some converters store it as a normal one), those of the second only as
 * control tokens.
 */
#include "text/tokenizer/impl.h"

/* One has letters beyond ASCII; the e after the first of them is \x65, or it would count as a digit
 * of the escape. */
static const char *const end_texts[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<eos>",
    "<turn|>",
    "<end_of_utterance>",
    "<\xEF\xBD\x9C\x65nd\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
    "[e~[",
    "<|calls|>",
    "<|flush|>",
};

/* Fill-in-the-middle padding, repository and file separators. */
static const char *const separator_texts[] = {
    "<|fim_pad|>",   "<fim-pad>",  "<fim_pad>", "<|fim_repo|>",
    "<|repo_name|>", "<fim-repo>", "<REPO>",    "<|file_sep|>",
};

static int32_t find(const tokenizer *t, const char *text) {
    return mica_tokenizer_find(t, text, strlen(text));
}

static bool has(const tokenizer *t, const char *text) { return find(t, text) >= 0; }

/* Texts that end elsewhere but not in these formats. Gemma's "</s>" is the HTML tag, which its
 * files store as user-defined. */
static bool is_exception(const tokenizer *t, const char *text) {
    if (strcmp(text, "<|end|>") == 0) {
        bool is_harmony = has(t, "<|return|>") && has(t, "<|call|>");
        return is_harmony || (has(t, "<|calls|>") && has(t, "<|flush|>"));
    }
    if (strcmp(text, "</s>") != 0) return false;
    return has(t, "<|tool_response>") || vocab_kind(&t->vocab, find(t, text)) == TOKEN_USER;
}

static void make_control(tokenizer *t, int32_t id) {
    uint8_t *kind = &t->vocab.kind[id];
    if (vocab_kind(&t->vocab, id) == TOKEN_BYTE) return;
    *kind = (uint8_t)((*kind & ~TOKEN_KIND_MASK) | TOKEN_CONTROL | TOKEN_SPECIAL | TOKEN_LITERAL);
}

mica_status mica_tokenizer_find_ends(tokenizer *t, mica_error *err) {
    mica_status st = MICA_OK;
    for (size_t i = 0; i < sizeof(end_texts) / sizeof(end_texts[0]) && !st; i++) {
        int32_t id = find(t, end_texts[i]);
        if (id < 0 || is_exception(t, end_texts[i])) continue;
        make_control(t, id);
        st = mica_tokenizer_add_end(t, id, err);
    }
    for (size_t i = 0; i < sizeof(separator_texts) / sizeof(separator_texts[0]) && !st; i++) {
        int32_t id = find(t, separator_texts[i]);
        bool is_control = id >= 0 && vocab_kind(&t->vocab, id) == TOKEN_CONTROL;
        if (is_control) st = mica_tokenizer_add_end(t, id, err);
    }
    int32_t response = find(t, "<|tool_response>");
    return st || response < 0 ? st : mica_tokenizer_add_end(t, response, err);
}
