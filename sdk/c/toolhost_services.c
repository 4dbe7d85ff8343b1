/* The functions of toolhost_services.h. */
#include "toolhost_services.h"

#include <stdlib.h>
#include <string.h>

#include "toolhost_call.h"

typedef toolhost_plugin_process_command_t command_t;
typedef toolhost_plugin_types_failure_t failure_t;
typedef toolhost_plugin_types_outcome_t outcome_t;
typedef toolhost_plugin_types_tool_error_t tool_error_t;

static bool fail(th_call *call, th_error error, failure_t failure) {
    toolhost_plugin_types_failure_free(&call->failure);
    call->error = error;
    call->failure = failure;
    return false;
}

/* The kind of an error of a host service, which has only a code. The table is the same in all SDKs: docs/errors.md. */
static th_error kind_of(const char *code) {
    static const struct {
        const char *code;
        th_error error;
    } kinds[] = {
        {"service_not_granted", TH_DENIED},   {"capability_missing", TH_DENIED},  {"user_denied", TH_DENIED},
        {"policy_violation", TH_DENIED},      {"program_not_allowed", TH_DENIED}, {"host_not_allowed", TH_DENIED},
        {"path_not_in_workspace", TH_DENIED}, {"not_granted", TH_DENIED},         {"private_address", TH_DENIED},
        {"method_not_allowed", TH_DENIED},    {"secret_not_allowed", TH_DENIED},  {"cancelled", TH_INTERRUPTED},
        {"timeout", TH_INTERRUPTED},          {"not_configured", TH_UNAVAILABLE}, {"no_user", TH_UNAVAILABLE},
        {"dns_failed", TH_UNAVAILABLE},       {"connect_failed", TH_UNAVAILABLE}, {"tls_failed", TH_UNAVAILABLE},
        {"bad_response", TH_UNAVAILABLE},     {"rate_limited", TH_UNAVAILABLE},   {"network_error", TH_UNAVAILABLE},
        {"bad_request", TH_INVALID_INPUT},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(code, kinds[i].code) == 0) return kinds[i].error;
    }
    size_t length = strlen(code), suffix = strlen("_not_found");
    if (length >= suffix && strcmp(code + length - suffix, "_not_found") == 0) return TH_NOT_FOUND;
    return strncmp(code, "invalid_", strlen("invalid_")) == 0 ? TH_INVALID_INPUT : TH_FAILED;
}

static bool refused(th_call *call, const failure_t *failure) {
    fail(call, TH_FAILED, *failure);
    call->error = kind_of(th_code(call));
    return false;
}

/* By address, because the order in which arguments are evaluated is not defined. */
static bool done(th_call *call, bool done, const failure_t *failure) { return done || refused(call, failure); }

/* The members of the union have one type; the tag selects the variant. */
static bool fail_with(th_call *call, tool_error_t error) { return fail(call, (th_error)error.tag, error.val.failed); }

/* Moves a text of the host to the memory of the call. */
static const char *take(th_call *call, plugin_string_t text) {
    const char *kept = th_keep_text(call, text.ptr, text.len);
    plugin_string_free(&text);
    return kept;
}

/* Session state. */

bool th_recall(th_call *call, const char *key, const char **json) {
    plugin_string_t key_view = th_view(key);
    toolhost_plugin_session_option_json_t value = {0};
    failure_t failure;
    *json = NULL;
    if (!toolhost_plugin_session_get(&key_view, &value, &failure)) return refused(call, &failure);
    if (value.is_some) *json = take(call, value.val);
    return true;
}

bool th_remember(th_call *call, const char *key, const char *json) {
    plugin_string_t key_view = th_view(key), value = th_view(json);
    failure_t failure;
    return done(call, toolhost_plugin_session_set(&key_view, &value, &failure), &failure);
}

bool th_forget(th_call *call, const char *key) {
    plugin_string_t key_view = th_view(key);
    failure_t failure;
    return done(call, toolhost_plugin_session_set(&key_view, NULL, &failure), &failure);
}

