/* SDK for C plugins: a tool is a struct whose optional members can be omitted.
 *
 * It adapts functions to the world `toolhost:plugin/plugin`, whose generated bindings are "plugin.h". The plugin defines
 * `th_tools`; toolhost.c describes them, dispatches calls by tool name and parses the input. toolhost_preview.c adds the
 * exports of the world `toolhost:plugin/plugin-with-preview`, toolhost_hooks.c those of `plugin-with-hooks`.
 * toolhost_services.h has the host services. */
#ifndef TOOLHOST_H
#define TOOLHOST_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin.h"

typedef struct th_call th_call;

/* A declared effect. The default is unknown, which the host treats as the worst case. */
typedef enum { TH_UNKNOWN = 0, TH_NO, TH_YES } th_hint;

/* The kind of a failure. */
typedef enum {
    TH_INVALID_INPUT = TOOLHOST_PLUGIN_TYPES_TOOL_ERROR_INVALID_INPUT, /* the input fits the schema but is invalid */
    TH_NOT_FOUND = TOOLHOST_PLUGIN_TYPES_TOOL_ERROR_NOT_FOUND,         /* what the input names does not exist */
    TH_DENIED = TOOLHOST_PLUGIN_TYPES_TOOL_ERROR_DENIED,               /* denied by the sandbox or the operating system */
    TH_INTERRUPTED = TOOLHOST_PLUGIN_TYPES_TOOL_ERROR_INTERRUPTED,     /* stopped, because cancelled or out of time */
    TH_UNAVAILABLE = TOOLHOST_PLUGIN_TYPES_TOOL_ERROR_UNAVAILABLE,     /* something needed is temporarily unavailable */
    TH_FAILED = TOOLHOST_PLUGIN_TYPES_TOOL_ERROR_FAILED,               /* anything else */
} th_error;

typedef struct {
    const char *description;
    const char *input; /* a JSON object */
} th_example;

/* Use designated initialisers; omitted members are zero and mean the host's default. Lists end with NULL, examples with
 * {0}. */
typedef struct {
    const char *name; /* [a-z][a-z0-9_]{0,63} */
    const char *description;
    const char *input_schema;  /* JSON Schema of an object */
    const char *output_schema; /* JSON Schema of the structured result */
    /* Returns true on success; otherwise call th_fail first. */
    bool (*run)(th_call *call);

    /* Functions that describe a call, for toolhost_preview.c and the world `plugin-with-preview`. If one other than
     * validate returns false, it crashes; docs/previews.md states what the host does then. */
    bool (*validate)(th_call *call);          /* refuses the call with th_fail */
    bool (*describe_call)(th_call *call);     /* the call in one line, with th_text */
    bool (*locations)(th_call *call);         /* th_location for each path that the call will use */
    bool (*confirm)(th_call *call);           /* why the user must approve the call, with th_text; no text: no reason */
    bool (*render_permission)(th_call *call); /* th_block for each block of the prompt */
    bool (*render_result)(th_call *call, const toolhost_plugin_types_outcome_t *outcome); /* likewise, of the result */

    th_hint read_only, pure, destructive, idempotent, open_world, interactive;
    const char *display_name, *icon, *category, *kind, *version, *concurrency, *extra;
    const char *const *aliases, *const *tags, *const *requires, *const *depends_on, *const *hooks, *const *sinks, *const *sources;
    const th_example *examples;
    th_hint strict, output_markdown;
    bool can_stream, can_background;
    uint32_t timeout_ms, inactivity_timeout_ms, max_output_bytes;
} th_tool;

/* Defined by the plugin; ends with NULL. */
extern const th_tool *const th_tools[];

#define TH_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* The input. Members are looked up by name; returned strings are freed with the call. */

/* UTF-8, or NULL if the member is absent or not a string. U+0000 becomes U+FFFD. */
const char *th_string(th_call *call, const char *member);
/* False, with `value` unchanged, if the member is absent or has another type. */
bool th_number(th_call *call, const char *member, double *value);
bool th_bool(th_call *call, const char *member, bool *value);
/* The JSON text of a member, for structured values; NULL if absent. */
const char *th_json(th_call *call, const char *member);
/* A member of a JSON object, as JSON text; NULL if it is absent. */
const char *th_member(th_call *call, const char *json, const char *member);
/* An element of a JSON array, as JSON text; NULL if there are not as many. */
const char *th_element(th_call *call, const char *json, size_t index);
/* The text of a JSON string; NULL if it is no string. These three accept NULL as their JSON text. */
const char *th_unquote(th_call *call, const char *json);
/* A copy of text that does not end with NUL, such as a string of the bindings. */
const char *th_keep_text(th_call *call, const void *bytes, size_t length);
/* Call id, tool, input and context as they arrived. */
const toolhost_plugin_types_request_t *th_request(const th_call *call);

