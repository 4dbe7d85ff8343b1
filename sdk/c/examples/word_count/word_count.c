/* A plugin with one tool, to copy from. */

#include <ctype.h>

#include "toolhost.h"

static bool word_count(th_call *call) {
    const char *text = th_string(call, "text");
    if (!text || !*text) {
        th_fail(call, TH_INVALID_INPUT, NULL, "text is empty");
        return th_recommend(call, "pass a text with at least one character");
    }
    if (!th_check(call)) return false;
    th_log("info", "counting within %.0f ms", th_remaining_ms());
    unsigned words = 0;
    for (const char *at = text; *at; at++) {
        words += !isspace((unsigned char)*at) && (at == text || isspace((unsigned char)at[-1]));
    }
    th_progress("counted", 1, 1);
    th_structured(call, "{\"words\":%u}", words);
    return th_text(call, "%u words", words);
}

static const th_tool word_count_c = {
    .name = "word_count_c",
    .description = "Count the words of a text, separated by white space.",
    .input_schema = "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"text\"],\"properties\":{"
                    "\"text\":{\"type\":\"string\",\"description\":\"The text whose words are counted.\"}}}",
    .output_schema = "{\"type\":\"object\",\"required\":[\"words\"],"
                     "\"properties\":{\"words\":{\"type\":\"integer\"}}}",
    .run = word_count,
    .read_only = TH_YES,
    .pure = TH_YES,
    .category = "data",
    .kind = "read",
    .examples = (const th_example[]){{"three words", "{\"text\":\"a b c\"}"}, {0}},
};

const th_tool *const th_tools[] = {&word_count_c, NULL};
