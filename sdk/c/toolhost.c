/* The functions of toolhost.h and the two exports of the world. */
#define _GNU_SOURCE
#include "toolhost_call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef toolhost_plugin_types_descriptor_t descriptor_t;
typedef toolhost_plugin_types_failure_t failure_t;
typedef toolhost_plugin_types_outcome_t outcome_t;
typedef toolhost_plugin_types_part_t part_t;
typedef toolhost_plugin_types_request_t request_t;
typedef toolhost_plugin_types_tool_error_t tool_error_t;

/* Out of memory ends the instance: the host reports a crash, because an error could not be allocated. */
void *th_grow(void *old, size_t size) {
    void *new = realloc(old, size ? size : 1);
    if (!new) abort();
    return new;
}

char *th_keep(th_call *call, size_t size) {
    piece_t *piece = th_grow(NULL, sizeof *piece + size);
    piece->next = call->pieces;
    call->pieces = piece;
    return piece->text;
}

/* The length of the UTF-8 sequence at `at`, in a text that ends with NUL; 0 if it is invalid. */
static size_t sequence(const unsigned char *at) {
    if (at[0] < 0x80) return 1;
    if (at[0] < 0xC2 || at[0] > 0xF4) return 0;
    size_t length = at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : 4;
    /* Shorter encodings, surrogates and values above U+10FFFF are invalid. */
    unsigned char least = at[0] == 0xE0 ? 0xA0 : at[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char most = at[0] == 0xED ? 0x9F : at[0] == 0xF4 ? 0x8F : 0xBF;
    if (at[1] < least || at[1] > most) return 0;
    for (size_t i = 2; i < length; i++) {
        if ((at[i] & 0xC0) != 0x80) return 0;
    }
    return length;
}

char *th_repair(const char *text) {
    size_t size = 1, invalid = 0, length;
    for (const char *at = text; *at; at += length ? length : 1) {
        length = sequence((const unsigned char *)at);
        size += length ? length : 3;
        invalid += !length;
    }
    if (!invalid) return NULL;
    char *copy = th_grow(NULL, size), *to = copy;
    for (; *text; text += length ? length : 1) {
        length = sequence((const unsigned char *)text);
        memcpy(to, length ? text : "\xEF\xBF\xBD", length ? length : 3);
        to += length ? length : 3;
    }
    *to = '\0';
    return copy;
}

char *th_print(const char *format, va_list arguments) {
    char *text;
    if (vasprintf(&text, format, arguments) < 0) abort();
    char *repaired = th_repair(text);
    if (!repaired) return text;
    free(text);
    return repaired;
}

plugin_string_t th_view(const char *text) {
    plugin_string_t string;
    char *repaired = th_repair(text);
    plugin_string_set(&string, repaired ? repaired : text);
    return string;
}

plugin_string_t th_copy(const char *text) {
    plugin_string_t string;
    char *repaired = th_repair(text);
    plugin_string_dup(&string, repaired ? repaired : text);
    free(repaired);
    return string;
}

plugin_option_string_t th_copy_option(const char *text) {
    if (!text) return (plugin_option_string_t){0};
    return (plugin_option_string_t){.is_some = true, .val = th_copy(text)};
}

toolhost_plugin_types_option_json_t th_copy_json(const char *text) {
    if (!text) return (toolhost_plugin_types_option_json_t){0};
    return (toolhost_plugin_types_option_json_t){.is_some = true, .val = th_copy(text)};
}

static void push_string(plugin_list_string_t *list, const char *text) {
    list->ptr = th_grow(list->ptr, (list->len + 1) * sizeof *list->ptr);
    list->ptr[list->len++] = th_copy(text);
}

plugin_list_string_t th_copy_list(const char *const *texts) {
    plugin_list_string_t list = {0};
    for (; texts && *texts; texts++) push_string(&list, *texts);
    return list;
}

/* JSON parsing. The host has validated the input, so this only has to locate members, within bounds. */

typedef struct {
    const char *at, *end;
} span_t;

static span_t skip_space(span_t json) {
    while (json.at < json.end && strchr(" \t\r\n", *json.at)) json.at++;
    return json;
}

static const char *string_end(span_t json) {
    const char *at = json.at + 1;
    while (at < json.end && *at != '"') at += *at == '\\' ? 2 : 1;
    return at < json.end ? at + 1 : json.end;
}

static const char *value_end(span_t json) {
    size_t depth = 0;
    while (json.at < json.end) {
        char c = *json.at;
        if (c == '"') {
            json.at = string_end(json);
            if (depth == 0) break;
        } else if (c == '{' || c == '[') {
            depth++;
            json.at++;
        } else if (c == '}' || c == ']') {
            if (depth == 0) break;
            json.at++;
            if (--depth == 0) break;
        } else if (depth == 0 && (c == ',' || c == ' ' || c == '\t' || c == '\r' || c == '\n')) {
            break;
        } else {
            json.at++;
        }
    }
    return json.at;
}

/* Four hexadecimal digits, or -1. */
static int32_t hex4(span_t json) {
    int32_t value = 0;
    if (json.end - json.at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        char c = json.at[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

static char *put_utf8(char *to, uint32_t c) {
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xC0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3F));
    } else {
        if (c >= 0x10000) {
            *to++ = (char)(0xF0 | c >> 18);
            *to++ = (char)(0x80 | (c >> 12 & 0x3F));
        } else {
            *to++ = (char)(0xE0 | c >> 12);
        }
        *to++ = (char)(0x80 | (c >> 6 & 0x3F));
        *to++ = (char)(0x80 | (c & 0x3F));
    }
    return to;
}

/* The text of a JSON string; `span` has its quotes. No escape is shorter than its UTF-8. */
static char *unquote(th_call *call, span_t span) {
    char *text = th_keep(call, (size_t)(span.end - span.at) + 1), *to = text;
    span.at++;
    span.end--;
    while (span.at < span.end) {
        char c = *span.at++;
        if (c != '\\' || span.at == span.end) {
            *to++ = c;
            continue;
        }
        c = *span.at++;
        const char *place = strchr("b\bf\fn\nr\rt\t", c);
        if (c != 'u') {
            *to++ = c && place ? place[1] : c;
            continue;
        }
        int32_t unit = hex4(span);
        if (unit < 0) {
            *to++ = '?';
            continue;
        }
        span.at += 4;
        if (unit >= 0xD800 && unit < 0xDC00 && span.end - span.at >= 6 && span.at[0] == '\\' && span.at[1] == 'u') {
            int32_t low = hex4((span_t){span.at + 2, span.end});
            if (low >= 0xDC00 && low < 0xE000) {
                to = put_utf8(to, 0x10000 + ((uint32_t)(unit - 0xD800) << 10) + (uint32_t)(low - 0xDC00));
                span.at += 6;
                continue;
            }
        }
        /* A lone surrogate has no UTF-8, and U+0000 would end the C string early. */
        bool bad = unit == 0 || (unit >= 0xD800 && unit < 0xE000);
        to = put_utf8(to, bad ? 0xFFFD : (uint32_t)unit);
    }
    *to = '\0';
    return text;
}

/* The value of a member of an object. The last one counts, as for the host. */
static bool find(th_call *call, span_t json, const char *member, span_t *value) {
    bool found = false;
    json = skip_space(json);
    if (json.at == json.end || *json.at != '{') return false;
    json.at++;
    for (;;) {
        json = skip_space(json);
        if (json.at == json.end || *json.at != '"') return found;
        span_t key = {json.at, string_end(json)};
        json.at = key.end;
        json = skip_space(json);
        if (json.at == json.end || *json.at != ':') return found;
        json.at++;
        json = skip_space(json);
        span_t candidate = {json.at, value_end(json)};
        if (strcmp(unquote(call, key), member) == 0) {
            *value = candidate;
            found = candidate.at < candidate.end;
        }
        json.at = candidate.end;
        json = skip_space(json);
        if (json.at == json.end || *json.at != ',') return found;
        json.at++;
    }
}

static span_t span_of(const char *text, size_t length) { return (span_t){text, text + length}; }

static span_t input_of(const th_call *call) {
    const plugin_string_t *input = &call->request->input;
    return span_of((const char *)input->ptr, input->len);
}

const char *th_keep_text(th_call *call, const void *bytes, size_t length) {
    char *text = th_keep(call, length + 1);
    if (length) memcpy(text, bytes, length);
    text[length] = '\0';
    return text;
}

static const char *keep_span(th_call *call, span_t span) {
    return th_keep_text(call, span.at, (size_t)(span.end - span.at));
}

const char *th_json(th_call *call, const char *member) {
    span_t value;
    return find(call, input_of(call), member, &value) ? keep_span(call, value) : NULL;
}

const char *th_string(th_call *call, const char *member) {
    span_t value;
    return find(call, input_of(call), member, &value) && *value.at == '"' ? unquote(call, value) : NULL;
}

const char *th_member(th_call *call, const char *json, const char *member) {
    span_t value;
    return json && find(call, span_of(json, strlen(json)), member, &value) ? keep_span(call, value) : NULL;
}

const char *th_element(th_call *call, const char *json, size_t index) {
    if (!json) return NULL;
    span_t rest = skip_space(span_of(json, strlen(json)));
    if (rest.at == rest.end || *rest.at != '[') return NULL;
    for (;;) {
        rest.at++;
        rest = skip_space(rest);
        span_t value = {rest.at, value_end(rest)};
        if (value.at == value.end) return NULL;
        if (index-- == 0) return keep_span(call, value);
        rest.at = value.end;
        rest = skip_space(rest);
        if (rest.at == rest.end || *rest.at != ',') return NULL;
    }
}

const char *th_unquote(th_call *call, const char *json) {
    return json && *json == '"' && json[1] ? unquote(call, span_of(json, strlen(json))) : NULL;
}

bool th_number(th_call *call, const char *member, double *value) {
    const char *text = th_json(call, member);
    if (!text || !strchr("-0123456789", *text)) return false;
    *value = strtod(text, NULL);
    return true;
}

bool th_bool(th_call *call, const char *member, bool *value) {
    const char *text = th_json(call, member);
    bool yes = text && strcmp(text, "true") == 0;
    if (!yes && !(text && strcmp(text, "false") == 0)) return false;
    *value = yes;
    return true;
}

const request_t *th_request(const th_call *call) { return call->request; }

outcome_t *th_outcome(th_call *call) { return call->outcome; }

const char *th_quote(th_call *call, const char *text) {
    char *repaired = th_repair(text);
    if (repaired) text = repaired;
    char *quoted = th_keep(call, 6 * strlen(text) + 3), *to = quoted;
    *to++ = '"';
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') *to++ = '\\';
        if ((unsigned char)*text < 0x20) {
            to += sprintf(to, "\\u%04x", (unsigned)*text);
        } else {
            *to++ = *text;
        }
    }
    *to++ = '"';
    *to = '\0';
    free(repaired);
    return quoted;
}

