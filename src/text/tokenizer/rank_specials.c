/* rank_specials.c: the special tokens that lists of ranks leave out, as the families' own programs
 * number them (llama-models, qwen, tiktoken).
 */
#include <stdio.h>

#include "text/tokenizer/older.h"

/* One token, or a run of them with rising numbers where `text` has %u. */
typedef struct special_run {
    const char *text;
    uint32_t first, n; /* numbers of a run; n 0: a single token */
    uint32_t id;       /* 0: the one after the run before */
} special_run;

typedef struct special_list {
    rank_family family;
    size_t n_ranks; /* the list counts for complete vocabularies only */
    const char *bos, *eos;
    special_run runs[36];
} special_list;

#define POST_TRAIN "<|text_post_train_reserved_special_token_%u|>"
#define VISION "<|vision_reserved_special_token_%u|>"
#define REASONING "<|reasoning_reserved_special_token_%u|>"
#define RESERVED "<|reserved_special_token_%u|>"

/* clang-format off */
static const special_list lists[] = {
    {RANKS_LLAMA3, 128000, "<|begin_of_text|>", "<|end_of_text|>", {
        {"<|begin_of_text|>", 0, 0, 128000}, {"<|end_of_text|>", 0, 0, 0}, {RESERVED, 0, 2, 0},
        {"<|finetune_right_pad_id|>", 0, 0, 0}, {"<|step_id|>", 0, 0, 0},
        {"<|start_header_id|>", 0, 0, 0}, {"<|end_header_id|>", 0, 0, 0},
        {"<|eom_id|>", 0, 0, 0}, {"<|eot_id|>", 0, 0, 0}, {"<|python_tag|>", 0, 0, 0},
        {"<|image|>", 0, 0, 0}, {RESERVED, 2, 244, 0}}},
    {RANKS_LLAMA4, 200000, "<|begin_of_text|>", "<|end_of_text|>", {
        {"<|begin_of_text|>", 0, 0, 200000}, {"<|end_of_text|>", 0, 0, 0},
        {"<|fim_prefix|>", 0, 0, 0}, {"<|fim_middle|>", 0, 0, 0}, {"<|fim_suffix|>", 0, 0, 0},
        {"<|header_start|>", 0, 0, 0}, {"<|header_end|>", 0, 0, 0}, {"<|eom|>", 0, 0, 0},
        {"<|eot|>", 0, 0, 0}, {"<|step|>", 0, 0, 0}, {POST_TRAIN, 0, 6, 0},
        {"<|python_start|>", 0, 0, 0}, {"<|python_end|>", 0, 0, 0},
        {"<|finetune_right_pad|>", 0, 0, 0}, {POST_TRAIN, 8, 61, 0},
        {"<|image_start|>", 0, 0, 0}, {"<|image_end|>", 0, 0, 0}, {VISION, 0, 2, 0},
        {"<|tile_x_separator|>", 0, 0, 0}, {"<|tile_y_separator|>", 0, 0, 0}, {VISION, 2, 4, 0},
        {"<|image|>", 0, 0, 0}, {VISION, 6, 1, 0}, {"<|patch|>", 0, 0, 0}, {VISION, 7, 1041, 0},
        {REASONING, 0, 8, 0}, {"<|reasoning_thinking_start|>", 0, 0, 0},
        {"<|reasoning_thinking_end|>", 0, 0, 0}, {RESERVED, 0, 904, 0}}},
    {RANKS_QWEN, 151643, NULL, "<|endoftext|>", {
        {"<|endoftext|>", 0, 0, 151643}, {"<|im_start|>", 0, 0, 0}, {"<|im_end|>", 0, 0, 0},
        {"<|extra_%u|>", 0, 205, 0}}},
    {RANKS_GPT2, 50256, NULL, "<|endoftext|>", {{"<|endoftext|>", 0, 0, 50256}}},
    {RANKS_GPT2, 50281, NULL, "<|endoftext|>", {{"<|endoftext|>", 0, 0, 50256}}},
    {RANKS_CL100K, 100256, NULL, "<|endoftext|>", {
        {"<|endoftext|>", 0, 0, 100257}, {"<|fim_prefix|>", 0, 0, 0}, {"<|fim_middle|>", 0, 0, 0},
        {"<|fim_suffix|>", 0, 0, 0}, {"<|endofprompt|>", 0, 0, 100276}}},
    {RANKS_O200K, 199998, NULL, "<|endoftext|>", {
        {"<|endoftext|>", 0, 0, 199999}, {"<|endofprompt|>", 0, 0, 200018}}},
};
/* clang-format on */

static mica_status add_special(tokenizer *t, uint32_t id, const char *text, mica_error *err) {
    /* Qwen's program normalizes first: a mark behind the last letter makes another text of it. */
    added_token token = {.id = (int32_t)id, .special = true, .normalized = true};
    mica_status st = mica_vocab_add(&t->vocab, id, text, strlen(text), TOKEN_OUTSIDE, err);
    return st ? st : mica_tokenizer_add_token(t, token, err);
}

static mica_status add_run(tokenizer *t, const special_run *run, uint32_t *id, mica_error *err) {
    mica_status st = MICA_OK;
    if (run->id) *id = run->id;
    if (!run->n) return add_special(t, (*id)++, run->text, err);
    const char *number = strchr(run->text, '%');
    for (uint32_t i = run->first; i < run->first + run->n && !st; i++) {
        char text[80];
        snprintf(text, sizeof(text), "%.*s%u%s", (int)(number - run->text), run->text, i,
                 number + 2);
        st = add_special(t, (*id)++, text, err);
    }
    return st;
}

static int32_t find(const tokenizer *t, const char *text) {
    return text ? mica_vocab_find(&t->vocab, text, strlen(text)) : -1;
}

mica_status mica_older_add_specials(tokenizer *t, rank_family family, mica_error *err) {
    const special_list *list = NULL;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && !list; i++) {
        bool is_it = lists[i].family == family && lists[i].n_ranks == t->vocab.n_ids;
        if (is_it) list = &lists[i];
    }
    if (!list) return MICA_OK;
    uint32_t id = 0;
    mica_status st = MICA_OK;
    for (const special_run *run = list->runs; run->text && !st; run++) {
        st = add_run(t, run, &id, err);
    }
    if (t->bos < 0) t->bos = find(t, list->bos);
    if (t->eos < 0) t->eos = find(t, list->eos);
    /* What ends a turn in these families' chats. */
    static const char *const ends[] = {"<|eom_id|>", "<|eot_id|>", "<|eom|>", "<|eot|>",
                                       "<|im_end|>"};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]) && !st; i++) {
        st = mica_tokenizer_add_end(t, find(t, ends[i]), err);
    }
    return st;
}
