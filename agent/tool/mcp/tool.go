package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
)

// Tool is a tool of a server as it was when the tools were listed. It does not change; a changed
// tool is a new Tool.
type Tool struct {
	// Name is the server's own name for the tool.
	Name string
	// Output is the schema of Answer.Data; nil if the server names none.
	Output json.RawMessage
	// Hash is the SHA-256 of name, description and schema in hexadecimal digits; "" for
	// list_resources and read_resource, which are not the server's.
	Hash string

	// readOnly is true if the server claims that the tool changes nothing. It only counts where it
	// restricts: in the mode plan, in which rules judge the call all the same, and for a call that a
	// restart of the node interrupted.
	readOnly bool
	// spec is what a model is shown: full name, description and schema, all bounded.
	spec llm.ToolSpec
	// server is the server across all its connections, so a Tool outlives a reconnect.
	server *server
	// do makes the call over a session. token is the progress token. It returns errTask if the
	// server demands a task.
	do func(ctx context.Context, session *sdk.ClientSession, token string, args map[string]any) (Answer, error)
}

// Spec describes the tool to a model. The texts are the server's and must not be trusted.
func (t *Tool) Spec() llm.ToolSpec { return t.spec }

// Server returns the name of the tool's server.
func (t *Tool) Server() string { return t.server.entry.Name }

// Decode reads the arguments as every tool does. Of the schema it checks only the required names,
// because a hostile schema could make a full check run for ever. The server reports other faults.
// The Invocation asks a person if the tool has changed (Doubt), and accepts the change when it
// runs.
func (t *Tool) Decode(raw json.RawMessage) (tool.Invocation, error) {
	args, err := tool.DecodeArgs(raw)
	if err != nil {
		return tool.Invocation{}, err
	}
	var schema struct {
		Required []string `json:"required"`
	}
	if json.Unmarshal(t.spec.Schema, &schema) == nil {
		for _, name := range schema.Required {
			if _, ok := args[name]; !ok {
				return tool.Invocation{}, fmt.Errorf("the argument %q is missing", tool.Readable([]byte(name)))
			}
		}
	}
	return tool.Invocation{Args: args, Doubt: t.Doubt, ReadOnly: t.readOnly, Run: func(ctx context.Context) tool.Result {
		// The call runs, so the rules or a person have allowed it as the tool is now.
		t.Accept()
		answer, err := t.Call(ctx, args, func(p community.Progress) { tool.Report(ctx, p) })
		if err != nil {
			return tool.Result{Text: err.Error(), IsError: true}
		}
		return tool.Result{Text: answer.Text, IsError: answer.IsError, Images: answer.Images}
	}}, nil
}

// Doubt returns why a person has to decide about a call, even where a rule allows it: the tool
// differs from the version that was first listed or last accepted. It returns "" if there is no
// reason.
func (t *Tool) Doubt() string {
	pinned := t.server.m.cfg.Pins.Pinned(t.server.entry.Hash, t.Name)
	if pinned == "" || t.Hash == "" || pinned == t.Hash {
		return ""
	}
	return fmt.Sprintf("The server %s has changed what this tool says of itself (its description or its arguments) since it was first listed here.", ServerPart(t.server.entry.Name))
}

// Accept stores the tool's present hash as the accepted one. It does nothing if that is so already.
func (t *Tool) Accept() {
	if t.Hash != "" && t.server.m.cfg.Pins.Pinned(t.server.entry.Hash, t.Name) != t.Hash {
		t.server.pin(map[string]string{t.Name: t.Hash})
	}
}

