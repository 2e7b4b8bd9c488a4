/* gguf_pre.c: the pre-tokenizers that GGUF files name, written out.
 *
 * Each name stands for a list of regexes that are applied one after another, every match a piece of
 * its own, and for flags of the model. They are the patterns of the models' own tokenizer files,
 * not the approximations that some runtimes use for lack of Unicode classes. An unknown name is an
 * error.
 */
#include "text/tokenizer/impl.h"

/* ---- patterns ---- */

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define MARKS " ?[^\\s\\p{L}\\p{N}]+"
#define LINES "\\s*[\\r\\n]+"
#define SPACES "\\s+(?!\\S)|\\s+"
#define LLAMA3_WITH(number) CONTRACTION "|" WORD "|" number "|" MARKS "[\\r\\n]*|" LINES "|" SPACES
#define LLAMA3 LLAMA3_WITH("\\p{N}{1,3}")
#define QWEN2 LLAMA3_WITH("\\p{N}")

/* o200k tells upper from lower case; `minus` takes a script out of both. */
#define UPPER(minus) "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" minus "]"
#define LOWER(minus) "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" minus "]"
#define CASED_WORDS(minus, tail)                     \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER(minus) "*" LOWER( \
        minus) "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" UPPER(minus) "+" LOWER(minus) "*" tail
#define O200K_WITH(number) \
    CASED_WORDS("", CONTRACTION "?") "|" number "|" MARKS "[\\r\\n/]*|" LINES "|" SPACES
#define O200K O200K_WITH("\\p{N}{1,3}")
#define TEKKEN CASED_WORDS("", "") "|\\p{N}|" MARKS "[\\r\\n/]*|" LINES "|" SPACES
#define KIMI_K2                                                                      \
    "\\p{Han}+|" CASED_WORDS("&&[^\\p{Han}]", CONTRACTION "?") "|\\p{N}{1,3}|" MARKS \
                                                               "[\\r\\n]*|" LINES "|" SPACES

#define CJK "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define DEEPSEEK_WORDS    \
    "[!\"#$%&'()*+,\\-./" \
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
#define DEEPSEEK_V3 DEEPSEEK_WORDS "| ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES "|" SPACES
#define SPARK DEEPSEEK_WORDS "| ?[\\p{P}\\p{S}]+|[\\r\\n]|" SPACES
#define DEEPSEEK_CJK "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
/* Cased letters with gaps, as the model's file lists them. */
#define CASED                                                                              \
    "["                                                                                    \
    "\\x{41}-\\x{5a}\\x{61}-\\x{7a}\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}"  \
    "\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}"                 \
    "\\x{376}-\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}"          \
    "\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}"                 \
    "\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}"           \
    "\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}"         \
    "\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}"         \
    "\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}" \
    "\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}"                   \
    "\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}"         \
    "\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}" \
    "\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}" \
    "\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}-\\x{2184}"          \
    "\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}-\\x{2cf3}"         \
    "\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}"         \
    "\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}"         \
    "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"     \
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}" \
    "\\x{1e900}-\\x{1e943}"                                                                \
    "]"
#define DEEPSEEK_MARKS \
    "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+"
#define YOUTU                                                                                  \
    "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}" \
    "\\x{2019}\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|"   \
    "[\\x{3105}-\\x{312f}]+|" CJK
#define FALCON_MARKS(more) "[\\p{P}\\$\\+<=>\\^~\\|" more "]+"
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"

/* ---- pipelines ---- */

#define MAX_STEPS 7
typedef const char *const pipeline[MAX_STEPS];

static pipeline gpt2 = {GPT2_REGEX};
static pipeline llama3 = {LLAMA3};
static pipeline qwen2 = {QWEN2};
static pipeline qwen35 = {
    CONTRACTION
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES
    "|" SPACES};
