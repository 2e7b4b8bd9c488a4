/* decoder.h: from token texts back to text, as decoders of tokenizer.json say, one token at a time.
 *
 * The steps of the file are sorted into what happens to each token on its own, what its bytes are,
 * and what happens to the joined text; a decoder that cannot be run on a stream is refused at load.
 */
#ifndef MICA_TEXT_TOKENIZER_DECODER_H
#define MICA_TEXT_TOKENIZER_DECODER_H

#include "text/tokenizer/steps.h"

typedef enum decoder_kind {
    DECODE_REPLACE, /* pattern -> content */
    DECODE_HEAD,    /* content cut from tokens while the text is empty, or from one, is_first_cut */
    DECODE_STRIP,   /* up to n_start and n_stop times content from the ends */
    DECODE_METASPACE, /* content -> space; in the first token deleted, if is_first_cut */
    DECODE_WORDPIECE, /* content cut from the head, else a space before, but in the first token */
    DECODE_SUFFIX,    /* content -> space, in the last token deleted */
    DECODE_CTC        /* repeated tokens once, content deleted */
} decoder_kind;

typedef struct decoder_step {
    decoder_kind kind;
    text_pattern pattern;
    const char *content;
    size_t n_content;
    size_t n_start, n_stop;
    bool is_first_cut;
    bool cleans_up;        /* spaces before marks and contractions go */
    const char *delimiter; /* of CTC: -> space, if cleans_up */
    size_t n_delimiter;
    struct decoder_step *next;
} decoder_step;

typedef enum decoder_bytes {
    BYTES_AS_TEXT,  /* a token's text is its bytes */
    BYTES_FALLBACK, /* "<0xHH>" is a byte */
    BYTES_ALPHABET  /* a token wholly in the byte alphabet is the bytes it spells */
} decoder_bytes;

typedef struct decoder {
    decoder_step *steps;
    decoder_bytes bytes;
    bool joins_with_space; /* tokens are words */
    bool needs_last;       /* a step treats the last token otherwise: the stream runs one behind */
    bool drops_tokens;     /* while parsing: later steps cannot know what the first token is */
    bool is_fused;         /* while parsing: later steps see the joined text */
    char strip_char;       /* cut from the head of the joined text, */
    size_t n_strip;        /* so many at most */
} decoder;

/* v NULL or null: tokens are joined with spaces. */
mica_status mica_decoder_parse(decoder *out, const json_value *v, const step_loader *l,
                               mica_error *err);
mica_status mica_decoder_append(decoder *d, decoder_step step, const step_loader *l,
                                mica_error *err);

/* Buffers for running steps. */
typedef struct decoder_scratch {
    step_scratch steps;
    text_buffer buffers[2];
    bool is_last;      /* set by the caller before the last token of a stream */
    bool is_at_head;   /* set by the caller: no text came out yet */
    bool has_cut_head; /* of HEAD */
    bool has_previous; /* of CTC, with what the previous token was */
    text_buffer previous;
} decoder_scratch;

void mica_decoder_scratch_deinit(decoder_scratch *s);

/* The byte of "<0xHH>"; -1 for any other text. */
int mica_fallback_byte(const char *text, size_t n);

/* The bytes of one token; *out points to `text` or into the scratch. */
mica_status mica_decoder_run(const decoder *d, decoder_scratch *s, const char *text, size_t n,
                             bool is_first, const char **out, size_t *n_out, mica_error *err);

#endif
