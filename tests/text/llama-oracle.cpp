// llama.cpp's own tokenizer as a filter, built from its sources by llama-vocabularies.py.
//
// usage: llama-oracle VOCABULARY.gguf
//
// In: texts, each after two numbers of 32 bits: flags (1 adds special tokens, 2 parses them) and length. Out: for each
// text the number of its ids and the ids.

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "llama-model-loader.h"
#include "llama-vocab.h"

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    std::vector<std::string> splits;
    llama_model_loader loader(nullptr, nullptr, nullptr, argv[1], splits, nullptr, LLAMA_LOAD_MODE_NONE, false, true,
                              false, nullptr, nullptr);
    llama_vocab vocab;
    vocab.load(loader, loader.llm_kv);
    uint32_t head[2];
    std::string text;
    while (fread(head, 4, 2, stdin) == 2) {
        text.resize(head[1]);
        if (head[1] && fread(&text[0], 1, head[1], stdin) != head[1]) return 1;
        std::vector<llama_token> ids = vocab.tokenize(text, head[0] & 1, head[0] & 2);
        uint32_t n = (uint32_t)ids.size();
        fwrite(&n, 4, 1, stdout);
        fwrite(ids.data(), 4, n, stdout);
    }
    return fflush(stdout) ? 1 : 0;
}
