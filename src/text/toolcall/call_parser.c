/* call_parser.c: the life of a parser: open, feed, finish. */
#include "text/toolcall/call_parser.h"

#include "text/tokenizer/text_buffer.h"

/* ---- marks ---- */
/* The length of the token that a marker begins with; 0: none. */
static size_t token_length(const tokenizer *vocabulary, const char *text) {
    size_t n = 0;
    for (size_t i = 3; vocabulary && i <= strlen(text); i++) {
        if (!strchr(">][", text[i - 1])) continue;
        if (mica_tokenizer_find(vocabulary, text, i) >= 0) n = i;
    }
    return n;
}

static void add_mark(toolcall_parser *p, mark_kind kind, const char *text,
                     const call_opener *opener, const tokenizer *vocabulary) {
    if (!text || p->n_marks == CALL_MAX_MARKERS) return;
    p->marks[p->n_marks++] = (call_mark){
        .kind = kind, .text = text, .opener = opener, .n_token = token_length(vocabulary, text)};
    p->may_start[(unsigned char)text[0]] = true;
}

static void add_marks(toolcall_parser *p, const tokenizer *vocabulary) {
    const call_format *f = p->format;
    const reasoning_format *r = p->reasoning;
    for (int i = 0; f && i < CALL_MAX_OPENERS; i++) {
        add_mark(p, MARK_OPENER, f->openers[i].text, &f->openers[i], vocabulary);
    }
    for (int i = 0; f && i < CALL_MAX_MARKS; i++) {
        add_mark(p, MARK_TAIL, f->tails[i], NULL, vocabulary);
        add_mark(p, MARK_DROP, f->drops[i], NULL, vocabulary);
    }
    if (r && !r->is_header) add_mark(p, MARK_REASONING_OPEN, r->open, NULL, vocabulary);
    for (int i = 0; r && i < 4; i++) {
        add_mark(p, MARK_REASONING_CLOSE, r->closes[i], NULL, vocabulary);
    }
    for (int i = 0; r && i < CALL_MAX_MARKS; i++) {
        add_mark(p, MARK_DROP, r->drops[i], NULL, vocabulary);
    }
}

/* ---- open ---- */
mica_status mica_toolcall_open(toolcall_parser **out, const toolcall_dialect *d,
                               const toolcall_options *options, mica_error *err) {
    toolcall_parser *p = mica_calloc(1, sizeof(*p));
    if (!p) return mica_fail(err, MICA_E_NOMEM, "tool calls: out of memory for a parser");
    p->format = d->format;
    p->reasoning = d->reasoning;
    p->ignores_calls = options->ignores_calls;
    p->is_stream = options->streams_arguments;
    p->is_by_token = options->vocabulary != NULL;
    p->at_start = true;
    if (p->reasoning && options->start == TOOLCALL_START_REASONING) {
        p->mode = PARSE_REASONING;
        p->eats_newlines = true;
    } else if (p->reasoning && options->start == TOOLCALL_START_UNKNOWN) {
        p->mode = PARSE_UNKNOWN;
    }
    add_marks(p, options->vocabulary);
    if (options->tools) {
        mica_status st = mica_call_tools_parse(&p->tools, options->tools, options->n_tools, err);
        if (st) {
            mica_toolcall_free(p);
            return st;
        }
    }
    *out = p;
    return MICA_OK;
}

void mica_toolcall_free(toolcall_parser *p) {
    if (!p) return;
    call_attempt *a = &p->attempt;
    mica_call_tools_deinit(&p->tools);
    mica_call_text_deinit(&p->in);
    mica_call_text_deinit(&p->out);
    mica_call_text_deinit(&a->name);
    mica_call_text_deinit(&a->id);
    mica_call_text_deinit(&a->args);
    mica_call_text_deinit(&a->key);
    mica_call_text_deinit(&a->value);
    mica_free(p->tokens);
    mica_free(p->events);
    mica_free(p);
}

/* ---- feed ---- */
static void note_token(toolcall_parser *p, const char *text, size_t n) {
    bool is_start = false;
    for (size_t i = 0; i < p->n_marks && !is_start; i++) {
        const call_mark *m = &p->marks[i];
        is_start = m->n_token == n && memcmp(m->text, text, n) == 0;
    }
    if (n == 0 || !is_start) return;
    fed_token *grown =
        mica_text_grow(p->tokens, &p->tokens_capacity, p->n_tokens + 1, sizeof(*grown));
    if (!grown) {
        p->failed = true;
        return;
    }
    p->tokens = grown;
    p->tokens[p->n_tokens++] = (fed_token){.begin = p->base + p->in.n, .n = n};
}

/* Moves what is left to the front. */
static void compact(toolcall_parser *p) {
    size_t n = p->begin, n_kept = 0;
    if (n == 0) return;
    memmove(p->in.data, p->in.data + n, p->in.n - n);
    p->in.n -= n;
    p->base += n;
    p->scan -= n;
    if (p->opener) p->opener_at -= n;
    p->begin = 0;
    for (size_t i = 0; i < p->n_tokens; i++) {
        if (p->tokens[i].begin >= p->base) p->tokens[n_kept++] = p->tokens[i];
    }
    p->n_tokens = n_kept;
}

static mica_status run(toolcall_parser *p, mica_error *err) {
    while (mica_call_step(p)) {
    }
    if (p->failed || p->in.failed || p->out.failed) {
        p->failed = true;
        p->n_events = 0;
        return mica_fail(err, MICA_E_NOMEM, "tool calls: out of memory while parsing an answer");
    }
    compact(p);
    return MICA_OK;
}

mica_status mica_toolcall_feed(toolcall_parser *p, const char *text, size_t n, mica_error *err) {
    if (p->is_end) {
        return mica_fail(err, MICA_E_STATE, "tool calls: the answer was finished already");
    }
    p->n_events = p->out.n = 0;
    if (p->is_by_token) note_token(p, text, n);
    mica_call_put(&p->in, text, n);
    mica_status st = run(p, err);
    mica_call_events_settle(p);
    return st;
}

mica_status mica_toolcall_finish(toolcall_parser *p, bool is_cut, mica_error *err) {
    if (p->is_end) {
        return mica_fail(err, MICA_E_STATE, "tool calls: the answer was finished already");
    }
    p->n_events = p->out.n = 0;
    p->is_hurried = true; /* so that the state at the end depends on the text alone */
    mica_status st = run(p, err);
    p->is_end = true;
    p->is_cut = is_cut;
    if (!st) st = run(p, err);
    mica_call_events_settle(p);
    return st;
}

const toolcall_event *mica_toolcall_events(const toolcall_parser *p, size_t *n) {
    *n = p->n_events;
    return p->events;
}
