/* Host services for C plugins: session state, programs, questions to the user, sub-agents, other tools and resources.
 *
 * Each needs the capability of that name in the plugin's manifest and in `requires` of the tool. Compile
 * toolhost_services.c too, for the world `toolhost:plugin/plugin-with-services` or `toolhost:sdk/complete`.
 *
 * Each function returns false with the failure of the call set, for `if (!th_recall(…)) return false;`. A tool that goes on
 * anyway reads th_code(call) and th_message(call). Returned text is freed with the call. Records are those of the bindings;
 * free them with the `_free` function of their type, or leave them to the end of the instance, which serves one call. */
#ifndef TOOLHOST_SERVICES_H
#define TOOLHOST_SERVICES_H

#include "toolhost.h"

/* Session state: capability `session`. Values are stored only if the result of the call is accepted. */

/* JSON text that this plugin last stored under `key` in this session; NULL if there is none. */
bool th_recall(th_call *call, const char *key, const char **json);
bool th_remember(th_call *call, const char *key, const char *json);
bool th_forget(th_call *call, const char *key);
/* Records that the agent was shown this file or has written it. `first` is 0 for all lines. */
bool th_record_observation(th_call *call, const char *path, const char *sha256, uint32_t first, uint32_t last);
/* The last recorded version of this file, from any plugin; `found` is false if there is none. */
bool th_last_observation(th_call *call, const char *path, bool *found,
                         toolhost_plugin_session_file_observation_t *observation);

/* Programs: capability `process`. */

/* A program to start; omitted members are absent. */
typedef struct {
    const char *program;
    const char *const *arguments;   /* ends with NULL */
    const char *cwd;                /* a directory of the call; by default the first */
    const char *const *environment; /* name, value, name, value …, NULL */
    const void *input;              /* standard input; closed if NULL */
    size_t input_length;
    uint32_t timeout_ms, inactivity_timeout_ms;
    bool tty;          /* a terminal instead of pipes */
    const char *label; /* by default the program */
} th_program;

/* Runs a program to completion; its output is streamed. */
bool th_run_program(th_call *call, const th_program *program, toolhost_plugin_process_run_output_t *output);
/* Starts a program as a job and returns without waiting for it. */
bool th_start_program(th_call *call, const th_program *program, toolhost_plugin_process_job_t *job);
/* The programs started in this session. */
bool th_jobs(th_call *call, toolhost_plugin_process_list_job_t *jobs);
/* Output of a job after the byte offset `after`; waits up to `wait_ms` if there is none. */
bool th_read_job(th_call *call, const char *id, double after, uint32_t max, uint32_t wait_ms,
                 toolhost_plugin_process_chunk_t *chunk);
bool th_write_job(th_call *call, const char *id, const void *bytes, size_t length);
/* `signal` is TERM, INT, HUP, QUIT, USR1, USR2 or KILL. */
bool th_kill_job(th_call *call, const char *id, const char *signal, toolhost_plugin_process_job_t *job);

/* The user: capability `user`. */

/* Asks up to four questions, in the format of `user.ask` in the WIT; `answers` is a JSON array in the same order. */
bool th_ask_user(th_call *call, const char *questions, const char **answers);
/* Requests another permission mode; `mode` is the resulting one. */
bool th_change_mode(th_call *call, const char *to, const char *reason, const char **mode);
/* Requests permissions, in the format of the WIT; `granted` are those that were granted. */
bool th_request_permissions(th_call *call, const char *request, const char **granted);

/* Sub-agents: capability `agents`. */

bool th_agents(th_call *call, toolhost_plugin_agents_list_agent_t *agents);
/* Delegates a task: takes {"agent", "prompt", …} and returns {"text", …}. */
bool th_run_agent(th_call *call, const char *task, const char **result);

/* Other tools: capability `tools`. Each call is authorized like any other, with this one as its parent. */

/* The tools that are visible to this call. */
bool th_visible_tools(th_call *call, toolhost_plugin_tools_list_summary_t *tools);
/* Calls a tool; an error of the call becomes the failure. */
bool th_call_tool(th_call *call, const char *tool, const char *input, toolhost_plugin_types_outcome_t *outcome);
/* Starts a call that continues after this one. `timeout_ms` is 0 for the default. */
bool th_start_tool(th_call *call, const char *tool, const char *input, uint32_t timeout_ms,
                   toolhost_plugin_tools_background_t *background);
bool th_running_tools(th_call *call, toolhost_plugin_tools_list_background_t *running);
/* Waits up to `wait_ms` for the end of a started call; `ended` is false while it is running. An error of the call becomes
 * the failure. */
bool th_wait_tool(th_call *call, const char *id, uint32_t wait_ms, bool *ended,
                  toolhost_plugin_types_outcome_t *outcome);
bool th_stop_tool(th_call *call, const char *id, toolhost_plugin_tools_background_t *background);

/* Resources of MCP servers: capability `resources`. `server` is NULL for all servers. */

/* A JSON array: [{"uri", "name", "server", …}]. */
bool th_resources(th_call *call, const char *server, const char **json);
/* Content parts of a resource, of the first server that has it if `server` is NULL. */
bool th_read_resource(th_call *call, const char *uri, const char *server, toolhost_plugin_resources_list_part_t *parts);

#endif
