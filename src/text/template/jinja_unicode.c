/* jinja_unicode.c: characters as Python's str methods see them: classes, case, white space.
 *
 * utf8proc has categories and simple case mappings; here are the rest of the Unicode database that
 * str needs: mappings to several characters (SpecialCasing without conditions), letters outside
 * Ll and Lu that count as lower or upper case, digits outside Nd. All ranges are sorted.
 */
#include <utf8proc.h>

#include "text/template/jinja_string.h"

typedef struct char_range {
    uint32_t first, last;
} char_range;

typedef struct special_case {
    uint32_t c;
    uint32_t upper[3], title[3];
} special_case;

/* clang-format off */
static const special_case special_cases[] = {
    {0x00DF, {0x0053, 0x0053}, {0x0053, 0x0073}},
    {0x0149, {0x02BC, 0x004E}, {0x02BC, 0x004E}},
    {0x01F0, {0x004A, 0x030C}, {0x004A, 0x030C}},
    {0x0390, {0x0399, 0x0308, 0x0301}, {0x0399, 0x0308, 0x0301}},
    {0x03B0, {0x03A5, 0x0308, 0x0301}, {0x03A5, 0x0308, 0x0301}},
    {0x0587, {0x0535, 0x0552}, {0x0535, 0x0582}},
    {0x1E96, {0x0048, 0x0331}, {0x0048, 0x0331}},
    {0x1E97, {0x0054, 0x0308}, {0x0054, 0x0308}},
    {0x1E98, {0x0057, 0x030A}, {0x0057, 0x030A}},
    {0x1E99, {0x0059, 0x030A}, {0x0059, 0x030A}},
    {0x1E9A, {0x0041, 0x02BE}, {0x0041, 0x02BE}},
    {0x1F50, {0x03A5, 0x0313}, {0x03A5, 0x0313}},
    {0x1F52, {0x03A5, 0x0313, 0x0300}, {0x03A5, 0x0313, 0x0300}},
    {0x1F54, {0x03A5, 0x0313, 0x0301}, {0x03A5, 0x0313, 0x0301}},
    {0x1F56, {0x03A5, 0x0313, 0x0342}, {0x03A5, 0x0313, 0x0342}},
    {0x1F80, {0x1F08, 0x0399}, {0x1F88}},
    {0x1F81, {0x1F09, 0x0399}, {0x1F89}},
    {0x1F82, {0x1F0A, 0x0399}, {0x1F8A}},
    {0x1F83, {0x1F0B, 0x0399}, {0x1F8B}},
    {0x1F84, {0x1F0C, 0x0399}, {0x1F8C}},
    {0x1F85, {0x1F0D, 0x0399}, {0x1F8D}},
    {0x1F86, {0x1F0E, 0x0399}, {0x1F8E}},
    {0x1F87, {0x1F0F, 0x0399}, {0x1F8F}},
    {0x1F88, {0x1F08, 0x0399}, {0x1F88}},
    {0x1F89, {0x1F09, 0x0399}, {0x1F89}},
    {0x1F8A, {0x1F0A, 0x0399}, {0x1F8A}},
    {0x1F8B, {0x1F0B, 0x0399}, {0x1F8B}},
    {0x1F8C, {0x1F0C, 0x0399}, {0x1F8C}},
    {0x1F8D, {0x1F0D, 0x0399}, {0x1F8D}},
    {0x1F8E, {0x1F0E, 0x0399}, {0x1F8E}},
    {0x1F8F, {0x1F0F, 0x0399}, {0x1F8F}},
    {0x1F90, {0x1F28, 0x0399}, {0x1F98}},
    {0x1F91, {0x1F29, 0x0399}, {0x1F99}},
    {0x1F92, {0x1F2A, 0x0399}, {0x1F9A}},
    {0x1F93, {0x1F2B, 0x0399}, {0x1F9B}},
    {0x1F94, {0x1F2C, 0x0399}, {0x1F9C}},
    {0x1F95, {0x1F2D, 0x0399}, {0x1F9D}},
    {0x1F96, {0x1F2E, 0x0399}, {0x1F9E}},
    {0x1F97, {0x1F2F, 0x0399}, {0x1F9F}},
    {0x1F98, {0x1F28, 0x0399}, {0x1F98}},
    {0x1F99, {0x1F29, 0x0399}, {0x1F99}},
    {0x1F9A, {0x1F2A, 0x0399}, {0x1F9A}},
    {0x1F9B, {0x1F2B, 0x0399}, {0x1F9B}},
    {0x1F9C, {0x1F2C, 0x0399}, {0x1F9C}},
    {0x1F9D, {0x1F2D, 0x0399}, {0x1F9D}},
    {0x1F9E, {0x1F2E, 0x0399}, {0x1F9E}},
    {0x1F9F, {0x1F2F, 0x0399}, {0x1F9F}},
    {0x1FA0, {0x1F68, 0x0399}, {0x1FA8}},
    {0x1FA1, {0x1F69, 0x0399}, {0x1FA9}},
    {0x1FA2, {0x1F6A, 0x0399}, {0x1FAA}},
    {0x1FA3, {0x1F6B, 0x0399}, {0x1FAB}},
    {0x1FA4, {0x1F6C, 0x0399}, {0x1FAC}},
    {0x1FA5, {0x1F6D, 0x0399}, {0x1FAD}},
    {0x1FA6, {0x1F6E, 0x0399}, {0x1FAE}},
    {0x1FA7, {0x1F6F, 0x0399}, {0x1FAF}},
    {0x1FA8, {0x1F68, 0x0399}, {0x1FA8}},
    {0x1FA9, {0x1F69, 0x0399}, {0x1FA9}},
    {0x1FAA, {0x1F6A, 0x0399}, {0x1FAA}},
    {0x1FAB, {0x1F6B, 0x0399}, {0x1FAB}},
    {0x1FAC, {0x1F6C, 0x0399}, {0x1FAC}},
    {0x1FAD, {0x1F6D, 0x0399}, {0x1FAD}},
    {0x1FAE, {0x1F6E, 0x0399}, {0x1FAE}},
    {0x1FAF, {0x1F6F, 0x0399}, {0x1FAF}},
    {0x1FB2, {0x1FBA, 0x0399}, {0x1FBA, 0x0345}},
    {0x1FB3, {0x0391, 0x0399}, {0x1FBC}},
    {0x1FB4, {0x0386, 0x0399}, {0x0386, 0x0345}},
    {0x1FB6, {0x0391, 0x0342}, {0x0391, 0x0342}},
    {0x1FB7, {0x0391, 0x0342, 0x0399}, {0x0391, 0x0342, 0x0345}},
    {0x1FBC, {0x0391, 0x0399}, {0x1FBC}},
    {0x1FC2, {0x1FCA, 0x0399}, {0x1FCA, 0x0345}},
    {0x1FC3, {0x0397, 0x0399}, {0x1FCC}},
    {0x1FC4, {0x0389, 0x0399}, {0x0389, 0x0345}},
    {0x1FC6, {0x0397, 0x0342}, {0x0397, 0x0342}},
    {0x1FC7, {0x0397, 0x0342, 0x0399}, {0x0397, 0x0342, 0x0345}},
    {0x1FCC, {0x0397, 0x0399}, {0x1FCC}},
    {0x1FD2, {0x0399, 0x0308, 0x0300}, {0x0399, 0x0308, 0x0300}},
    {0x1FD3, {0x0399, 0x0308, 0x0301}, {0x0399, 0x0308, 0x0301}},
    {0x1FD6, {0x0399, 0x0342}, {0x0399, 0x0342}},
    {0x1FD7, {0x0399, 0x0308, 0x0342}, {0x0399, 0x0308, 0x0342}},
    {0x1FE2, {0x03A5, 0x0308, 0x0300}, {0x03A5, 0x0308, 0x0300}},
    {0x1FE3, {0x03A5, 0x0308, 0x0301}, {0x03A5, 0x0308, 0x0301}},
    {0x1FE4, {0x03A1, 0x0313}, {0x03A1, 0x0313}},
    {0x1FE6, {0x03A5, 0x0342}, {0x03A5, 0x0342}},
    {0x1FE7, {0x03A5, 0x0308, 0x0342}, {0x03A5, 0x0308, 0x0342}},
    {0x1FF2, {0x1FFA, 0x0399}, {0x1FFA, 0x0345}},
    {0x1FF3, {0x03A9, 0x0399}, {0x1FFC}},
    {0x1FF4, {0x038F, 0x0399}, {0x038F, 0x0345}},
    {0x1FF6, {0x03A9, 0x0342}, {0x03A9, 0x0342}},
    {0x1FF7, {0x03A9, 0x0342, 0x0399}, {0x03A9, 0x0342, 0x0345}},
    {0x1FFC, {0x03A9, 0x0399}, {0x1FFC}},
    {0xFB00, {0x0046, 0x0046}, {0x0046, 0x0066}},
    {0xFB01, {0x0046, 0x0049}, {0x0046, 0x0069}},
    {0xFB02, {0x0046, 0x004C}, {0x0046, 0x006C}},
    {0xFB03, {0x0046, 0x0046, 0x0049}, {0x0046, 0x0066, 0x0069}},
    {0xFB04, {0x0046, 0x0046, 0x004C}, {0x0046, 0x0066, 0x006C}},
    {0xFB05, {0x0053, 0x0054}, {0x0053, 0x0074}},
    {0xFB06, {0x0053, 0x0054}, {0x0053, 0x0074}},
    {0xFB13, {0x0544, 0x0546}, {0x0544, 0x0576}},
    {0xFB14, {0x0544, 0x0535}, {0x0544, 0x0565}},
    {0xFB15, {0x0544, 0x053B}, {0x0544, 0x056B}},
    {0xFB16, {0x054E, 0x0546}, {0x054E, 0x0576}},
    {0xFB17, {0x0544, 0x053D}, {0x0544, 0x056D}},
};
/* clang-format on */