// Call calls the tool. tell is called with the progress, from another goroutine. If ctx ends or the
// timeout passes, the call is canceled at the server, too. It returns ErrNotReady if the server
// cannot be reached or the connection is lost; in the second case the call may have been carried
// out. A failure that the tool itself reports is no error but an Answer with IsError.
func (t *Tool) Call(ctx context.Context, args map[string]any, tell func(community.Progress)) (Answer, error) {
	s := t.server
	// The protocol requires an object, and nil would be encoded as null.
	if args == nil {
		args = map[string]any{}
	}
	timeout := s.entry.Timeout
	if timeout <= 0 {
		timeout = s.m.cfg.CallTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer after %s: the call is cancelled", timeout))
	defer cancel()
	session, err := s.session(ctx)
	if err != nil {
		return Answer{}, err
	}
	token, over, err := s.calls.add(ctx, s.entry.Name, tell)
	if err != nil {
		return Answer{}, err
	}
	// over ends the delivery of progress for this call.
	defer over()
	answer, err := t.do(ctx, session, token, args)
	return answer, s.explainError(ctx, session, err)
}

// errTask is returned for a tool that requires a task: a call whose result is asked for later.
var errTask = errors.New("this tool has to be called as a task, an experiment of the protocol that is not supported; the server's other tools can be used")

// asksForTask reports whether a server refuses a call because it is not a task. It has to look at
// the words of the refusal, because the SDK does not read execution.taskSupport of the tool's
// description. For other words the model reads the refusal itself.
func asksForTask(text string) bool {
	return strings.Contains(text, "requires task augmentation") || strings.Contains(text, "taskSupport")
}

// explainError turns the error of a call into one that says what can be done about it; nil stays
// nil. The order matters: the end of ctx first, because it also shows as an error of the
// connection; then what the server answered; the rest is a lost connection and becomes ErrNotReady.
func (s *server) explainError(ctx context.Context, session *sdk.ClientSession, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the MCP server %s: %w", s.entry.Name, context.Cause(ctx))
	}
	var wire *jsonrpc.Error
	if asks := errors.As(err, &wire) && asksForTask(wire.Message); asks || errors.Is(err, errTask) {
		return fmt.Errorf("the MCP server %s: %w", s.entry.Name, errTask)
	}
	if wire != nil {
		return fmt.Errorf("the MCP server %s says: %s", s.entry.Name, tool.Shorten(tool.Readable([]byte(wire.Message)), maxQuoted))
	}
	// This error is not an answer of the server but a lost connection, or an answer that the SDK cannot read. run knows a moment
	// later, when the program has ended.
	wait, cancel := context.WithTimeout(ctx, exitTimeout+time.Second)
	defer cancel()
	why, lost := s.connection.disconnectReason(wait, session, err)
	if !lost {
		return fmt.Errorf("the MCP server %s answered what cannot be read: %s. It runs on; whether the call was done is not known", s.entry.Name, why)
	}
	// It will not come back, so the text does not promise a restart.
	if s.connection.state().stopped {
		return fmt.Errorf("%w any more: %s: %s. Whether the call was done is not known", ErrNotReady, s.entry.Name, why)
	}
	return fmt.Errorf("%w any more: %s: %s. It is started again; whether the call was done is not known", ErrNotReady, s.entry.Name, why)
}

// resourceTools returns the two tools with which a model lists and reads the server's resources.
// Their descriptions are not the server's, so they have no Hash and are never in doubt.
func (s *server) resourceTools() []*Tool {
	part := ServerPart(s.entry.Name)
	list := &Tool{readOnly: true, Name: "list_resources", server: s, do: s.listResources, spec: llm.ToolSpec{
		Name: toolName(s.entry.Name, "list_resources"), Description: "List the resources of the MCP server " + part + ": their URIs, and the patterns of URIs that it can read.",
		Schema: json.RawMessage(`{"type":"object","properties":{"offset":{"type":"integer","description":"How many to leave out; for what the last list did not show."}},"additionalProperties":false}`),
	}}
	read := &Tool{readOnly: true, Name: "read_resource", server: s, do: s.readResource, spec: llm.ToolSpec{
		Name: toolName(s.entry.Name, "read_resource"), Description: "Read a resource of the MCP server " + part + ".",
		Schema: json.RawMessage(`{"type":"object","properties":{"uri":{"type":"string","description":"Its URI."}},"required":["uri"],"additionalProperties":false}`),
	}}
	return []*Tool{list, read}
}

// listResources runs list_resources. It shows at most resourcesPerPage resources from the offset in
// args.
func (s *server) listResources(ctx context.Context, session *sdk.ClientSession, _ string, args map[string]any) (Answer, error) {
	var all []string
	err := pages(func(cursor string) (string, error) {
		r, err := session.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
		if err != nil {
			return "", err
		}
		for _, one := range r.Resources {
			all = append(all, resourceLine(one.URI, one.Name, one.MIMEType, one.Description))
		}
		if len(all) > maxResources {
			return "", nil
		}
		return r.NextCursor, nil
	})
	if err != nil {
		return Answer{}, err
	}
	// A server that has resources need not have templates: an error means that there are none.
	if templates, err := session.ListResourceTemplates(ctx, nil); err == nil {
		for _, one := range templates.ResourceTemplates {
			all = append(all, resourceLine(one.URITemplate, one.Name, one.MIMEType, one.Description))
		}
	}
	// tool.DecodeArgs decodes integers to int64. Anything else counts as 0.
	offset, _ := args["offset"].(int64)
	from := min(max(int(offset), 0), len(all))
	to := min(from+resourcesPerPage, len(all))
	text := strings.Join(all[from:to], "\n")
	if to < len(all) {
		text += fmt.Sprintf("\n[%d more; call it again with offset %d]", len(all)-to, to)
	}
	if len(all) == 0 {
		text = "The server has no resources."
	}
	return Answer{Text: text}, nil
}

// readResource runs read_resource: it returns the contents of the resource with the URI in args.
func (s *server) readResource(ctx context.Context, session *sdk.ClientSession, token string, args map[string]any) (Answer, error) {
	uri, _ := args["uri"].(string)
	p := &sdk.ReadResourceParams{URI: uri}
	p.SetProgressToken(token)
	r, err := session.ReadResource(ctx, p)
	if err != nil {
		return Answer{}, err
	}
	var a Answer
	var parts []string
	for _, c := range r.Contents {
		parts = append(parts, a.contents(c))
	}
	a.Text = strings.Join(parts, "\n")
	return a, nil
}
