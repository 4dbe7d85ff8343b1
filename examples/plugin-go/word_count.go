// A tool in Go, for the bindings that wit-bindgen 0.63 generates from wit/v0.1.
package export_toolhost_plugin_tool

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	types "go.bytecodealliance.org/pkg/wit/types"
	host "wit_component/toolhost_plugin_host"
	plugin "wit_component/toolhost_plugin_types"
)

// The collector must not start while the host writes arguments into memory: it reads the clock, and a component may not
// call out then. Each call collects when it ends instead.
func init() { debug.SetGCPercent(-1) }

const schema = `{
	"type": "object",
	"required": ["text"],
	"properties": {"text": {"type": "string", "description": "The text."}},
	"additionalProperties": false
}`

// Describe returns the tools of this plugin.
func Describe(environment []types.Tuple2[string, string]) []plugin.Descriptor {
	return []plugin.Descriptor{{
		Name:        "word_count_go",
		Description: "Count the words of a text.",
		InputSchema: schema,
		Annotations: plugin.Annotations{ReadOnly: types.Some(true), Pure: types.Some(true)},
	}}
}

// Call runs one call.
func Call(request plugin.Request) (result types.Result[plugin.Outcome, plugin.ToolError]) {
	defer runtime.GC()
	// A panic that leaves the component ends the instance and loses its text.
	defer func() {
		if panicked := recover(); panicked != nil {
			result = fail(plugin.MakeToolErrorFailed, "internal_error", fmt.Sprint(panicked))
		}
	}()
	var input struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal([]byte(request.Input), &input); err != nil {
		return fail(plugin.MakeToolErrorInvalidInput, "invalid_json", err.Error())
	}
	if input.Text == "" {
		return fail(plugin.MakeToolErrorInvalidInput, "empty_text", "text is empty")
	}
	host.Progress(host.ProgressUpdate{Message: types.Some("counting")})
	words := len(strings.Fields(input.Text))
	return types.Ok[plugin.Outcome, plugin.ToolError](plugin.Outcome{
		Llm:        []plugin.Part{{Kind: "text", Text: types.Some(fmt.Sprintf("%d words", words))}},
		Structured: types.Some(fmt.Sprintf(`{"words":%d}`, words)),
	})
}

func fail(kind func(plugin.Failure) plugin.ToolError, code, message string) types.Result[plugin.Outcome, plugin.ToolError] {
	failure := plugin.Failure{Code: types.Some(code), Message: message}
	return types.Err[plugin.Outcome](kind(failure))
}