static const char_range other_lower[] = {
    {0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},     {0x2C0, 0x2C1},
    {0x2E0, 0x2E4},     {0x345, 0x345},     {0x37A, 0x37A},     {0x1D2C, 0x1D6A},
    {0x1D78, 0x1D78},   {0x1D9B, 0x1DBF},   {0x2071, 0x2071},   {0x207F, 0x207F},
    {0x2090, 0x209C},   {0x2170, 0x217F},   {0x24D0, 0x24E9},   {0x2C7C, 0x2C7D},
    {0xA69C, 0xA69D},   {0xA770, 0xA770},   {0xA7F8, 0xA7F9},   {0xAB5C, 0xAB5F},
    {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA}};

static const char_range other_upper[] = {{0x2160, 0x216F},
                                         {0x24B6, 0x24CF},
                                         {0x1F130, 0x1F149},
                                         {0x1F150, 0x1F169},
                                         {0x1F170, 0x1F189}};

static const char_range other_digits[] = {
    {0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
    {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
    {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
    {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
    {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};

static bool in_ranges(const char_range *ranges, size_t n, uint32_t c) {
    for (size_t i = 0; i < n && ranges[i].first <= c; i++)
        if (c <= ranges[i].last) return true;
    return false;
}

#define IN(ranges, c) in_ranges(ranges, sizeof(ranges) / sizeof((ranges)[0]), c)

static utf8proc_category_t category(uint32_t c) { return utf8proc_category((utf8proc_int32_t)c); }

static bool is_letter(utf8proc_category_t k) {
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

/* ---- classes ---- */

bool mica_j_is_space(uint32_t c) {
    if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20);
    return c == 0x85 || category(c) == UTF8PROC_CATEGORY_ZS || c == 0x2028 || c == 0x2029;
}

bool mica_j_is_line_end(uint32_t c) {
    return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

bool mica_j_is_alpha(uint32_t c) { return is_letter(category(c)); }

bool mica_j_is_decimal(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool mica_j_is_digit(uint32_t c) { return mica_j_is_decimal(c) || IN(other_digits, c); }

bool mica_j_is_alnum(uint32_t c) {
    utf8proc_category_t k = category(c);
    return is_letter(k) || (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

bool mica_j_is_printable(uint32_t c) {
    utf8proc_category_t k = category(c);
    return c == ' ' || (k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS);
}

bool mica_j_is_lower(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_LL || IN(other_lower, c);
}

bool mica_j_is_upper(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_LU || IN(other_upper, c);
}

bool mica_j_is_title(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }

bool mica_j_is_cased(uint32_t c) {
    return mica_j_is_lower(c) || mica_j_is_upper(c) || mica_j_is_title(c);
}

bool mica_j_is_name_char(uint32_t c, bool is_first) {
    if (c < 0x80) {
        bool is_letter_or_line = c == '_' || ((c | 32) >= 'a' && (c | 32) <= 'z');
        return is_letter_or_line || (!is_first && c >= '0' && c <= '9');
    }
    utf8proc_category_t k = category(c);
    if (is_letter(k) || k == UTF8PROC_CATEGORY_NL) return true;
    return !is_first && (k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC ||
                         k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_PC);
}

/* ---- case ---- */

static const special_case *find_special(uint32_t c) {
    size_t low = 0, high = sizeof(special_cases) / sizeof(special_cases[0]);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (special_cases[middle].c < c)
            low = middle + 1;
        else
            high = middle;
    }
    bool is_found = low < sizeof(special_cases) / sizeof(special_cases[0]);
    return is_found && special_cases[low].c == c ? &special_cases[low] : NULL;
}

int mica_j_map_case(uint32_t c, jcase to, uint32_t out[3]) {
    const special_case *special = c < 0x80 || to == CASE_LOWER ? NULL : find_special(c);
    if (special) {
        const uint32_t *from = to == CASE_UPPER ? special->upper : special->title;
        int n = 0;
        for (; n < 3 && from[n]; n++)
            out[n] = from[n];
        return n;
    }
    utf8proc_int32_t code = (utf8proc_int32_t)c;
    if (c == 0x130 && to == CASE_LOWER) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = (uint32_t)(to == CASE_UPPER   ? utf8proc_toupper(code)
                        : to == CASE_LOWER ? utf8proc_tolower(code)
                                           : utf8proc_totitle(code));
    return 1;
}

/* Case_Ignorable: marks, format characters, modifiers, and the punctuation found inside words. */
static bool is_ignorable(uint32_t c) {
    static const char_range inside_words[] = {
        {0x27, 0x27},     {0x2E, 0x2E},     {0x3A, 0x3A},     {0xB7, 0xB7},
        {0x387, 0x387},   {0x55F, 0x55F},   {0x5F4, 0x5F4},   {0x2018, 0x2019},
        {0x2024, 0x2024}, {0x2027, 0x2027}, {0xFE13, 0xFE13}, {0xFE52, 0xFE52},
        {0xFE55, 0xFE55}, {0xFF07, 0xFF07}, {0xFF0E, 0xFF0E}, {0xFF1A, 0xFF1A}};
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || IN(inside_words, c);
}

/* A capital sigma at `at` ends a word: a cased letter before it and none after. */
static bool is_final_sigma(const jstring *s, size_t at) {
    size_t n, i = at;
    bool is_after_letter = false;
    while (i > 0 && !is_after_letter) {
        i = mica_j_char_before(s->data, i);
        uint32_t c = mica_j_char_at(s->data, s->n, i, &n);
        if (is_ignorable(c)) continue;
        if (!mica_j_is_cased(c)) return false;
        is_after_letter = true;
    }
    for (i = at + 2; i < s->n; i += n) {
        uint32_t c = mica_j_char_at(s->data, s->n, i, &n);
        if (!is_ignorable(c)) return is_after_letter && !mica_j_is_cased(c);
    }
    return is_after_letter;
}

bool mica_j_put_case(jrender *r, jbuffer *to, const jstring *s, size_t begin, size_t end,
                     jcase kind) {
    for (size_t i = begin, n; i < end; i += n) {
        uint32_t c = mica_j_char_at(s->data, s->n, i, &n), mapped[3];
        int n_mapped = mica_j_map_case(c, kind, mapped);
        if (c == 0x3A3 && kind == CASE_LOWER && is_final_sigma(s, i)) mapped[0] = 0x3C2;
        for (int k = 0; k < n_mapped; k++)
            if (!mica_j_put_char(r, to, mapped[k], mica_j_origin_at(s, i))) return false;
    }
    return true;
}

bool mica_j_change_case(jrender *r, const jstring *s, jcase kind, const jstring **out) {
    jbuffer *b = mica_j_buffer_new(r);
    return b && mica_j_put_case(r, b, s, 0, s->n, kind) &&
           mica_j_finish(r, b, s->is_markup, out);
}
