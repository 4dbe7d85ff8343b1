/* Tools that use all host services, and hooks that guard one of them. */
#include <string.h>

#include "toolhost_services.h"

/* A string of the bindings for the format `%.*s`. */
#define TEXT(string) (int)(string).len, (const char *)(string).ptr

static bool is(plugin_string_t text, const char *expected) {
    return text.len == strlen(expected) && memcmp(text.ptr, expected, text.len) == 0;
}

static const char *kept(th_call *call, plugin_string_t text) { return th_keep_text(call, text.ptr, text.len); }

/* A string of the bindings as a JSON string. */
static const char *quoted(th_call *call, plugin_string_t text) { return th_quote(call, kept(call, text)); }

static const char *word(bool value) { return value ? "true" : "false"; }

static bool host(th_call *call) {
    th_output("stdout", "some output\n", 12);
    th_emit("sample", "{\"language\":\"c\"}");
    return th_structured(call, "{}");
}

static bool session(th_call *call) {
    const char *recalled, *forgotten, *repaired;
    toolhost_plugin_session_file_observation_t seen;
    bool found, unseen;
    char digest[65] = {0};
    memset(digest, '0', 64);
    if (!th_remember(call, "sent", "{\"letters\":1}") || !th_recall(call, "sent", &recalled) ||
        !th_forget(call, "sent") || !th_recall(call, "sent", &forgotten) ||
        /* A byte that is not UTF-8 becomes U+FFFD. */
        !th_remember(call, "\xFF", th_quote(call, "\xFF")) || !th_recall(call, "\xEF\xBF\xBD", &repaired) ||
        !th_record_observation(call, "/workspace/a.txt", digest, 1, 2) ||
        !th_last_observation(call, "/workspace/a.txt", &found, &seen) || !found) {
        return false;
    }
    th_structured(call, "{\"recalled\":%s,\"forgotten\":%s,\"repaired\":%s,\"unseen\":null,"
                        "\"seen\":{\"path\":\"%.*s\",\"sha256\":\"%.*s\",\"lines\":[%u,%u]}}",
                  recalled, forgotten ? forgotten : "null", repaired, TEXT(seen.path), TEXT(seen.sha256),
                  (unsigned)seen.lines.val.f0, (unsigned)seen.lines.val.f1);
    return th_last_observation(call, "/workspace/b.txt", &unseen, &seen) && !unseen;
}

static bool run(th_call *call) {
    const char *arguments[] = {"-c", th_string(call, "command"), NULL};
    const th_program bash = {.program = "bash", .arguments = arguments, .timeout_ms = 20000}, ls = {.program = "ls"};
    toolhost_plugin_process_run_output_t output, none;
    if (!th_run_program(call, &bash, &output)) return false;
    const char *text = th_quote(call, th_keep_text(call, output.stdout_.ptr, output.stdout_.len));
    const char *refused = th_run_program(call, &ls, &none) ? "" : th_code(call);
    return th_structured(call, "{\"stdout\":%s,\"kind\":\"%.*s\",\"code\":%d,\"refused\":\"%s\"}", text,
                         TEXT(output.exit_status.kind), (int)output.exit_status.code.val, refused);
}

/* The host compares command, terminal and typed text with the input of the call, which the user has approved. */
static bool start(th_call *call) {
    const char *arguments[] = {"-c", th_string(call, "command"), NULL};
    th_program bash = {.program = "bash", .arguments = arguments, .label = "a sample"};
    toolhost_plugin_process_job_t job;
    th_bool(call, "tty", &bash.tty);
    if (!th_start_program(call, &bash, &job)) return false;
    return th_structured(call, "{\"id\":\"%.*s\",\"state\":\"%.*s\",\"label\":\"%.*s\"}", TEXT(job.id), TEXT(job.state),
                         TEXT(job.label));
}

static bool write_input(th_call *call) {
    const char *chars = th_string(call, "chars");
    return th_write_job(call, th_string(call, "task_id"), chars, strlen(chars)) && th_structured(call, "{}");
}

static bool jobs(th_call *call) {
    const char *id = th_string(call, "task_id"), *label = "", *found = NULL;
    toolhost_plugin_process_list_job_t list;
    toolhost_plugin_process_chunk_t chunk;
    toolhost_plugin_process_job_t killed;
    if (!th_jobs(call, &list)) return false;
    for (size_t i = 0; i < list.len; i++) {
        if (is(list.ptr[i].id, id)) label = quoted(call, list.ptr[i].label);
    }
    /* The output is short, so each read returns all of it. */
    while (!found || !strchr(found, '\n')) {
        if (!th_read_job(call, id, 0, 1000, 1000, &chunk)) return false;
        found = strstr(th_keep_text(call, chunk.bytes.ptr, chunk.bytes.len), "got ");
    }
    if (!th_kill_job(call, id, "TERM", &killed)) return false;
    return th_structured(call, "{\"label\":%s,\"output\":\"%.*s\",\"killed\":\"%.*s\"}", label,
                         (int)strcspn(found, "\r\n"), found, TEXT(killed.id));
}

