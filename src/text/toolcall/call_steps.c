/* call_steps.c: text outside calls: what is content, what is reasoning, what is markup.
 *
 * Every step depends only on the bytes that were seen, never on where the pieces ended: a marker
 * that may still grow is waited for, and white space waits for what follows it.
 */
#include "text/toolcall/call_parser.h"

typedef struct hit {
    mark_kind kind; /* MARK_NONE: none */
    const call_opener *opener;
    const char *text;
    size_t at; /* where it begins; without a hit, where a marker may begin, or the end */
    size_t n;
} hit;

static size_t n_in(const toolcall_parser *p) { return p->in.n; }

void mica_call_flush_text(toolcall_parser *p, size_t end) {
    bool is_reasoning = p->mode == PARSE_REASONING;
    if (end > p->begin) {
        mica_call_emit(p, is_reasoning ? TOOLCALL_REASONING : TOOLCALL_CONTENT,
                       p->in.data + p->begin, end - p->begin);
        p->begin = end;
        if (is_reasoning) {
            p->has_reasoned = true;
        } else {
            p->at_start = p->after_call = p->in_block = p->in_list = false;
        }
    }
    if (p->scan < end) p->scan = end;
}

void mica_call_flush_markup(toolcall_parser *p, size_t end) {
    if (end > p->begin) {
        mica_call_emit(p, TOOLCALL_MARKUP, p->in.data + p->begin, end - p->begin);
        p->begin = end;
    }
    if (p->scan < end) p->scan = end;
}

/* White space that a marker behind it makes markup: all of it in content, line breaks in
 * reasoning. */
static bool is_layout(const toolcall_parser *p, char c) {
    return p->mode == PARSE_REASONING ? c == '\n' || c == '\r' : call_is_space(c);
}

/* Where the white space before `end` begins. */
static size_t trim_end(const toolcall_parser *p, size_t end) {
    size_t i = end;
    while (i > p->scan && is_layout(p, p->in.data[i - 1])) {
        i--;
    }
    return i > p->scan ? i : p->begin; /* before `scan` there is only white space */
}

static size_t trim_newlines(const toolcall_parser *p, size_t end) {
    while (end > p->begin && (p->in.data[end - 1] == '\n' || p->in.data[end - 1] == '\r')) {
        end--;
    }
    return end;
}

/* ---- marks ---- */
static bool is_blank_before(const toolcall_parser *p, size_t at) {
    for (size_t i = at; i > p->scan; i--) {
        if (!call_is_space(p->in.data[i - 1])) return false;
    }
    return true;
}

static bool admits_opener(const toolcall_parser *p, const call_opener *o, size_t at) {
    if (p->barred_at == p->base + at + 1 || p->n_failed > CALL_MAX_FAILED) return false;
    if (p->ignores_calls && !(o->flags & CALL_STRUCTURE)) return false;
    if (p->mode != PARSE_CONTENT) {
        bool is_free = !(o->flags & (CALL_AT_START | CALL_IN_BLOCK | CALL_IN_LIST));
        return is_free && p->reasoning->is_ended_by_call;
    }
    if (o->flags & CALL_AT_START) return p->at_start && is_blank_before(p, at);
    if (o->flags & CALL_IN_BLOCK) return p->after_call && p->in_block && at == p->begin;
    if (o->flags & CALL_IN_LIST) return p->after_call && p->in_list && at == p->begin;
    return true;
}

/* Separators mean something only where a list or a block goes on. */
static bool admits_tail(const toolcall_parser *p, const char *text, size_t at) {
    if (p->mode != PARSE_CONTENT || !p->after_call || at != p->begin) return false;
    if (strcmp(text, ",") == 0 || strcmp(text, "]") == 0) return p->in_list;
    return strcmp(text, ";") != 0 || p->in_block;
}

