/* The tools of the plugin `@NAME@`. */
#include <stdlib.h>

#include "toolhost.h"
#include "words.h"

static bool run(th_call *call) {
    return th_structured(call, "{\"words\":%zu}", count_words(th_string(call, "text")));
}

static const th_example examples[] = {
    {"a sentence of six words", "{\"text\":\"to be or not to be\"}"},
    {NULL, NULL},
};

static const th_tool tool = {
    .name = "@TOOL@",
    .description = "Count the words of a text, separated by white space.",
    .input_schema = "{\"type\":\"object\",\"required\":[\"text\"],\"additionalProperties\":false,\"properties\":{"
                    "\"text\":{\"type\":\"string\",\"description\":\"The text whose words are counted.\"}}}",
    .output_schema = "{\"type\":\"object\",\"required\":[\"words\"],\"properties\":{"
                     "\"words\":{\"type\":\"integer\",\"description\":\"Number of words.\"}}}",
    .run = run,
    .examples = examples,
    .category = "data",
    .read_only = TH_YES,
    .pure = TH_YES,
};

const th_tool *const th_tools[] = {&tool, NULL};
