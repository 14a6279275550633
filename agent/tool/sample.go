package tool

import (
	"context"
	"errors"

	"symbio/agent/llm"
)

// SamplingOf begins the name of the call with which an MCP server asks the agent's model; the server's name follows. It
// is outside of mcp__SERVER__, so a rule that allows all tools of a server does not let it ask the model.
const SamplingOf = "mcp_sampling__"

// ErrNotAllowed means that the rules or a person did not let a server ask the model. The recorded decision says why.
var ErrNotAllowed = errors.New("it was not allowed")

// Sample asks the model of the agent whose call ctx belongs to for a server. It is judged, put to a person and recorded as
// a call of SamplingOf and the server's name. The person sees shown; what is recorded of it is noted, which must have none
// of the server's text. It returns ErrNotAllowed, or the error of SetConfig.Sample.
func Sample(ctx context.Context, server string, shown, noted map[string]any, r llm.Request) (llm.Response, error) {
	c := currentOf(ctx)
	if c.set.cfg.Sample == nil {
		return llm.Response{}, errors.New("there is no agent whose model could be asked")
	}
	one := &job{call: llm.ToolCall{ID: c.job.call.ID + "?", Name: SamplingOf + server}, inv: Invocation{Args: shown, noted: noted}}
	if !c.set.judge(ctx, one) || !c.set.approve(ctx, one) {
		return llm.Response{}, ErrNotAllowed
	}
	return c.set.cfg.Sample(ctx, server, r)
}
