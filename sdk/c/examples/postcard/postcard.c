/* A tool that describes its calls: what they do, which file they read, and whether the user must approve. */
#include <stdio.h>
#include <string.h>

#include "toolhost.h"

/* This sample only returns the text. A real tool would read the file of `locations`. */
static bool run(th_call *call) {
    return th_text(call, "Dear %s, %s", th_string(call, "to"), th_string(call, "text"));
}

static bool validate(th_call *call) {
    if (strlen(th_string(call, "text")) <= 200) return true;
    th_fail(call, TH_INVALID_INPUT, NULL, "the text does not fit on a postcard");
    return th_recommend(call, "use 200 characters");
}

static bool describe_call(th_call *call) { return th_text(call, "Write a postcard to %s", th_string(call, "to")); }

static bool locations(th_call *call) {
    char path[300];
    int length = snprintf(path, sizeof path, "addresses/%s.txt", th_string(call, "to"));
    return length < (int)sizeof path && th_location(call, path, false);
}

static bool confirm(th_call *call) {
    if (strcmp(th_string(call, "to"), "Mars") == 0) th_text(call, "the price is not known in advance");
    return true;
}

static bool render_permission(th_call *call) {
    const char *columns = "{\"columns\":[\"to\",\"text\"],\"rows\":[[%s,%s]]}";
    char table[2000];
    const char *to = th_quote(call, th_string(call, "to")), *text = th_quote(call, th_string(call, "text"));
    int length = snprintf(table, sizeof table, columns, to, text);
    return length < (int)sizeof table && th_block(call, "table", NULL, table);
}

static bool render_result(th_call *call, const toolhost_plugin_types_outcome_t *outcome) {
    char line[600];
    const plugin_string_t *text = &outcome->llm.ptr->text.val;
    snprintf(line, sizeof line, "To %s: %.*s", th_string(call, "to"), (int)text->len, (const char *)text->ptr);
    return th_block(call, "text", line, NULL);
}

static const th_tool postcard_c = {
    .name = "postcard_c",
    .description = "Write a postcard.",
    .input_schema = "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"to\",\"text\"],\"properties\":{"
                    "\"to\":{\"type\":\"string\",\"description\":\"The addressee.\"},"
                    "\"text\":{\"type\":\"string\",\"description\":\"At most 200 bytes.\"}}}",
    .run = run,
    .validate = validate,
    .describe_call = describe_call,
    .locations = locations,
    .confirm = confirm,
    .render_permission = render_permission,
    .render_result = render_result,
    .read_only = TH_YES,
    .pure = TH_YES,
    .category = "data",
    .kind = "other",
};

const th_tool *const th_tools[] = {&postcard_c, NULL};
