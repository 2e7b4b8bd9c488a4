/* charsmap.c: walking the double array, by clusters or by longest prefixes. */
#include "text/tokenizer/charsmap.h"

#include <utf8proc.h>

#include "text/tokenizer/codepoint.h"

#define SPACE_MARK "\xE2\x96\x81"
#define MAX_CLUSTER_BYTES 6

/* ---- reading ---- */

static uint32_t load_u32(const char *p) {
    const unsigned char *b = (const unsigned char *)p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

mica_status mica_charsmap_read(charsmap *out, const char *bytes, size_t n, const step_loader *l,
                               mica_error *err) {
    *out = (charsmap){0};
    if (!n) return MICA_OK;
    size_t n_trie = n >= 4 ? load_u32(bytes) : 0;
    if (n < 4 || n_trie % 4 || !n_trie || n_trie > n - 4) {
        return mica_fail(err, MICA_E_FORMAT,
                         "%s: precompiled_charsmap has %zu bytes, which its table of %zu bytes "
                         "does not fit",
                         l->name, n, n_trie);
    }
    uint32_t *units = mica_arena_alloc(l->arena, n_trie);
    out->replacements = mica_arena_strndup(l->arena, bytes + 4 + n_trie, n - 4 - n_trie);
    if (!units || !out->replacements) return mica_step_no_memory(l, err);
    for (size_t i = 0; i < n_trie / 4; i++) {
        units[i] = load_u32(bytes + 4 + 4 * i);
    }
    out->units = units;
    out->n_units = n_trie / 4;
    out->n_replacements = n - 4 - n_trie;
    if (utf8_valid_prefix(out->replacements, out->n_replacements) != out->n_replacements) {
        return mica_fail(err, MICA_E_FORMAT, "%s: precompiled_charsmap holds ill-formed UTF-8",
                         l->name);
    }
    return MICA_OK;
}

static int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

mica_status mica_base64_decode(text_buffer *out, const char *base64, size_t n, const step_loader *l,
                               mica_error *err) {
    uint32_t bits = 0;
    mica_status st = mica_text_buffer_reserve(out, n / 4 * 3 + 3, err);
    for (size_t i = 0; i < n && !st && base64[i] != '='; i++) {
        int digit = base64_digit(base64[i]);
        if (digit < 0) {
            return mica_fail(err, MICA_E_FORMAT, "%s: base64 with the byte 0x%02X at %zu", l->name,
                             (uint8_t)base64[i], i);
        }
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4) out->data[out->n++] = (char)(bits >> (6 - 2 * (i % 4)) & 0xFF);
    }
    return st;
}

mica_status mica_charsmap_decode(charsmap *out, const char *base64, size_t n, const step_loader *l,
                                 mica_error *err) {
    text_buffer bytes = {0};
    mica_status st = mica_base64_decode(&bytes, base64, n, l, err);
    if (!st) st = mica_charsmap_read(out, bytes.data, bytes.n, l, err);
    mica_text_buffer_deinit(&bytes);
    return st;
}

/* ---- walking ---- */