bool th_text(th_call *call, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = th_print(format, arguments);
    va_end(arguments);
    toolhost_plugin_types_list_part_t *parts = &call->outcome->llm;
    parts->ptr = th_grow(parts->ptr, (parts->len + 1) * sizeof *parts->ptr);
    parts->ptr[parts->len++] = (part_t){.kind = th_copy("text"), .text = th_copy_option(text)};
    free(text);
    return true;
}

bool th_structured(th_call *call, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = th_print(format, arguments);
    va_end(arguments);
    toolhost_plugin_types_option_json_free(&call->outcome->structured);
    call->outcome->structured = th_copy_json(text);
    free(text);
    return true;
}

bool th_summary(th_call *call, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = th_print(format, arguments);
    va_end(arguments);
    plugin_option_string_free(&call->outcome->summary);
    call->outcome->summary = th_copy_option(text);
    free(text);
    return true;
}

bool th_meta(th_call *call, const char *json) {
    toolhost_plugin_types_option_json_free(&call->outcome->meta);
    call->outcome->meta = th_copy_json(json);
    return true;
}

bool th_fail(th_call *call, th_error error, const char *code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *message = th_print(format, arguments);
    va_end(arguments);
    toolhost_plugin_types_failure_free(&call->failure);
    call->error = error;
    call->failure = (failure_t){.code = th_copy_option(code), .message = th_copy(message)};
    free(message);
    return false;
}