static bool admits(const toolcall_parser *p, const call_mark *m, size_t at) {
    bool in_reasoning = p->mode != PARSE_CONTENT;
    if (m->kind == MARK_OPENER) return admits_opener(p, m->opener, at);
    if (m->kind == MARK_TAIL) return admits_tail(p, m->text, at);
    if (m->kind == MARK_DROP) return !in_reasoning;
    if (m->kind == MARK_REASONING_OPEN) {
        if (p->mode == PARSE_UNKNOWN) return !p->has_reasoned && is_blank_before(p, at);
        if (in_reasoning) return !p->has_reasoned && at == p->begin; /* once more */
        if (p->reasoning->is_interleaved) return true;
        return p->at_start && !p->reasoning_done && is_blank_before(p, at);
    }
    /* An end marker before anything else says that the model did not reason. */
    return in_reasoning || (p->at_start && !p->reasoning_done && is_blank_before(p, at));
}

static bool is_token_at(const toolcall_parser *p, size_t at, size_t n) {
    for (size_t i = 0; i < p->n_tokens; i++) {
        if (p->tokens[i].begin == p->base + at && p->tokens[i].n == n) return true;
    }
    return false;
}

static call_verdict match_mark(const toolcall_parser *p, const call_mark *m, size_t at, size_t *n) {
    call_verdict v = mica_call_marker(p->in.data + at, n_in(p) - at, m->text, n);
    if (v == CALL_NOT || (v == CALL_MORE && p->is_end)) return CALL_NOT;
    if (p->is_by_token && m->n_token && !is_token_at(p, at, m->n_token)) return CALL_NOT;
    return admits(p, m, at) ? v : CALL_NOT;
}

/* The longest mark at one place. CALL_MORE: a longer one may come. */
static call_verdict find_at(const toolcall_parser *p, size_t at, hit *h) {
    call_verdict best = CALL_NOT;
    for (size_t i = 0; i < p->n_marks; i++) {
        const call_mark *m = &p->marks[i];
        size_t n = 0;
        call_verdict v = m->text[0] ? match_mark(p, m, at, &n) : CALL_NOT;
        if (v == CALL_MORE) return v;
        if (v == CALL_OK && (best == CALL_NOT || n > h->n)) {
            *h = (hit){.kind = m->kind, .opener = m->opener, .text = m->text, .at = at, .n = n};
            best = CALL_OK;
        }
    }
    return best;
}

static call_verdict find_mark(const toolcall_parser *p, hit *h) {
    *h = (hit){.at = n_in(p)};
    for (size_t i = p->scan; i < n_in(p); i++) {
        if (!p->may_start[(unsigned char)p->in.data[i]]) continue;
        call_verdict v = find_at(p, i, h);
        if (v == CALL_MORE) *h = (hit){.at = i};
        if (v != CALL_NOT) return v;
    }
    return CALL_NOT;
}

/* ---- content ---- */
static void open_reasoning(toolcall_parser *p) {
    p->mode = PARSE_REASONING;
    p->has_reasoned = false;
    p->eats_newlines = true;
}

static void take_tail(toolcall_parser *p, const hit *h) {
    bool is_separator = strchr(",;]`", h->text[0]) != NULL;
    mica_call_flush_markup(p, h->at + h->n);
    if (h->text[0] == ']') p->in_list = false;
    if (!is_separator) p->in_block = p->in_list = false;
}

static void take_in_content(toolcall_parser *p, const hit *h) {
    size_t text_end = trim_end(p, h->at);
    switch (h->kind) {
    case MARK_OPENER:
        mica_call_flush_text(p, text_end);
        p->scan = h->at;
        mica_call_start_attempt(p, h->opener, h->at);
        return;
    case MARK_TAIL:
        take_tail(p, h);
        return;
    case MARK_REASONING_OPEN:
        if (!p->at_start || text_end > p->begin) mica_call_flush_text(p, trim_newlines(p, h->at));
        mica_call_flush_markup(p, h->at + h->n);
        open_reasoning(p);
        return;
    case MARK_REASONING_CLOSE:
        mica_call_flush_markup(p, h->at + h->n);
        p->reasoning_done = p->eats_newlines = true;
        return;
    default:
        mica_call_flush_text(p, p->at_start && text_end == p->begin ? p->begin : h->at);
        mica_call_flush_markup(p, h->at + h->n);
        p->eats_newlines = true;
    }
}

