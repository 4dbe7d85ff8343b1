/* The exports of the interface `preview`, for the world `toolhost:plugin/plugin-with-preview`. */
#include "toolhost_call.h"

typedef exports_toolhost_plugin_preview_location_t location_t;
typedef toolhost_plugin_types_display_t display_t;
typedef toolhost_plugin_types_outcome_t outcome_t;
typedef toolhost_plugin_types_request_t request_t;

/* The next item of an array of items with this size. */
static void *add(th_call *call, size_t size) {
    call->items = th_grow(call->items, (call->count + 1) * size);
    return (char *)call->items + size * call->count++;
}

bool th_location_at(th_call *call, const char *path, bool write, uint32_t line) {
    th_require(call, TH_LOCATIONS, "th_location is for the function `locations`");
    location_t *location = add(call, sizeof *location);
    *location = (location_t){
        .path = th_copy(path),
        .access = th_copy(write ? "write" : "read"),
        .line = {.is_some = line != 0, .val = line},
    };
    return true;
}

bool th_location(th_call *call, const char *path, bool write) { return th_location_at(call, path, write, 0); }

bool th_block(th_call *call, const char *kind, const char *text, const char *data) {
    th_require(call, TH_RENDER, "th_block is for the functions `render_permission` and `render_result`");
    display_t *block = add(call, sizeof *block);
    *block = (display_t){.kind = th_copy(kind), .text = th_copy_option(text), .data = th_copy_json(data)};
    return true;
}

static bool missing(th_call *call, const th_tool *tool, const char *function) {
    return th_fail(call, TH_FAILED, NULL, "the tool \"%s\" has no function `%s`", tool->name, function);
}

/* Runs a function of the tool. */
#define RUN(done, call, function, ...)                                                                    \
    do {                                                                                                  \
        const th_tool *tool = th_find(call);                                                              \
        (done) = tool && (tool->function ? tool->function(__VA_ARGS__) : missing(call, tool, #function)); \
    } while (0)

/* The same for a function that cannot return a failure. */
#define DESCRIBE(call, function, ...)           \
    do {                                        \
        bool done;                              \
        RUN(done, call, function, __VA_ARGS__); \
        th_end_or_abort(call, done);            \
    } while (0)

/* Moves the first text of th_text. */
static bool take_text(outcome_t *outcome, plugin_string_t *ret) {
    bool found = outcome->llm.len > 0;
    if (found) {
        *ret = outcome->llm.ptr->text.val;
        outcome->llm.ptr->text.is_some = false;
    }
    toolhost_plugin_types_outcome_free(outcome);
    return found;
}

bool exports_toolhost_plugin_preview_validate(request_t *request, toolhost_plugin_types_failure_t *err) {
    outcome_t outcome = {0};
    th_call call = {.request = request, .outcome = &outcome, .phase = TH_DESCRIBE};
    bool done;
    RUN(done, &call, validate, &call);
    th_end(&call, done);
    toolhost_plugin_types_outcome_free(&outcome);
    *err = call.failure;
    return done;
}

void exports_toolhost_plugin_preview_describe_call(request_t *request, plugin_string_t *ret) {
    outcome_t outcome = {0};
    th_call call = {.request = request, .outcome = &outcome, .phase = TH_DESCRIBE};
    DESCRIBE(&call, describe_call, &call);
    if (!take_text(&outcome, ret)) *ret = th_copy("");
}

void exports_toolhost_plugin_preview_locations(request_t *request,
                                               exports_toolhost_plugin_preview_list_location_t *ret) {
    outcome_t outcome = {0};
    th_call call = {.request = request, .outcome = &outcome, .phase = TH_LOCATIONS};
    DESCRIBE(&call, locations, &call);
    *ret = (exports_toolhost_plugin_preview_list_location_t){.ptr = call.items, .len = call.count};
}

bool exports_toolhost_plugin_preview_confirm(request_t *request, plugin_string_t *ret) {
    outcome_t outcome = {0};
    th_call call = {.request = request, .outcome = &outcome, .phase = TH_DESCRIBE};
    DESCRIBE(&call, confirm, &call);
    return take_text(&outcome, ret);
}

void exports_toolhost_plugin_preview_render_permission(request_t *request,
                                                       exports_toolhost_plugin_preview_list_display_t *ret) {
    outcome_t outcome = {0};
    th_call call = {.request = request, .outcome = &outcome, .phase = TH_RENDER};
    DESCRIBE(&call, render_permission, &call);
    *ret = (exports_toolhost_plugin_preview_list_display_t){.ptr = call.items, .len = call.count};
}

void exports_toolhost_plugin_preview_render_result(request_t *request, outcome_t *outcome,
                                                   exports_toolhost_plugin_preview_list_display_t *ret) {
    outcome_t own = {0};
    th_call call = {.request = request, .outcome = &own, .phase = TH_RENDER};
    DESCRIBE(&call, render_result, &call, outcome);
    toolhost_plugin_types_outcome_free(outcome);
    *ret = (exports_toolhost_plugin_preview_list_display_t){.ptr = call.items, .len = call.count};
}