/* The result. In text, a byte that is not UTF-8 becomes U+FFFD. */

/* Text for the model; each call adds a part. Returns true, for `return th_text(…)`. */
bool th_text(th_call *call, const char *format, ...) TH_PRINTF(2, 3);
/* The structured result, as JSON text. Returns true. */
bool th_structured(th_call *call, const char *format, ...) TH_PRINTF(2, 3);
/* The summary, one line. Returns true. */
bool th_summary(th_call *call, const char *format, ...) TH_PRINTF(2, 3);
/* The object `meta` for programs, as JSON text. Returns true. */
bool th_meta(th_call *call, const char *json);
/* Sets the failure of the call; `code` may be NULL. Returns false, for `return th_fail(…)`. */
bool th_fail(th_call *call, th_error error, const char *code, const char *format, ...) TH_PRINTF(4, 5);
/* Adds a recommendation to the failure; returns false. */
bool th_recommend(th_call *call, const char *format, ...) TH_PRINTF(2, 3);
/* Sets the details of the failure, a JSON object for programs; returns false. */
bool th_details(th_call *call, const char *json);
/* Sets the technical cause of the failure, for the operator; returns false. */
bool th_cause(th_call *call, const char *format, ...) TH_PRINTF(2, 3);
/* States that the same call can succeed later; returns false. */
bool th_retryable(th_call *call);
/* The message of the failure that was set last, for example by a host service. */
const char *th_message(th_call *call);
/* The code of that failure; empty if it has none. */
const char *th_code(th_call *call);
/* The outcome record, for members without a function here. Its strings must come from malloc. */
toolhost_plugin_types_outcome_t *th_outcome(th_call *call);
/* `text` as a JSON string with its quotes, for th_structured; freed with the call. */
const char *th_quote(th_call *call, const char *text);

/* What describes a call; each returns true. These functions and those for hooks end the instance if another function of the
 * tool calls them. */

/* A path that the call reads or changes, as the input would name it, relative to /workspace. */
bool th_location(th_call *call, const char *path, bool write);
/* The same, at the line that the call concerns, from 1. */
bool th_location_at(th_call *call, const char *path, bool write, uint32_t line);
/* A block for the user. `kind` is text, markdown, code, table …; `data` is JSON text. `text` and `data` may be NULL. */
bool th_block(th_call *call, const char *kind, const char *text, const char *data);

/* Hooks, for toolhost_hooks.c and the world `plugin-with-hooks`. The plugin defines `th_hooks`, and names the functions in
 * `hooks` of the tools that they guard. If one returns false, it crashes: the host then denies the call, or withholds its
 * outcome. th_request(call)->context.extra has facts about the tool. */
typedef struct {
    /* Calls th_ask, th_deny, th_change_input or th_answer, or none to proceed. th_ask and th_change_input can be combined. */
    bool (*before)(th_call *call);
    /* Sets what changes with th_text, th_structured, th_summary and th_meta; nothing to keep the outcome. Also runs after a
     * call that failed, whose outcome has an `error` and nothing `structured`. */
    bool (*after)(th_call *call, const toolhost_plugin_types_outcome_t *outcome);
} th_hook_functions;

extern const th_hook_functions th_hooks;

/* The user must approve the call. th_meta adds an object for the question, such as {"risk":"high"}. */
bool th_ask(th_call *call, const char *format, ...) TH_PRINTF(2, 3);
/* The call is not made. th_text adds what the model gets instead of the host's error. */
bool th_deny(th_call *call, const char *format, ...) TH_PRINTF(2, 3);
/* The call proceeds with this input, which is validated and authorized like the first one. */
bool th_change_input(th_call *call, const char *json);
/* The call is not made; th_text and the like set its result. Only for hooks that the operator configured. */
bool th_answer(th_call *call);
/* After a call: the outcome is replaced, not updated. */
bool th_replace(th_call *call);

/* While it runs. */

/* `level` is trace, debug, info, warn or error. */
void th_log(const char *level, const char *format, ...) TH_PRINTF(2, 3);
/* NULL and NAN stand for absent. */
void th_progress(const char *message, double done, double total);
void th_output(const char *stream, const void *bytes, size_t length);
void th_emit(const char *event, const char *json);
bool th_cancelled(void);
double th_remaining_ms(void);
/* False, with the failure set, if the call should stop: `if (!th_check(call)) return false;` */
bool th_check(th_call *call);

#endif