bool th_record_observation(th_call *call, const char *path, const char *sha256, uint32_t first, uint32_t last) {
    toolhost_plugin_session_file_observation_t observation = {
        .path = th_view(path),
        .sha256 = th_view(sha256),
        .lines = {.is_some = first != 0, .val = {first, last}},
    };
    failure_t failure;
    return done(call, toolhost_plugin_session_record_observation(&observation, &failure), &failure);
}

bool th_last_observation(th_call *call, const char *path, bool *found,
                         toolhost_plugin_session_file_observation_t *observation) {
    plugin_string_t path_view = th_view(path);
    toolhost_plugin_session_option_file_observation_t latest = {0};
    failure_t failure;
    if (!toolhost_plugin_session_last_observation(&path_view, &latest, &failure)) {
        return refused(call, &failure);
    }
    *found = latest.is_some;
    if (latest.is_some) *observation = latest.val;
    return true;
}

/* Programs. */

static plugin_option_u32_t limit(uint32_t value) { return (plugin_option_u32_t){.is_some = value != 0, .val = value}; }

/* The lists are arrays in the memory of the call; the strings are those of the author. */
static command_t command_of(th_call *call, const th_program *program) {
    size_t arguments = 0, variables = 0;
    while (program->arguments && program->arguments[arguments]) arguments++;
    while (program->environment && program->environment[2 * variables]) variables++;
    command_t command = {
        .program = th_view(program->program),
        .cwd = {.is_some = program->cwd != NULL, .val = th_view(program->cwd ? program->cwd : "")},
        .stdin_ = {.is_some = program->input != NULL, .val = {(uint8_t *)program->input, program->input_length}},
        .timeout_ms = limit(program->timeout_ms),
        .inactivity_timeout_ms = limit(program->inactivity_timeout_ms),
        .tty = program->tty,
        .label = th_view(program->label ? program->label : program->program),
    };
    command.arguments.ptr = (void *)th_keep(call, arguments * sizeof *command.arguments.ptr);
    command.arguments.len = arguments;
    for (size_t i = 0; i < arguments; i++) command.arguments.ptr[i] = th_view(program->arguments[i]);
    command.environment.ptr = (void *)th_keep(call, variables * sizeof *command.environment.ptr);
    command.environment.len = variables;
    for (size_t i = 0; i < variables; i++) {
        const char *const *pair = &program->environment[2 * i];
        command.environment.ptr[i] = (plugin_tuple2_string_string_t){th_view(pair[0]), th_view(pair[1])};
    }
    return command;
}

bool th_run_program(th_call *call, const th_program *program, toolhost_plugin_process_run_output_t *output) {
    command_t command = command_of(call, program);
    failure_t failure;
    return done(call, toolhost_plugin_process_run(&command, output, &failure), &failure);
}

bool th_start_program(th_call *call, const th_program *program, toolhost_plugin_process_job_t *job) {
    command_t command = command_of(call, program);
    failure_t failure;
    return done(call, toolhost_plugin_process_start(&command, job, &failure), &failure);
}

bool th_jobs(th_call *call, toolhost_plugin_process_list_job_t *jobs) {
    failure_t failure;
    return done(call, toolhost_plugin_process_jobs(jobs, &failure), &failure);
}

bool th_read_job(th_call *call, const char *id, double after, uint32_t max, uint32_t wait_ms,
                 toolhost_plugin_process_chunk_t *chunk) {
    plugin_string_t id_view = th_view(id);
    failure_t failure;
    return done(call, toolhost_plugin_process_read(&id_view, after, max, wait_ms, chunk, &failure), &failure);
}

bool th_write_job(th_call *call, const char *id, const void *bytes, size_t length) {
    plugin_string_t id_view = th_view(id);
    plugin_list_u8_t list = {(uint8_t *)bytes, length};
    failure_t failure;
    return done(call, toolhost_plugin_process_write(&id_view, &list, &failure), &failure);
}

bool th_kill_job(th_call *call, const char *id, const char *signal, toolhost_plugin_process_job_t *job) {
    plugin_string_t id_view = th_view(id), signal_view = th_view(signal);
    failure_t failure;
    return done(call, toolhost_plugin_process_kill(&id_view, &signal_view, job, &failure), &failure);
}

/* The user. */