/* Layout at the begin of the text; false if it may go on. */
static bool eat_layout(toolcall_parser *p) {
    size_t i = p->begin;
    while (i < n_in(p) && (p->after_call ? call_is_space(p->in.data[i])
                                         : p->in.data[i] == '\n' || p->in.data[i] == '\r')) {
        i++;
    }
    mica_call_flush_markup(p, i);
    if (i < n_in(p)) p->eats_newlines = false;
    return i < n_in(p);
}

/* An opener without text stands wherever the first word is, unless a mark does. */
static bool try_empty_opener(toolcall_parser *p) {
    size_t i = p->scan; /* what is held before it is white space */
    hit h;
    while (i < n_in(p) && call_is_space(p->in.data[i])) {
        i++;
    }
    for (size_t k = 0; i < n_in(p) && k < p->n_marks; k++) {
        const call_mark *m = &p->marks[k];
        if (m->kind != MARK_OPENER || m->text[0] || !admits_opener(p, m->opener, i)) continue;
        if (p->may_start[(unsigned char)p->in.data[i]] && find_at(p, i, &h) != CALL_NOT) {
            return false;
        }
        p->scan = i;
        mica_call_start_attempt(p, m->opener, i);
        return true;
    }
    return false;
}

static bool content_step(toolcall_parser *p) {
    hit h;
    if ((p->after_call || p->eats_newlines) && !eat_layout(p)) return false;
    if (p->begin == n_in(p)) return false;
    if (try_empty_opener(p)) return true;
    call_verdict v = find_mark(p, &h);
    if (v == CALL_OK) {
        take_in_content(p, &h);
        return true;
    }
    mica_call_flush_text(p, p->is_end ? n_in(p) : trim_end(p, h.at));
    p->scan = h.at;
    return false;
}

/* ---- reasoning ---- */
static bool reasoning_step(toolcall_parser *p) {
    hit h;
    if (p->eats_newlines && !eat_layout(p)) return false;
    if (p->begin == n_in(p)) return false;
    call_verdict v = find_mark(p, &h);
    if (v != CALL_OK) {
        mica_call_flush_text(p, p->is_end ? n_in(p) : trim_end(p, h.at));
        p->scan = h.at;
        return false;
    }
    mica_call_flush_text(p, trim_end(p, h.at));
    if (h.kind == MARK_OPENER) {
        p->scan = h.at;
        mica_call_start_attempt(p, h.opener, h.at);
        return true;
    }
    mica_call_flush_markup(p, h.at + h.n);
    p->eats_newlines = true;
    if (h.kind == MARK_REASONING_CLOSE) {
        p->mode = PARSE_CONTENT;
        p->reasoning_done = true;
    }
    return true;
}

/* Until an end marker says what the text before it was. */
static bool unknown_step(toolcall_parser *p) {
    hit h;
    call_verdict v = find_mark(p, &h);
    if (v != CALL_OK && !p->is_end) {
        p->has_reasoned |= !is_blank_before(p, h.at); /* an open marker comes too late now */
        p->scan = h.at;
        return false;
    }
    bool is_reasoning = v == CALL_OK && h.kind != MARK_REASONING_OPEN;
    p->mode = is_reasoning ? PARSE_REASONING : PARSE_CONTENT;
    p->scan = p->begin;
    p->has_reasoned = false;
    p->eats_newlines = is_reasoning;
    return true;
}

bool mica_call_step(toolcall_parser *p) {
    if (p->failed || p->in.failed || p->out.failed) return false;
    if (p->opener) return mica_call_attempt_step(p);
    if (p->mode == PARSE_CONTENT) return content_step(p);
    return p->mode == PARSE_REASONING ? reasoning_step(p) : unknown_step(p);
}