static bool user(th_call *call) {
    const char *question = "[{\"question\":\"Which?\",\"options\":[{\"label\":\"a\"},{\"label\":\"b\"}]}]";
    const char *request = "{\"reason\":\"a sample\",\"write\":[\"a.txt\"],\"scope\":\"turn\"}";
    const char *answers, *granted, *mode;
    return th_ask_user(call, question, &answers) && th_request_permissions(call, request, &granted) &&
           th_change_mode(call, "plan", "a sample", &mode) &&
           th_structured(call, "{\"answers\":%s,\"granted\":%s,\"mode\":\"%s\"}", answers,
                         th_member(call, granted, "write"), mode);
}

static bool agents(th_call *call) {
    toolhost_plugin_agents_list_agent_t list;
    const char *result;
    if (!th_agents(call, &list) || !th_run_agent(call, "{\"agent\":\"echo\",\"text\":\"hello\"}", &result)) return false;
    return th_structured(call, "{\"names\":[\"%.*s\"],\"text\":%s}", TEXT(list.ptr[0].name),
                         th_member(call, result, "text"));
}

static bool tools(th_call *call) {
    toolhost_plugin_tools_list_summary_t list;
    toolhost_plugin_types_outcome_t outcome, none;
    bool visible = false;
    if (!th_visible_tools(call, &list) || !th_call_tool(call, "echo_c", "{\"text\":\"hello\"}", &outcome)) return false;
    for (size_t i = 0; i < list.len; i++) visible |= is(list.ptr[i].name, "echo_c");
    const char *refused = th_call_tool(call, "other", "{}", &none) ? "" : th_code(call);
    return th_structured(call, "{\"visible\":%s,\"text\":\"%.*s\",\"refused\":\"%s\"}", word(visible),
                         TEXT(outcome.llm.ptr->text.val), refused);
}

static bool background(th_call *call) {
    toolhost_plugin_tools_background_t started, endless, stopped;
    toolhost_plugin_tools_list_background_t running;
    toolhost_plugin_types_outcome_t outcome, none;
    bool ended = false, listed = false, waiting = true, gone = false;
    if (!th_start_tool(call, "echo_c", "{\"text\":\"hello\"}", 20000, &started)) return false;
    const char *id = kept(call, started.id);
    while (!ended) {
        if (!th_wait_tool(call, id, 1000, &ended, &outcome)) return false;
    }
    if (!th_running_tools(call, &running)) return false;
    for (size_t i = 0; i < running.len; i++) listed |= is(running.ptr[i].id, id);
    if (!th_start_tool(call, "echo_c", "{\"text\":\"wait\"}", 0, &endless)) return false;
    id = kept(call, endless.id);
    if (!th_wait_tool(call, id, 0, &waiting, &none) || waiting || !th_stop_tool(call, id, &stopped)) return false;
    while (!gone) {
        bool waited = th_wait_tool(call, id, 1000, &gone, &none);
        /* A stopped call has ended with an error. Without an end, the wait itself has failed. */
        if (waited == gone) return false;
    }
    return th_structured(call, "{\"tool\":\"%.*s\",\"text\":\"%.*s\",\"listed\":%s,\"waiting\":null,\"stopped\":%s,"
                               "\"code\":\"%s\"}",
                         TEXT(started.tool), TEXT(outcome.llm.ptr->text.val), word(listed), word(is(stopped.id, id)),
                         th_code(call));
}

static bool resources(th_call *call) {
    const char *list;
    toolhost_plugin_resources_list_part_t parts, none;
    if (!th_resources(call, NULL, &list)) return false;
    const char *first = th_element(call, list, 0), *uri = th_member(call, first, "uri");
    const char *server = th_member(call, first, "server");
    if (!th_read_resource(call, th_unquote(call, uri), th_unquote(call, server), &parts)) return false;
    const char *absent = th_read_resource(call, "note://absent", NULL, &none) ? "" : th_code(call);
    return th_structured(call, "{\"uri\":%s,\"server\":%s,\"text\":\"%.*s\",\"absent\":\"%s\"}", uri, server,
                         TEXT(parts.ptr->text.val), absent);
}

