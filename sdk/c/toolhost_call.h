/* The state of a running call, shared by the files of the SDK; not for plugins. */
#ifndef TOOLHOST_CALL_H
#define TOOLHOST_CALL_H

#include <stdarg.h>

#include "toolhost.h"

/* Memory returned to the author is freed with the call. */
typedef struct piece {
    struct piece *next;
    char text[];
} piece_t;

/* The function of the author that runs. */
typedef enum { TH_RUN, TH_DESCRIBE, TH_LOCATIONS, TH_RENDER, TH_BEFORE, TH_AFTER } th_phase;

struct th_call {
    toolhost_plugin_types_request_t *request;
    toolhost_plugin_types_outcome_t *outcome;
    th_phase phase;
    th_error error;
    toolhost_plugin_types_failure_t failure;
    piece_t *pieces;
    /* What th_location (in TH_LOCATIONS) or th_block (in TH_RENDER) has added. */
    void *items;
    size_t count;
    /* The decision in TH_BEFORE. Its type is missing in worlds without hooks. */
    void *before;
    /* In TH_AFTER: th_replace was called. */
    bool replaced;
};

/* Ends the instance with the text if another function of the author runs: its decision would be lost. */
void th_require(const th_call *call, th_phase phase, const char *text);

/* The tool of a call; NULL, with the failure set, if there is none. */
const th_tool *th_find(th_call *call);
/* Frees what the call has, except for its outcome and failure. Sets the failure if `done` is false and none is set. */
void th_end(th_call *call, bool done);
/* The same for a function that cannot return a failure. A failure ends the instance, because the host would otherwise take
 * the empty result for the decision of the function. */
void th_end_or_abort(th_call *call, bool done);

/* Memory that is freed with the call. */
char *th_keep(th_call *call, size_t size);
/* A copy of the text from malloc in which each byte that is not UTF-8 is U+FFFD; NULL if all are. The component boundary
 * requires UTF-8. */
char *th_repair(const char *text);
/* The text of a printf format, from malloc. */
char *th_print(const char *format, va_list arguments);
/* realloc that ends the instance without memory. */
void *th_grow(void *old, size_t size);
/* An argument of an import, which does not free it. A copy that th_repair makes is kept to the end of the instance. */
plugin_string_t th_view(const char *text);
/* Results are freed by the bindings, so they must be copies, never literals. NULL is an absent option. */
plugin_string_t th_copy(const char *text);
plugin_list_string_t th_copy_list(const char *const *texts);
plugin_option_string_t th_copy_option(const char *text);
toolhost_plugin_types_option_json_t th_copy_json(const char *text);

#endif