bool th_recommend(th_call *call, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = th_print(format, arguments);
    va_end(arguments);
    push_string(&call->failure.recommendations, text);
    free(text);
    return false;
}

bool th_details(th_call *call, const char *json) {
    toolhost_plugin_types_option_json_free(&call->failure.details);
    call->failure.details = th_copy_json(json);
    return false;
}

bool th_cause(th_call *call, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = th_print(format, arguments);
    va_end(arguments);
    plugin_option_string_free(&call->failure.cause);
    call->failure.cause = th_copy_option(text);
    free(text);
    return false;
}

bool th_retryable(th_call *call) {
    call->failure.retryable = true;
    return false;
}

const char *th_message(th_call *call) {
    return th_keep_text(call, call->failure.message.ptr, call->failure.message.len);
}

const char *th_code(th_call *call) {
    const plugin_option_string_t *code = &call->failure.code;
    return code->is_some ? th_keep_text(call, code->val.ptr, code->val.len) : "";
}

void th_log(const char *level, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = th_print(format, arguments);
    va_end(arguments);
    plugin_string_t level_view = th_view(level), message = th_view(text);
    toolhost_plugin_host_log(&level_view, &message);
    free(text);
}

void th_progress(const char *message, double done, double total) {
    toolhost_plugin_host_progress_update_t update = {
        .message = {.is_some = message != NULL, .val = th_view(message ? message : "")},
        .progress = {.is_some = !isnan(done), .val = done},
        .total = {.is_some = !isnan(total), .val = total},
    };
    toolhost_plugin_host_progress(&update);
}