bool th_ask_user(th_call *call, const char *questions, const char **answers) {
    plugin_string_t argument = th_view(questions), result;
    failure_t failure;
    if (!toolhost_plugin_user_ask(&argument, &result, &failure)) return refused(call, &failure);
    *answers = take(call, result);
    return true;
}

bool th_change_mode(th_call *call, const char *to, const char *reason, const char **mode) {
    plugin_string_t to_view = th_view(to), reason_view = th_view(reason), result;
    failure_t failure;
    if (!toolhost_plugin_user_change_mode(&to_view, &reason_view, &result, &failure)) {
        return refused(call, &failure);
    }
    *mode = take(call, result);
    return true;
}

bool th_request_permissions(th_call *call, const char *request, const char **granted) {
    plugin_string_t argument = th_view(request), result;
    failure_t failure;
    if (!toolhost_plugin_user_request_permissions(&argument, &result, &failure)) {
        return refused(call, &failure);
    }
    *granted = take(call, result);
    return true;
}

/* Sub-agents. */

bool th_agents(th_call *call, toolhost_plugin_agents_list_agent_t *agents) {
    failure_t failure;
    return done(call, toolhost_plugin_agents_agents(agents, &failure), &failure);
}

bool th_run_agent(th_call *call, const char *task, const char **result) {
    plugin_string_t argument = th_view(task), text;
    failure_t failure;
    if (!toolhost_plugin_agents_run(&argument, &text, &failure)) return refused(call, &failure);
    *result = take(call, text);
    return true;
}

/* Other tools. */

bool th_visible_tools(th_call *call, toolhost_plugin_tools_list_summary_t *tools) {
    failure_t failure;
    return done(call, toolhost_plugin_tools_tools(tools, &failure), &failure);
}

bool th_call_tool(th_call *call, const char *tool, const char *input, outcome_t *outcome) {
    plugin_string_t tool_view = th_view(tool), input_view = th_view(input);
    tool_error_t error;
    return toolhost_plugin_tools_call(&tool_view, &input_view, outcome, &error) || fail_with(call, error);
}

bool th_start_tool(th_call *call, const char *tool, const char *input, uint32_t timeout_ms,
                   toolhost_plugin_tools_background_t *background) {
    plugin_string_t tool_view = th_view(tool), input_view = th_view(input);
    uint32_t *timeout = timeout_ms ? &timeout_ms : NULL;
    failure_t failure;
    return done(call, toolhost_plugin_tools_start(&tool_view, &input_view, timeout, background, &failure), &failure);
}

bool th_running_tools(th_call *call, toolhost_plugin_tools_list_background_t *running) {
    failure_t failure;
    return done(call, toolhost_plugin_tools_running(running, &failure), &failure);
}

bool th_wait_tool(th_call *call, const char *id, uint32_t wait_ms, bool *ended, outcome_t *outcome) {
    plugin_string_t id_view = th_view(id);
    toolhost_plugin_tools_option_result_outcome_tool_error_t result = {0};
    failure_t failure;
    *ended = false;
    if (!toolhost_plugin_tools_wait(&id_view, wait_ms, &result, &failure)) return refused(call, &failure);
    *ended = result.is_some;
    if (!result.is_some) return true;
    if (result.val.is_err) return fail_with(call, result.val.val.err);
    *outcome = result.val.val.ok;
    return true;
}

bool th_stop_tool(th_call *call, const char *id, toolhost_plugin_tools_background_t *background) {
    plugin_string_t id_view = th_view(id);
    failure_t failure;
    return done(call, toolhost_plugin_tools_stop(&id_view, background, &failure), &failure);
}

/* Resources. */

bool th_resources(th_call *call, const char *server, const char **json) {
    plugin_string_t server_view = th_view(server ? server : ""), result;
    failure_t failure;
    if (!toolhost_plugin_resources_resources(server ? &server_view : NULL, &result, &failure)) {
        return refused(call, &failure);
    }
    *json = take(call, result);
    return true;
}

bool th_read_resource(th_call *call, const char *uri, const char *server,
                      toolhost_plugin_resources_list_part_t *parts) {
    plugin_string_t uri_view = th_view(uri), server_view = th_view(server ? server : "");
    failure_t failure;
    return done(
        call, toolhost_plugin_resources_read(&uri_view, server ? &server_view : NULL, parts, &failure), &failure);
}
