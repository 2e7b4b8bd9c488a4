/* regex_property.c: names of Unicode properties, from Oniguruma's spelling to PCRE2's.
 *
 * Oniguruma ignores case, spaces, '_' and '-' in names and takes long names of categories. A plain
 * script name means Script; PCRE2 would take it for Script_Extensions.
 */
#include "text/tokenizer/regex_rewrite.h"

typedef struct property_name {
    const char *name; /* lower case, without separators */
    const char *pcre;
} property_name;

static const property_name names[] = {
    {"letter", "\\p{L}"},
    {"casedletter", "\\p{Lu}\\p{Ll}\\p{Lt}"},
    {"lc", "\\p{Lu}\\p{Ll}\\p{Lt}"},
    {"uppercaseletter", "\\p{Lu}"},
    {"lowercaseletter", "\\p{Ll}"},
    {"titlecaseletter", "\\p{Lt}"},
    {"modifierletter", "\\p{Lm}"},
    {"otherletter", "\\p{Lo}"},
    {"mark", "\\p{M}"},
    {"combiningmark", "\\p{M}"},
    {"nonspacingmark", "\\p{Mn}"},
    {"spacingmark", "\\p{Mc}"},
    {"enclosingmark", "\\p{Me}"},
    {"number", "\\p{N}"},
    {"decimalnumber", "\\p{Nd}"},
    {"digit", "\\p{Nd}"},
    {"letternumber", "\\p{Nl}"},
    {"othernumber", "\\p{No}"},
    {"punctuation", "\\p{P}"},
    {"punct", "\\p{P}"},
    {"connectorpunctuation", "\\p{Pc}"},
    {"dashpunctuation", "\\p{Pd}"},
    {"openpunctuation", "\\p{Ps}"},
    {"closepunctuation", "\\p{Pe}"},
    {"initialpunctuation", "\\p{Pi}"},
    {"finalpunctuation", "\\p{Pf}"},
    {"otherpunctuation", "\\p{Po}"},
    {"symbol", "\\p{S}"},
    {"mathsymbol", "\\p{Sm}"},
    {"currencysymbol", "\\p{Sc}"},
    {"modifiersymbol", "\\p{Sk}"},
    {"othersymbol", "\\p{So}"},
    {"separator", "\\p{Z}"},
    {"spaceseparator", "\\p{Zs}"},
    {"lineseparator", "\\p{Zl}"},
    {"paragraphseparator", "\\p{Zp}"},
    {"other", "\\p{C}"},
    {"control", "\\p{Cc}"},
    {"cntrl", "\\p{Cc}"},
    {"format", "\\p{Cf}"},
    {"privateuse", "\\p{Co}"},
    {"unassigned", "\\p{Cn}"},
    {"alphabetic", "\\p{Alphabetic}"},
    {"alpha", "\\p{Alphabetic}"},
    {"alnum", "\\p{Alphabetic}\\p{Nd}"},
    {"uppercase", "\\p{Uppercase}"},
    {"upper", "\\p{Uppercase}"},
    {"lowercase", "\\p{Lowercase}"},
    {"lower", "\\p{Lowercase}"},
    {"whitespace", "\\p{White_Space}"},
    {"space", "\\p{White_Space}"},
    {"word", REGEX_WORD_ITEMS},
    {"emoji", "\\p{Emoji}"},
    {"ideographic", "\\p{Ideographic}"},
};

static const char categories[][3] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc",
                                     "Me", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps",
                                     "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So",
                                     "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Co", "Cn"};

static bool equals_folded(const char *folded, const char *name) {
    size_t i = 0;
    for (; name[i] && folded[i]; i++) {
        char c = name[i];
        if (c >= 'A' && c <= 'Z') c = (char)(c + 32);
        if (c != folded[i]) return false;
    }
    return !name[i] && !folded[i];
}

static void put_string(text_buffer *out, const char *s) { text_put_bytes(out, s, strlen(s)); }

bool mica_regex_property(text_buffer *out, const char *name, size_t n) {
    char folded[40];
    size_t n_folded = 0;
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        if (c == ' ' || c == '_' || c == '-') continue;
        if (c >= 'A' && c <= 'Z') c = (char)(c + 32);
        if (c < 'a' || c > 'z' || n_folded + 1 == sizeof(folded)) return false;
        folded[n_folded++] = c;
    }
    folded[n_folded] = '\0';
    for (size_t i = 0; i < sizeof(categories) / sizeof(categories[0]); i++) {
        if (!equals_folded(folded, categories[i])) continue;
        put_string(out, "\\p{");
        put_string(out, categories[i]);
        put_string(out, "}");
        return true;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(folded, names[i].name) != 0) continue;
        put_string(out, names[i].pcre);
        return true;
    }
    if (n_folded < 2) return false;
    put_string(out, "\\p{sc:"); /* PCRE2 refuses what is no script */
    put_string(out, folded);
    put_string(out, "}");
    return true;
}