void th_output(const char *stream, const void *bytes, size_t length) {
    plugin_string_t name = th_view(stream);
    plugin_list_u8_t list = {.ptr = (uint8_t *)bytes, .len = length};
    toolhost_plugin_host_output(&name, &list);
}

void th_emit(const char *event, const char *json) {
    plugin_string_t name = th_view(event), data = th_view(json);
    toolhost_plugin_host_emit(&name, &data);
}

bool th_cancelled(void) { return toolhost_plugin_host_cancelled(); }

double th_remaining_ms(void) { return toolhost_plugin_host_remaining_ms(); }

bool th_check(th_call *call) {
    if (th_cancelled()) return th_fail(call, TH_INTERRUPTED, "cancelled", "the call was cancelled");
    if (th_remaining_ms() <= 0) return th_fail(call, TH_INTERRUPTED, "timeout", "the call ran out of time");
    return true;
}

/* The exports. */

static plugin_option_bool_t hint(th_hint hint) {
    return (plugin_option_bool_t){.is_some = hint != TH_UNKNOWN, .val = hint == TH_YES};
}

static plugin_option_u32_t limit(uint32_t value) { return (plugin_option_u32_t){.is_some = value != 0, .val = value}; }

static plugin_list_string_t hooks(const th_tool *tool) {
    plugin_list_string_t list = th_copy_list(tool->hooks);
    if (tool->validate) push_string(&list, "validate");
    if (tool->describe_call) push_string(&list, "describe-call");
    if (tool->locations) push_string(&list, "locations");
    if (tool->confirm) push_string(&list, "confirm");
    if (tool->render_permission) push_string(&list, "render-permission");
    if (tool->render_result) push_string(&list, "render-result");
    return list;
}

