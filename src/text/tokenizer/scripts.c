/* scripts.c: the regex that cuts a text where its script changes.
 *
 * As the tokenizers library has it: Hiragana, Katakana and U+30FC count as Han; Common and
 * Inherited are scripts of their own; a space and what has no script (unassigned, private) go with
 * what stands before them. What stands before the first script is lost.
 */
#include "text/tokenizer/steps.h"

/* Those of Unicode 14 without Common, Han, Hiragana and Katakana; the most frequent ones first,
 * since the regex tries them in this order. */
// clang-format off
static const char *const scripts[] = {
    "Latin", "Cyrillic", "Arabic", "Hangul", "Greek", "Hebrew", "Devanagari", "Thai", "Inherited",
    "Adlam", "Ahom", "Anatolian_Hieroglyphs", "Armenian", "Avestan", "Balinese", "Bamum",
    "Bassa_Vah", "Batak", "Bengali", "Bhaiksuki", "Bopomofo", "Brahmi", "Braille", "Buginese",
    "Buhid", "Canadian_Aboriginal", "Carian", "Caucasian_Albanian", "Chakma", "Cham", "Cherokee",
    "Chorasmian", "Coptic", "Cuneiform", "Cypriot", "Cypro_Minoan", "Deseret", "Dives_Akuru",
    "Dogra", "Duployan", "Egyptian_Hieroglyphs", "Elbasan", "Elymaic", "Ethiopic", "Georgian",
    "Glagolitic", "Gothic", "Grantha", "Gujarati", "Gunjala_Gondi", "Gurmukhi", "Hanifi_Rohingya",
    "Hanunoo", "Hatran", "Imperial_Aramaic", "Inscriptional_Pahlavi", "Inscriptional_Parthian",
    "Javanese", "Kaithi", "Kannada", "Kayah_Li", "Kharoshthi", "Khitan_Small_Script", "Khmer",
    "Khojki", "Khudawadi", "Lao", "Lepcha", "Limbu", "Linear_A", "Linear_B", "Lisu", "Lycian",
    "Lydian", "Mahajani", "Makasar", "Malayalam", "Mandaic", "Manichaean", "Marchen",
    "Masaram_Gondi", "Medefaidrin", "Meetei_Mayek", "Mende_Kikakui", "Meroitic_Cursive",
    "Meroitic_Hieroglyphs", "Miao", "Modi", "Mongolian", "Mro", "Multani", "Myanmar", "Nabataean",
    "Nandinagari", "New_Tai_Lue", "Newa", "Nko", "Nushu", "Nyiakeng_Puachue_Hmong", "Ogham",
    "Ol_Chiki", "Old_Hungarian", "Old_Italic", "Old_North_Arabian", "Old_Permic", "Old_Persian",
    "Old_Sogdian", "Old_South_Arabian", "Old_Turkic", "Old_Uyghur", "Oriya", "Osage", "Osmanya",
    "Pahawh_Hmong", "Palmyrene", "Pau_Cin_Hau", "Phags_Pa", "Phoenician", "Psalter_Pahlavi",
    "Rejang", "Runic", "Samaritan", "Saurashtra", "Sharada", "Shavian", "Siddham", "SignWriting",
    "Sinhala", "Sogdian", "Sora_Sompeng", "Soyombo", "Sundanese", "Syloti_Nagri", "Syriac",
    "Tagalog", "Tagbanwa", "Tai_Le", "Tai_Tham", "Tai_Viet", "Takri", "Tamil", "Tangsa", "Tangut",
    "Telugu", "Thaana", "Tibetan", "Tifinagh", "Tirhuta", "Toto", "Ugaritic", "Vai", "Vithkuqi",
    "Wancho", "Warang_Citi", "Yezidi", "Yi", "Zanabazar_Square",
};
// clang-format on

#define HAN "[\\p{Han}\\p{Hiragana}\\p{Katakana}\xE3\x83\xBC]"
#define COMMON "[\\p{Common}&&[^\xE3\x83\xBC]]"

static mica_status put(text_buffer *out, const char *s, mica_error *err) {
    return mica_text_buffer_append(out, s, strlen(s), err);
}

static mica_status put_script(text_buffer *out, const char *script, mica_error *err) {
    const char *const parts[] = {"|\\p{", script, "}[\\p{", script, "} \\p{Unknown}]*"};
    mica_status st = MICA_OK;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && !st; i++) {
        st = put(out, parts[i], err);
    }
    return st;
}

mica_status mica_step_script_regex(const step_loader *l, const regex **out, mica_error *err) {
    text_buffer pattern = {0};
    mica_status st = put(&pattern,
                         HAN "[\\p{Han}\\p{Hiragana}\\p{Katakana}\xE3\x83\xBC "
                             "\\p{Unknown}]*|(?! )" COMMON "(?:" COMMON "|\\p{Unknown})*",
                         err);
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]) && !st; i++) {
        st = put_script(&pattern, scripts[i], err);
    }
    if (!st) st = mica_text_buffer_append(&pattern, "", 1, err);
    if (!st) st = mica_step_regex(l, pattern.data, out, err);
    mica_text_buffer_deinit(&pattern);
    return st;
}
