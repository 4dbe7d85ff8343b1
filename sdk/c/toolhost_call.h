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

struct th_call {
    toolhost_plugin_types_request_t *request;
    toolhost_plugin_types_outcome_t *outcome;
    th_error error;
    toolhost_plugin_types_failure_t failure;
    piece_t *pieces;
    /* An array of toolhost_preview.c: what th_location or th_block has added. The decision of toolhost_hooks.c. */
    void *items;
    size_t count;
};

/* The tool of a call; NULL, with the failure set, if there is none. */
const th_tool *th_find(th_call *call);
/* Frees what the call has, except for its outcome and failure. Sets the failure if `done` is false and none is set. */
void th_end(th_call *call, bool done);

/* Memory that is freed with the call. */
char *th_keep(th_call *call, size_t size);
/* The text of a printf format, from malloc. */
char *th_print(const char *format, va_list arguments);
/* realloc that ends the instance without memory. */
void *th_grow(void *old, size_t size);
/* An argument of an import, which does not free it. */
plugin_string_t th_view(const char *text);
/* Results are freed by the bindings, so they must be copies, never literals. NULL is an absent option. */
plugin_string_t th_copy(const char *text);
plugin_list_string_t th_copy_list(const char *const *texts);
plugin_option_string_t th_copy_option(const char *text);
toolhost_plugin_types_option_json_t th_copy_json(const char *text);

#endif