static uint32_t unit_offset(uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

typedef struct found_prefix {
    size_t n; /* bytes of it; 0: none */
    const char *replacement;
    size_t n_replacement;
} found_prefix;

static bool is_boundary(const char *text, size_t i, size_t n) {
    return i == n || ((uint8_t)text[i] & 0xC0) != 0x80;
}

/* The shortest or the longest prefix of text[0..n) in the table; a longest one ends with a
 * character. */
static found_prefix find_prefix(const charsmap *map, const char *text, size_t n, bool is_longest) {
    found_prefix found = {0};
    if (!map->units) return found;
    uint32_t at = unit_offset(map->units[0]);
    for (size_t i = 0; i < n && text[i]; i++) {
        at ^= (uint8_t)text[i];
        if (at >= map->n_units) break;
        uint32_t unit = map->units[at];
        if ((unit & 0x800000FFu) != (uint8_t)text[i]) break;
        at ^= unit_offset(unit);
        if (!(unit >> 8 & 1)) continue;
        uint32_t place = at < map->n_units ? map->units[at] & 0x7FFFFFFFu : UINT32_MAX;
        if (place > map->n_replacements || !is_boundary(map->replacements, place, SIZE_MAX)) break;
        if (is_longest && !is_boundary(text, i + 1, n)) continue;
        found.n = i + 1;
        found.replacement = map->replacements + place;
        found.n_replacement = strlen(found.replacement);
        if (!is_longest) break;
    }
    return found;
}

/* ---- by clusters ---- */

static mica_status put_cluster(const charsmap *map, const char *text, size_t n, text_buffer *out,
                               mica_error *err) {
    mica_status st = MICA_OK;
    if (n < MAX_CLUSTER_BYTES) {
        found_prefix found = find_prefix(map, text, n, false);
        if (found.n) {
            return mica_text_buffer_append(out, found.replacement, found.n_replacement, err);
        }
    }
    for (size_t i = 0, width; i < n && !st; i += width) {
        width = utf8_width(text[i]);
        found_prefix found = find_prefix(map, text + i, width, false);
        st = found.n ? mica_text_buffer_append(out, found.replacement, found.n_replacement, err)
                     : mica_text_buffer_append(out, text + i, width, err);
    }
    return st;
}

mica_status mica_charsmap_clusters(const charsmap *map, const char *text, size_t n,
                                   text_buffer *out, mica_error *err) {
    mica_status st = MICA_OK;
    utf8proc_int32_t state = 0;
    for (size_t i = 0; i < n && !st;) {
        size_t begin = i, width;
        uint32_t last = utf8_read(text + i, &width);
        state = 0;
        for (i += width; i < n; i += width) {
            uint32_t next = utf8_read(text + i, &width);
            bool is_break = utf8proc_grapheme_break_stateful((utf8proc_int32_t)last,
                                                             (utf8proc_int32_t)next, &state);
            if (is_break) break;
            last = next;
        }
        st = put_cluster(map, text + begin, i - begin, out, err);
    }
    return st;
}

/* ---- by longest prefixes ---- */

/* The next stretch of text[0..n) as it reads after replacement; the result is its length in the
 * text. */
static size_t next_stretch(const charsmap *map, const spm_spaces *spaces, const char *text,
                           size_t n, const char **out, size_t *n_out) {
    int32_t id;
    size_t n_user = spaces->user ? mica_piece_trie_longest(spaces->user, text, n, &id) : 0;
    found_prefix found = {0};
    if (n_user && !is_boundary(text, n_user, n)) n_user = 0;
    if (!n_user) found = find_prefix(map, text, n, true);
    if (found.n) {
        *out = found.replacement;
        *n_out = found.n_replacement;
        return found.n;
    }
    *out = text;
    *n_out = n_user ? n_user : utf8_width(text[0]);
    return *n_out;
}

static mica_status put_space(const spm_spaces *spaces, text_buffer *out, mica_error *err) {
    return mica_text_buffer_append(out, spaces->escape ? SPACE_MARK : " ", spaces->escape ? 3 : 1,
                                   err);
}

static mica_status put_text(const spm_spaces *spaces, const char *text, size_t n, text_buffer *out,
                            mica_error *err) {
    mica_status st = MICA_OK;
    for (size_t i = 0; i < n && !st;) {
        const char *space = memchr(text + i, ' ', n - i);
        size_t end = space ? (size_t)(space - text) : n;
        st = mica_text_buffer_append(out, text + i, end - i, err);
        if (!st && space) st = put_space(spaces, out, err);
        i = end + (space != NULL);
    }
    return st;
}

static void trim_end(const spm_spaces *spaces, text_buffer *out, size_t floor) {
    size_t n_space = spaces->escape ? 3 : 1;
    const char *space = spaces->escape ? SPACE_MARK : " ";
    while (out->n >= floor + n_space && memcmp(out->data + out->n - n_space, space, n_space) == 0) {
        out->n -= n_space;
    }
}

mica_status mica_charsmap_sentencepiece(const charsmap *map, const spm_spaces *spaces, bool is_head,
                                        const char *text, size_t n, text_buffer *out,
                                        mica_error *err) {
    size_t i = 0, begin = out->n, n_part, width;
    const char *part;
    mica_status st = MICA_OK;
    while (spaces->remove_extra && i < n) {
        width = next_stretch(map, spaces, text + i, n - i, &part, &n_part);
        if (n_part != 1 || part[0] != ' ') break;
        i += width;
    }
    if (i == n) return MICA_OK;
    bool has_dummy = spaces->add_dummy_prefix && (is_head || !spaces->only_head);
    if (has_dummy && !spaces->is_suffix) st = put_space(spaces, out, err);
    for (bool was_space = spaces->remove_extra; i < n && !st; i += width) {
        width = next_stretch(map, spaces, text + i, n - i, &part, &n_part);
        while (was_space && n_part && part[0] == ' ') {
            part++;
            n_part--;
        }
        if (!n_part) continue;
        st = put_text(spaces, part, n_part, out, err);
        was_space = spaces->remove_extra && part[n_part - 1] == ' ';
    }
    if (!st && spaces->remove_extra) trim_end(spaces, out, begin);
    if (!st && has_dummy && spaces->is_suffix) st = put_space(spaces, out, err);
    return st;
}
