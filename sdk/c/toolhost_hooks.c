/* The exports of the interface `hooks`, for the world `toolhost:plugin/plugin-with-hooks`. */
#include <stdlib.h>

#include "toolhost_call.h"

typedef exports_toolhost_plugin_hooks_post_tool_use_result_t after_t;
typedef exports_toolhost_plugin_hooks_pre_tool_use_result_t before_t;
typedef toolhost_plugin_types_outcome_t outcome_t;
typedef toolhost_plugin_types_request_t request_t;

static before_t *decision(th_call *call, const char *text) {
    th_require(call, TH_BEFORE, text);
    return call->before;
}

/* Keeps the input of th_change_input. */
static void decide(before_t *before, const char *decision, const char *format, va_list arguments) {
    plugin_string_free(&before->decision);
    plugin_option_string_free(&before->reason);
    char *reason = th_print(format, arguments);
    before->decision = th_copy(decision);
    before->reason = th_copy_option(reason);
    free(reason);
}

bool th_ask(th_call *call, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    decide(decision(call, "th_ask is for the hook `before`"), "ask", format, arguments);
    va_end(arguments);
    return true;
}

bool th_deny(th_call *call, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    decide(decision(call, "th_deny is for the hook `before`"), "deny", format, arguments);
    va_end(arguments);
    return true;
}

bool th_change_input(th_call *call, const char *json) {
    before_t *before = decision(call, "th_change_input is for the hook `before`");
    exports_toolhost_plugin_hooks_option_json_free(&before->updated_input);
    before->updated_input = (exports_toolhost_plugin_hooks_option_json_t){.is_some = true, .val = th_copy(json)};
    return true;
}

bool th_answer(th_call *call) {
    before_t *before = decision(call, "th_answer is for the hook `before`");
    plugin_string_free(&before->decision);
    before->decision = th_copy("result");
    return true;
}

bool th_replace(th_call *call) {
    th_require(call, TH_AFTER, "th_replace is for the hook `after`");
    call->replaced = true;
    return true;
}

static bool starts_with(const plugin_string_t *text, char letter) { return text->len > 0 && text->ptr[0] == letter; }

void exports_toolhost_plugin_hooks_pre_tool_use(request_t *request, before_t *ret) {
    outcome_t outcome = {0};
    *ret = (before_t){.decision = th_copy("continue")};
    th_call call = {.request = request, .outcome = &outcome, .phase = TH_BEFORE, .before = ret};
    th_end_or_abort(&call, !th_hooks.before || th_hooks.before(&call));
    if (starts_with(&ret->decision, 'a')) {
        ret->meta = (exports_toolhost_plugin_hooks_option_json_t){outcome.meta.is_some, outcome.meta.val};
        outcome.meta.is_some = false;
    }
    bool answered = starts_with(&ret->decision, 'r');
    if (answered || (starts_with(&ret->decision, 'd') && outcome.llm.len > 0)) {
        ret->outcome = (exports_toolhost_plugin_hooks_option_outcome_t){.is_some = true, .val = outcome};
    } else {
        toolhost_plugin_types_outcome_free(&outcome);
    }
}

void exports_toolhost_plugin_hooks_post_tool_use(request_t *request, outcome_t *outcome, after_t *ret) {
    outcome_t own = {0};
    th_call call = {.request = request, .outcome = &own, .phase = TH_AFTER};
    th_end_or_abort(&call, !th_hooks.after || th_hooks.after(&call, outcome));
    toolhost_plugin_types_outcome_free(outcome);
    if (call.replaced) {
        *ret = (after_t){
            .action = th_copy("replace"),
            .outcome = {.is_some = true, .val = own},
        };
        return;
    }
    bool changed = own.llm.len || own.summary.is_some || own.structured.is_some || own.meta.is_some;
    *ret = (after_t){.action = th_copy(changed ? "update" : "keep")};
    if (!changed) return;
    ret->patch.is_some = true;
    ret->patch.val = (exports_toolhost_plugin_hooks_patch_t){
        .summary = own.summary,
        .llm = {.is_some = own.llm.len > 0, .val = {.ptr = own.llm.ptr, .len = own.llm.len}},
        .structured = {.is_some = own.structured.is_some, .val = own.structured.val},
        .meta = {.is_some = own.meta.is_some, .val = own.meta.val},
    };
}
