/* format_patterns.c: the formats of JSON Schema as patterns of whole strings.
 *
 * A pattern allows only what the format's RFC allows, but not all of it: lengths are bounded where
 * the RFC has none, obsolete forms are left out.
 */
#include "text/grammar/schema.h"

#include <string.h>

#define OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 OCTET "(?:\\." OCTET "){3}"
#define H16 "[0-9a-fA-F]{1,4}"
#define LS32 "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                     \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32    \
    "|(?:(?:" H16 ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16           \
    ")?::(?:" H16 ":){2}" LS32 "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16     \
    ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16 ":){0,6}" H16 \
    ")?::)"
#define YEAR "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
#define BY_FOUR "(?:0[48]|[2468][048]|[13579][26])"
#define DATE                                                                                    \
    "(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]" \
    "[0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}" BY_FOUR "|" BY_FOUR "00)-02-29)"
#define CLOCK "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
#define TIME CLOCK ":[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-]" CLOCK ")"
#define DAY_TIME "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
#define DAYS "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
/* At most 60 of the 63 letters and four labels, so that the whole stays below 253. */
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,58}[A-Za-z0-9])?"
#define HOSTNAME LABEL "(?:\\." LABEL "){0,3}"
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
#define EMAIL ATOM "{1,30}(?:\\." ATOM "{1,15}){0,2}@" HOSTNAME
#define PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define URI_TAIL "(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"
#define URI_AUTHORITY                                                     \
    "//(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@)?(?:\\[" IPV6 \
    "\\]|[A-Za-z0-9._~-]+)(?::[0-9]{1,5})?(?:/" PCHAR "*)*"
#define URI_PATH "/(?:" PCHAR "+(?:/" PCHAR "*)*)?"
#define URI                                                                                \
    "[A-Za-z][A-Za-z0-9+.-]*:(?:" URI_AUTHORITY "|" URI_PATH "|" PCHAR "+(?:/" PCHAR "*)*" \
    ")" URI_TAIL
#define URI_REFERENCE                                                                              \
    "(?:" URI "|(?:" URI_AUTHORITY "|" URI_PATH "|(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})" \
    "+(?:/" PCHAR "*)*)?" URI_TAIL ")"

#define HEX(n) "[0-9a-fA-F]{" #n "}"
#define UUID(version) HEX(8) "-" HEX(4) "-" version HEX(3) "-[89abAB]" HEX(3) "-" HEX(12)

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration", "P(?:[0-9]+W|" DAYS "(?:" DAY_TIME ")?|" DAY_TIME ")"},
    {"email", EMAIL},
    {"hostname", HOSTNAME},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"uuid", "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
    {"uuid1", UUID("1")}, /* these as llama-server has them */
    {"uuid2", UUID("2")},
    {"uuid3", UUID("3")},
    {"uuid4", UUID("4")},
    {"uuid5", UUID("5")},
    {"uri", URI},
    {"uri-reference", URI_REFERENCE},
    {"json-pointer", "(?:/(?:[^~/]|~[01])*)*"},
    {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)"},
};

const char *mica_format_pattern(const char *name) {
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (strcmp(formats[i].name, name) == 0) return formats[i].pattern;
    }
    return NULL;
}