static pipeline laguna = {"[^\\n]+|[\\n]+", QWEN2};
static pipeline ufakzeka = {WORD "|\\p{N}|" MARKS "[\\r\\n]*|" LINES "|" SPACES};
static pipeline seed_coder = {CONTRACTION "|" WORD "|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" LINES
                                          "|" SPACES};
static pipeline bailing = {CONTRACTION "|" WORD "|\\p{N}|" MARKS "[\\r\\n]*|\\s*[\\r\\n]|" SPACES};
static pipeline exaone_moe = {
    CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|" MARKS
                "[\\r\\n/]?|\\s*[\\r\\n]|" SPACES};
static pipeline jais2 = {
    CONTRACTION "|" WORD "|\\p{N}{1,3}|" MARKS "[\\r\\n]*|" LINES
                "|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)"
                "|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s"};
static pipeline tekken = {TEKKEN};
static pipeline o200k = {O200K};
static pipeline cohere = {"\\d{1,3}(?=(?:\\d{3})*\\b)", O200K};
static pipeline kimi_k2 = {KIMI_K2};
static pipeline youtu = {YOUTU, O200K_WITH("\\p{N}")};
static pipeline deepseek_v3 = {"\\p{N}{1,3}", CJK, DEEPSEEK_V3};
static pipeline spark = {"\\p{N}{1,3}", CJK, SPARK, "\\p{N}"};
static pipeline deepseek_llm = {"[\\r\\n]", "\\s?" CASED "+", DEEPSEEK_MARKS,
                                "\\s+$",    DEEPSEEK_CJK,     "\\p{N}+"};
