package guest

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent"
	"symbio/agent/llm"
)

// served returns the tools that the program has by MCP: the agent's, without the ones like its own.
func (g *Guest) served() []llm.ToolSpec {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(g.tools), func(t llm.ToolSpec) bool {
		return t.Name == ActionTool || t.Name == agent.StepTool || t.Name == "Plan" || slices.Contains(g.cfg.Own, t.Name)
	})
}

// serve answers one connection of the program to the MCP server of its agent.
func (g *Guest) serve(ctx context.Context, c net.Conn) {
	s := sdk.NewServer(&sdk.Implementation{Name: "symbio", Version: "1"}, nil)
	for _, t := range g.served() {
		schema := t.Schema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		s.AddTool(&sdk.Tool{Name: t.Name, Description: t.Description, InputSchema: schema}, g.callTool)
	}
	out := newOutbox(c, func() { c.Close() })
	defer func() { c.Close(); out.close(errEnded) }()
	_ = s.Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(c), Writer: answers{out, c}, MaxLineLength: maxMessage}) // the program ended, or sent no MCP
}

// answers writes what the program is answered without waiting for it, so that one that does not read holds no more than maxBytes.
type answers struct {
	*outbox
	io.Closer
}

// callTool makes a call of the program a call of its agent.
func (g *Guest) callTool(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	g.mu.Lock()
	p := g.now
	g.mu.Unlock()
	select {
	case g.calls <- struct{}{}:
		defer func() { <-g.calls }()
	default:
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "Too many calls wait: wait for their results first."}}, IsError: true}, nil
	}
	o := outcome{"No task runs.", true}
	if len(r.Params.Arguments) > maxRequest {
		o.text, p = "The arguments are longer than 1 MiB: do it in smaller parts.", nil
	}
	if p != nil {
		args := map[string]any{}
		if err := json.Unmarshal(r.Params.Arguments, &args); err != nil && len(r.Params.Arguments) > 0 {
			return nil, err
		}
		all, err := p.want(ctx, &ask{tool: r.Params.Name, args: args})
		if err != nil {
			return nil, err
		}
		o = all[0]
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: o.text}}, IsError: o.failed}, nil
}