static bool denied(th_call *call) {
    const th_program ls = {.program = "ls"};
    toolhost_plugin_process_run_output_t none;
    return th_run_program(call, &ls, &none);
}

static bool absent(th_call *call) {
    toolhost_plugin_resources_list_part_t none;
    return th_read_resource(call, "note://absent", NULL, &none);
}

static const struct {
    const char *name;
    bool (*run)(th_call *call);
} parts[] = {
    {"host", host}, {"session", session}, {"run", run}, {"start", start}, {"write", write_input}, {"jobs", jobs},
    {"user", user}, {"agents", agents}, {"tools", tools}, {"background", background}, {"resources", resources},
    {"denied", denied}, {"absent", absent},
};

static bool run_part(th_call *call) {
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(parts[i].name, th_string(call, "part")) == 0) return parts[i].run(call);
    }
    return th_fail(call, TH_INVALID_INPUT, NULL, "there is no such part");
}

static bool echo(th_call *call) {
    const char *text = th_string(call, "text");
    if (strcmp(text, "fail") == 0) return th_fail(call, TH_FAILED, "sample", "it failed");
    while (strcmp(text, "wait") == 0) {
        if (!th_check(call)) return false;
    }
    return th_text(call, "%s", text);
}

/* th_location is for another function, so it ends the instance. */
static bool validate(th_call *call) {
    return strcmp(th_string(call, "text"), "unchecked") != 0 || th_location(call, "a.txt", false);
}

static bool before(th_call *call) {
    const char *command = th_string(call, "command"), *text = th_string(call, "text");
    const toolhost_plugin_types_request_t *request = th_request(call);
    /* Only where the operator configured this plugin as a hook for `services_c`. */
    if (command && strcmp(command, "answered") == 0) return th_text(call, "an answer") && th_answer(call);
    if (!text) return true;
    if (strcmp(text, "forbidden") == 0) {
        th_text(call, "%.*s refuses it", TEXT(request->tool));
        return th_deny(call, "the text is forbidden");
    }
    if (strcmp(text, "risky") == 0) {
        const char *effect = th_member(call, kept(call, request->context.extra.val), "effect");
        th_meta(call, "{\"risk\":\"high\"}");
        return th_ask(call, "the text is risky (%s)", th_unquote(call, effect));
    }
    if (strcmp(text, "invalid") == 0) return th_block(call, "text", "no decision", NULL);
    return strcmp(text, "typo") != 0 || th_change_input(call, "{\"text\":\"type\"}");
}

static bool after(th_call *call, const toolhost_plugin_types_outcome_t *outcome) {
    if (outcome->error.is_some) return th_text(call, "after %.*s", TEXT(outcome->error.val.code.val));
    plugin_string_t text = outcome->llm.ptr->text.val;
    if (is(text, "secret")) {
        return th_text(call, "[removed]") && th_summary(call, "one word") && th_meta(call, "{\"removed\":1}");
    }
    if (is(text, "lost")) return th_deny(call, "no decision after a call");
    if (is(text, "other")) {
        return th_text(call, "another outcome") && th_structured(call, "{\"replaced\":true}") && th_replace(call);
    }
    return true;
}

static const th_tool services_c = {
    .name = "services_c",
    .description = "Use one of the host services.",
    .input_schema =
        "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"part\"],\"properties\":{"
        "\"part\":{\"type\":\"string\",\"description\":\"The service.\"},"
        "\"command\":{\"type\":\"string\",\"description\":\"The command of run and start.\"},"
        "\"tty\":{\"type\":\"boolean\",\"description\":\"Whether start uses a terminal.\"},"
        "\"task_id\":{\"type\":\"string\",\"description\":\"The job of write and jobs.\"},"
        "\"chars\":{\"type\":\"string\",\"description\":\"The input of write.\"}}}",
    .run = run_part,
    .kind = "execute",
    .destructive = TH_YES,
    .requires = (const char *const[]){"session", "user", "agents", "tools", "resources", "process", "fs.read", "fs.write",
                                      NULL},
};

static const th_tool echo_c = {
    .name = "echo_c",
    .description = "Return a text.",
    .input_schema = "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"text\"],\"properties\":{"
                    "\"text\":{\"type\":\"string\",\"description\":\"The text.\"}}}",
    .run = echo,
    .validate = validate,
    .read_only = TH_YES,
    .pure = TH_YES,
    .can_background = true,
    .hooks = (const char *const[]){"pre-tool-use", "post-tool-use", NULL},
};

const th_tool *const th_tools[] = {&services_c, &echo_c, NULL};
const th_hook_functions th_hooks = {.before = before, .after = after};
