package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"symbio/agent/tool"
	"symbio/agent/tool/mcp"
	"symbio/cmd/symbio/internal/config"
	"symbio/community"
)

// mcpRetry is between two looks for a server that a capability needs and that is not there.
const mcpRetry = time.Minute

// offerMCP offers the capabilities that are tools of MCP servers, each when its server is ready: only then there is its
// schema. What keeps one from being offered is told once.
func (n *Node) offerMCP(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, c := range n.opts.Config.Capabilities {
		if c.MCP != "" {
			wg.Go(func() { n.offerTool(ctx, c) })
		}
	}
	wg.Wait()
	return nil
}

func (n *Node) offerTool(ctx context.Context, c config.Capability) {
	server, name, _ := strings.Cut(c.MCP, "/")
	for told := ""; ; {
		t, err := n.mcpTool(ctx, server, name)
		if err == nil {
			if err = n.offerOne(c, t); err == nil {
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		if told == "" {
			told = err.Error()
			n.log.Warn("capability not offered", "capability", c.Name, "err", err)
			n.events.Publish("warning", "", warningEvent{Capability: c.Name, Why: "it is not offered: " + told})
		}
		if !errors.Is(err, mcp.ErrNotReady) && !errors.Is(err, mcp.ErrUnknown) {
			return // it would be the same again
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(mcpRetry):
		}
	}
}

// offerOne offers a tool under the words of the configuration, and the tool's own where it has none.
func (n *Node) offerOne(c config.Capability, t *mcp.Tool) error {
	spec := t.Spec()
	out := community.Capability{Name: c.Name, Description: cmp.Or(c.Description, spec.Description), Idempotent: c.Idempotent}
	var err error
	if out.Input, err = schema(c.Input); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	if out.Output, err = schema(c.Output); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	if out.Input == nil {
		out.Input = spec.Schema
	}
	if out.Output == nil {
		out.Output = t.Output
	}
	opts := []community.OfferOption{community.WithTimeout(c.Timeout), community.WithConcurrency(cmp.Or(c.Concurrency, concurrency))}
	err = n.community.Offer(out, n.mcpProvider(c), opts...)
	if err != nil && c.Input == nil && c.Output == nil {
		// A stranger's schema need not be one that the community can use: the server says what is wrong with a call.
		out.Input, out.Output = json.RawMessage(`{"type":"object"}`), nil
		err = n.community.Offer(out, n.mcpProvider(c), opts...)
	}
	return err
}

// mcpProvider calls the tool for each call. A tool that is no longer what it was is called for nobody.
func (n *Node) mcpProvider(c config.Capability) community.Provider {
	server, name, _ := strings.Cut(c.MCP, "/")
	return func(ctx context.Context, s community.Signal) (community.Reply, error) {
		out, err := n.callMCP(ctx, server, name, s.Data)
		n.served(ctx, c.Name, s, err)
		return community.Reply{Data: out, ContentType: "application/json"}, err
	}
}

func (n *Node) callMCP(ctx context.Context, server, name string, input []byte) ([]byte, error) {
	args, err := tool.DecodeArgs(input)
	if err != nil {
		return nil, community.Explain(community.ErrInvalid, err.Error())
	}
	t, err := n.mcpTool(ctx, server, name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", community.Explain(community.ErrAgentFailed, "its MCP server is not there"), err)
	}
	if why := t.Doubt(); why != "" {
		return nil, fmt.Errorf("%w: %s", community.Explain(community.ErrDenied, "the MCP server has changed this tool; a person has to accept it there"), why)
	}
	t.Accept()
	answer, err := t.Call(ctx, args, func(p community.Progress) { community.Report(ctx, p) })
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", community.Explain(community.ErrAgentFailed, "its MCP server did not answer the call"), err)
	case answer.IsError:
		return nil, community.Explain(community.ErrAgentFailed, answer.Text)
	case answer.Data != nil:
		return answer.Data, nil
	case json.Valid([]byte(answer.Text)):
		return []byte(answer.Text), nil
	}
	return json.Marshal(answer.Text)
}