static pipeline deepseek_coder = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_CJK, "\\p{N}"};
static pipeline minicpm5 = {"\\p{N}{1,3}", LLAMA3_WITH("\\p{N}+")};
static pipeline digits_first = {"\\p{N}", GPT2_REGEX};
static pipeline superbpe = {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"};
static pipeline falcon = {FALCON_MARKS("`"), GPT2_REGEX, "[0-9][0-9][0-9]"};
static pipeline plain = {FALCON_MARKS(""), GPT2_REGEX, "\\p{N}+", "[0-9][0-9][0-9]"};
static pipeline bloom = {BLOOM};
static pipeline viking = {BLOOM, "\\p{N}"};

/* ---- names ---- */

enum { PLAIN = 0, WHOLE = 1, BOS = 2 }; /* WHOLE: a piece that is a token is not merged */

typedef struct pre_name {
    const char *name;
    const char *const *steps;
    int flags;
} pre_name;

/* clang-format off */
static const pre_name names[] = {
    {"default", plain, PLAIN},
    {"llama3", llama3, WHOLE | BOS}, {"llama-v3", llama3, WHOLE | BOS},
    {"llama-bpe", llama3, WHOLE | BOS}, {"falcon3", llama3, WHOLE | BOS},
    {"falcon-h1", llama3, WHOLE | BOS}, {"pixtral", llama3, WHOLE | BOS},
    {"midm-2.0", llama3, WHOLE | BOS}, {"lfm2", llama3, WHOLE | BOS},
    {"jina-v5-nano", llama3, WHOLE | BOS},
    {"dbrx", llama3, PLAIN}, {"smaug-bpe", llama3, PLAIN}, {"chatglm-bpe", llama3, PLAIN},
    {"glm4", llama3, WHOLE}, {"glm5", llama3, WHOLE},
    {"qwen2", qwen2, PLAIN}, {"deepseek-r1-qwen", qwen2, PLAIN}, {"stablelm2", qwen2, PLAIN},
    {"hunyuan", qwen2, PLAIN}, {"megrez", qwen2, PLAIN}, {"solar-open", qwen2, PLAIN},
    {"grok-2", qwen2, PLAIN}, {"kormo", qwen2, PLAIN}, {"f2llmv2", qwen2, PLAIN},
    {"laguna", laguna, PLAIN}, {"ufakzeka", ufakzeka, PLAIN}, {"seed-coder", seed_coder, PLAIN},
    {"qwen35", qwen35, PLAIN},
    {"bailingmoe", bailing, PLAIN}, {"bailingmoe2", bailing, PLAIN}, {"llada-moe", bailing, PLAIN},
    {"exaone-moe", exaone_moe, PLAIN}, {"jais-2", jais2, PLAIN},
    {"tekken", tekken, WHOLE | BOS},
    {"gpt-4o", o200k, PLAIN}, {"llama4", o200k, PLAIN}, {"kanana2", o200k, PLAIN},
    {"talkie", o200k, PLAIN}, {"minimax-m2", o200k, PLAIN},
    {"granite-embed-multi-97m", o200k, WHOLE},
    {"tiny_aya", cohere, PLAIN}, {"cohere2moe", cohere, PLAIN},
    {"kimi-k2", kimi_k2, PLAIN}, {"youtu", youtu, WHOLE},
    {"deepseek-v3", deepseek_v3, PLAIN}, {"hunyuan-dense", deepseek_v3, PLAIN},
    {"joyai-llm", deepseek_v3, PLAIN}, {"hy_v4", deepseek_v3, PLAIN},
    {"spark2_5", spark, PLAIN},
    {"deepseek-llm", deepseek_llm, PLAIN}, {"deepseek-coder", deepseek_coder, PLAIN},
    {"minicpm5", minicpm5, WHOLE},
    {"gpt-2", gpt2, PLAIN}, {"phi-2", gpt2, PLAIN}, {"mpt", gpt2, PLAIN}, {"olmo", gpt2, PLAIN},
    {"jais", gpt2, PLAIN}, {"trillion", gpt2, PLAIN}, {"granite-docling", gpt2, PLAIN},
    {"gigachat", gpt2, PLAIN}, {"mellum", gpt2, PLAIN}, {"a.x-4.0", gpt2, PLAIN},
    {"exaone4", gpt2, PLAIN}, {"modern-bert", gpt2, PLAIN}, {"jina-v1-en", gpt2, PLAIN},
    {"jina-v2-code", gpt2, PLAIN}, {"roberta-bpe", gpt2, PLAIN}, {"jina-v2-es", gpt2, PLAIN},
    {"jina-v2-de", gpt2, PLAIN},
    {"starcoder", digits_first, PLAIN}, {"refact", digits_first, PLAIN},
    {"command-r", digits_first, PLAIN}, {"smollm", digits_first, PLAIN},
    {"codeshell", digits_first, PLAIN}, {"exaone", digits_first, PLAIN},
    {"minerva-7b", digits_first, PLAIN}, {"mellum2", digits_first, PLAIN},
    {"superbpe", superbpe, PLAIN}, {"falcon", falcon, PLAIN},
    {"bloom", bloom, PLAIN}, {"poro-chat", bloom, PLAIN}, {"gpt3-finnish", bloom, PLAIN},
    {"viking", viking, PLAIN},
};
/* clang-format on */

static const pre_name *find_name(const char *name, size_t n) {
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strlen(names[i].name) == n && memcmp(names[i].name, name, n) == 0) return &names[i];
    }
    return NULL;
}

mica_status mica_gguf_pre_apply(tokenizer *t, const char *name, size_t n, gguf_pre *out,
                                mica_error *err) {
    const pre_name *pre = name ? find_name(name, n) : &names[0];
    if (!pre) {
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "%s: tokenizer.ggml.pre \"%.*s\" is not a known pre-tokenizer", t->name,
                         (int)(n < 60 ? n : 60), name);
    }
    step_loader l = mica_tokenizer_loader(t);
    mica_status st = MICA_OK;
    for (size_t i = 0; i < MAX_STEPS && pre->steps[i] && !st; i++) {
        st = mica_pre_tokenizer_append_regex(&t->pre_tokenizers, pre->steps[i], &l, err);
    }
    out->ignore_merges = (pre->flags & WHOLE) != 0;
    out->add_bos = (pre->flags & BOS) != 0;
    return st;
}
