package mcpservers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"symbio/agent/node/config"
	"symbio/agent/tool"
	"symbio/agent/tool/mcp"
	"symbio/community"
)

// retryAfter is the time between two attempts to offer a tool whose server is
// not ready.
const retryAfter = time.Minute

// Offer offers the capabilities of all that are tools of MCP servers, each when
// its server is ready and its schema known. It reports once why one cannot be
// offered, and tries again every retryAfter. It returns when all are offered or
// failed for good, or ctx ends.
func (s *Servers) Offer(ctx context.Context, all []config.Capability, offer Offerer) error {
	var wg sync.WaitGroup
	for _, c := range all {
		if c.MCP != "" {
			wg.Go(func() { s.offerTool(ctx, c, offer) })
		}
	}
	wg.Wait()
	return nil
}

// Offerer offers a capability to other nodes, as community.Community.Offer
// does.
type Offerer = func(community.Capability, community.Provider, ...community.OfferOption) error

// offerTool offers one capability as soon as its server is ready.
func (s *Servers) offerTool(ctx context.Context, c config.Capability, offer Offerer) {
	server, name, _ := strings.Cut(c.MCP, "/")
	for told := ""; ; {
		t, err := s.Tool(ctx, server, name)
		if err == nil {
			if err = s.offerOne(c, t, offer); err == nil {
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		if told == "" {
			told = err.Error()
			s.cfg.Logger.Warn("capability not offered", "capability", c.Name, "err", err)
			s.cfg.Warn(c.Name, "it is not offered: "+told)
		}
		if !errors.Is(err, mcp.ErrNotReady) && !errors.Is(err, mcp.ErrUnknown) {
			return // another attempt would fail in the same way
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryAfter):
		}
	}
}

// offerOne offers a tool with the description and schemas of the configuration,
// and the tool's where the configuration has none.
func (s *Servers) offerOne(c config.Capability, t *mcp.Tool, offer Offerer) error {
	spec := t.Spec()
	out := community.Capability{Name: c.Name, Description: cmp.Or(c.Description, spec.Description), Idempotent: c.Idempotent}
	var err error
	if out.Input, out.Output, err = c.Schemas(); err != nil {
		return err
	}
	if out.Input == nil {
		out.Input = spec.Schema
	}
	if out.Output == nil {
		out.Output = t.Output
	}
	opts := []community.OfferOption{community.WithTimeout(c.Timeout), community.WithConcurrency(cmp.Or(c.Concurrency, config.Concurrency))}
	err = offer(out, s.provider(c), opts...)
	if err != nil && c.Input == nil && c.Output == nil {
		// A stranger's schema need not be one that the community can use: the
		// server says what is wrong with a call.
		out.Input, out.Output = json.RawMessage(`{"type":"object"}`), nil
		err = offer(out, s.provider(c), opts...)
	}
	return err
}

// provider calls the tool for each call.
func (s *Servers) provider(c config.Capability) community.Provider {
	server, name, _ := strings.Cut(c.MCP, "/")
	return func(ctx context.Context, signal community.Signal) (community.Reply, error) {
		out, err := s.call(ctx, server, name, signal.Data)
		return community.Reply{Data: out, ContentType: "application/json"}, err
	}
}

// call calls a tool. A tool that the server has changed since is not called.
func (s *Servers) call(ctx context.Context, server, name string, input []byte) ([]byte, error) {
	args, err := tool.DecodeArgs(input)
	if err != nil {
		return nil, community.Explain(community.ErrInvalid, err.Error())
	}
	t, err := s.Tool(ctx, server, name)
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