static descriptor_t descriptor(const th_tool *tool) {
    toolhost_plugin_types_list_example_t examples = {0};
    for (const th_example *example = tool->examples; example && example->input; example++) {
        examples.ptr = th_grow(examples.ptr, (examples.len + 1) * sizeof *examples.ptr);
        examples.ptr[examples.len++] =
            (toolhost_plugin_types_example_t){th_copy(example->description), th_copy(example->input)};
    }
    return (descriptor_t){
        .name = th_copy(tool->name),
        .aliases = th_copy_list(tool->aliases),
        .display_name = th_copy_option(tool->display_name),
        .description = th_copy(tool->description),
        .icon = th_copy_option(tool->icon),
        .category = th_copy_option(tool->category),
        .kind = th_copy_option(tool->kind),
        .version = th_copy_option(tool->version),
        .tags = th_copy_list(tool->tags),
        .input_schema = th_copy(tool->input_schema),
        .output_schema = th_copy_json(tool->output_schema),
        .strict = hint(tool->strict),
        .annotations = {hint(tool->read_only), hint(tool->pure), hint(tool->destructive), hint(tool->idempotent),
                        hint(tool->open_world), hint(tool->interactive)},
        .concurrency = th_copy_option(tool->concurrency),
        .output_markdown = hint(tool->output_markdown),
        .can_stream = tool->can_stream,
        .can_background = tool->can_background,
        .timeout_ms = limit(tool->timeout_ms),
        .inactivity_timeout_ms = limit(tool->inactivity_timeout_ms),
        .max_output_bytes = limit(tool->max_output_bytes),
        .requires_ = th_copy_list(tool->requires),
        .depends_on = th_copy_list(tool->depends_on),
        .hooks = hooks(tool),
        .sinks = th_copy_list(tool->sinks),
        .sources = th_copy_list(tool->sources),
        .examples = examples,
        .extra = th_copy_json(tool->extra),
    };
}

void exports_toolhost_plugin_tool_describe(plugin_list_tuple2_string_string_t *environment,
                                           exports_toolhost_plugin_tool_list_descriptor_t *ret) {
    plugin_list_tuple2_string_string_free(environment);
    *ret = (exports_toolhost_plugin_tool_list_descriptor_t){0};
    for (const th_tool *const *tool = th_tools; *tool; tool++) {
        ret->ptr = th_grow(ret->ptr, (ret->len + 1) * sizeof *ret->ptr);
        ret->ptr[ret->len++] = descriptor(*tool);
    }
}

const th_tool *th_find(th_call *call) {
    const plugin_string_t *name = &call->request->tool;
    for (const th_tool *const *tool = th_tools; *tool; tool++) {
        if (strlen((*tool)->name) == name->len && memcmp((*tool)->name, name->ptr, name->len) == 0) return *tool;
    }
    th_fail(call, TH_NOT_FOUND, "tool_not_found", "this plugin has no tool \"%.*s\"", (int)name->len, name->ptr);
    return NULL;
}

void th_end(th_call *call, bool done) {
    if (!done && call->failure.message.len == 0) {
        th_fail(call, TH_FAILED, "internal_error", "the tool failed without an error message");
    }
    for (piece_t *piece = call->pieces, *next; piece; piece = next) {
        next = piece->next;
        free(piece);
    }
    toolhost_plugin_types_request_free(call->request);
}

void th_end_or_abort(th_call *call, bool done) {
    th_end(call, done);
    if (done) return;
    fprintf(stderr, "%.*s\n", (int)call->failure.message.len, (const char *)call->failure.message.ptr);
    abort();
}

void th_require(const th_call *call, th_phase phase, const char *text) {
    if (call->phase == phase) return;
    fprintf(stderr, "%s\n", text);
    abort();
}

bool exports_toolhost_plugin_tool_call(request_t *request, outcome_t *ret, tool_error_t *err) {
    *ret = (outcome_t){0};
    th_call call = {.request = request, .outcome = ret, .error = TH_FAILED};
    const th_tool *tool = th_find(&call);
    bool done = tool && tool->run(&call);
    th_end(&call, done);
    if (!done) {
        /* The members of the union have one type; the tag selects the variant. */
        *err = (tool_error_t){.tag = (uint8_t)call.error, .val.failed = call.failure};
        toolhost_plugin_types_outcome_free(ret);
    }
    return done;
}
